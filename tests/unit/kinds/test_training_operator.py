"""The Training Operator's jobs: what is written down, what is refused, and which pods are which replica."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.frameworks.base import Address
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.kinds.base import Facts, Kind, Manifest
from airflow_trainer_provider.kinds.mpijob import MPIJOB_V1
from airflow_trainer_provider.kinds.training_operator import JAXJOB, PADDLEJOB, PYTORCHJOB, TFJOB, XGBOOSTJOB
from tests.golden_files import assert_golden
from tests.unit.kinds.specs import SPECS, job_of, meta

KINDS = {
    "pytorch": PYTORCHJOB,
    "tensorflow": TFJOB,
    "mpi": MPIJOB_V1,
    "xgboost": XGBOOSTJOB,
    "paddle": PADDLEJOB,
    "jax": JAXJOB,
}
#: What the operator sets in each pod, by its source.
RANKS = {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}
INJECTED = {
    "pytorch": RANKS | {f"PET_{name}" for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES")},
    "tensorflow": {"TF_CONFIG"},
    "mpi": set(),
    "xgboost": RANKS | {"WORKER_ADDRS", "WORKER_PORT"},
    "paddle": {"PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_JOB_ID"},
    "jax": {"COORDINATOR_ADDRESS", "COORDINATOR_PORT", "NUM_PROCESSES", "PROCESS_ID"},
}
#: Where it sets others.
WITHOUT_MASTER = {"PET_NNODES"}
ELASTIC = {"PET_NNODES", "PET_MAX_RESTARTS", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID"}


def main_of(job: Job, kind: Kind | None = None) -> Manifest:
    kind = kind or KINDS[job.framework.name]
    kind.check(job)
    return kind.render(job, meta(job, "train"), Facts()).main


def specs_of(main: Manifest) -> Manifest:
    return next(value for name, value in main["spec"].items() if name.endswith("ReplicaSpecs"))


def container_of(main: Manifest, kind: str) -> Manifest:
    return specs_of(main)[kind]["template"]["spec"]["containers"][0]


def env_of(main: Manifest, kind: str) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container_of(main, kind)["env"]}


@pytest.mark.parametrize("framework", SPECS)
def test_golden(framework):
    job, kind = job_of(framework), KINDS[framework]
    kind.check(job)

    rendered = kind.render(job, meta(job), Facts())

    assert not rendered.before
    assert not rendered.after
    assert_golden(f"training-operator/{framework}.yaml", yaml.safe_dump_all([rendered.main], sort_keys=False))


@pytest.mark.parametrize(
    ("framework", "fields", "injected"),
    [
        *((framework, {}, INJECTED[framework] | {"PET_NPROC_PER_NODE"}) for framework in SPECS),
        ("tensorflow", {"num_nodes": 1, "replicas": {}}, set()),
        (
            "pytorch",
            {"num_nodes": None, "replicas": {"worker": {"replicas": 2}}},
            WITHOUT_MASTER | {"PET_NPROC_PER_NODE"},
        ),
        ("pytorch", {"num_nodes": None, "elastic": {"min_nodes": 1, "max_nodes": 2}}, ELASTIC | {"PET_NPROC_PER_NODE"}),
    ],
)
def test_a_script_finds_every_variable_that_its_framework_promises(framework, fields, injected):
    job = job_of(framework, **fields)
    main = main_of(job)

    addresses = {replica.name: Address("host", 1) for replica in job.replicas}
    for replica in job.replicas:
        kind = next(kind for kind in specs_of(main) if kind.lower() == replica.group)
        promised = job.framework.environment(job, replica, addresses).keys()
        found = injected | env_of(main, kind).keys()
        exported = " ".join(container_of(main, kind).get("command", []))
        assert {name for name in promised - found if f"export {name}=" not in exported} == set()


def test_workers_without_a_master_are_given_a_rendezvous():
    job = job_of("pytorch", num_nodes=None, replicas={"worker": {"replicas": 2}})

    env = env_of(main_of(job), "Worker")

    assert (env["MASTER_ADDR"], env["PET_MASTER_ADDR"]) == ("train-worker-0", "train-worker-0")
    assert (env["RANK"], env["PET_NODE_RANK"], env["WORLD_SIZE"]) == ("$(TRAINER_INDEX)", "$(TRAINER_INDEX)", "2")


def test_the_elastic_policy_is_the_operators():
    elastic = {"min_nodes": 1, "max_nodes": 3, "max_restarts": 2}
    main = main_of(job_of("pytorch", num_nodes=None, num_proc_per_node="auto", elastic=elastic))

    assert main["spec"]["nprocPerNode"] == "auto"
    assert main["spec"]["elasticPolicy"] == {
        "minReplicas": 1,
        "maxReplicas": 3,
        "maxRestarts": 2,
        "rdzvBackend": "c10d",
        "rdzvId": "train",
    }
    # A lost node is replaced, so many times.
    assert (specs_of(main)["Worker"]["restartPolicy"], main["spec"]["runPolicy"]["backoffLimit"]) == ("OnFailure", 3)


def test_a_worker_of_xgboost_learns_its_rank_from_the_operator():
    main = main_of(job_of("xgboost"))

    assert env_of(main, "Master")["DMLC_TASK_ID"] == "0"
    assert container_of(main, "Master")["command"] == ["python", "train.py"]
    command = container_of(main, "Worker")["command"]
    assert command[:3] == ["sh", "-c", 'export DMLC_TASK_ID="$RANK"; exec "$@"']
    assert command[4:] == ["python", "train.py", "--epochs", "4"]
    entry_point = main_of(job_of("xgboost", command=None))
    assert "command" not in container_of(entry_point, "Worker")


def test_tensorflow_workers_alone_are_all_waited_for():
    workers = main_of(job_of("tensorflow", num_nodes=None, replicas={"worker": {"replicas": 2}}))

    assert workers["spec"]["successPolicy"] == "AllWorkers"
    assert "successPolicy" not in main_of(job_of("tensorflow"))["spec"]


@pytest.mark.parametrize(("nodes", "limit", "policy", "told"), [(2, 0, "Never", None), (2, 1, "OnFailure", 3)])
def test_each_replica_may_start_again_as_often_as_the_job(nodes, limit, policy, told):
    main = main_of(job_of("jax", num_nodes=nodes, run_policy={"backoff_limit": limit}))

    # The operator fails a job when its last restart begins: it has to allow one more.
    assert main["spec"]["runPolicy"].get("backoffLimit") == told
    assert specs_of(main)["Worker"]["restartPolicy"] == policy


def test_only_the_launchers_restarts_are_counted():
    main = main_of(job_of("mpi", num_nodes=8, run_policy={"backoff_limit": 2}))

    assert main["spec"]["runPolicy"]["backoffLimit"] == 3


def test_the_deadline_is_the_pods_too():
    main = main_of(job_of("jax", run_policy={"active_deadline_seconds": 0.5}))

    assert main["spec"]["runPolicy"] == {"cleanPodPolicy": "Running", "activeDeadlineSeconds": 1}
    assert specs_of(main)["Worker"]["template"]["spec"]["activeDeadlineSeconds"] == 1
    without = main_of(job_of("jax", run_policy={}))
    assert "activeDeadlineSeconds" not in without["spec"]["runPolicy"]
    assert "activeDeadlineSeconds" not in specs_of(without)["Worker"]["template"]["spec"]


def test_the_queue_is_named_on_the_main_object_only():
    main = main_of(job_of("jax", queue_name="gpus"))

    assert main["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    assert "kueue.x-k8s.io/queue-name" not in specs_of(main)["Worker"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("framework", "fields", "field"),
    [
        (
            "pytorch",
            {"replicas": {"worker": {"overrides": [{"index": 0, "args": []}]}}},
            "replicas.worker.overrides[0]",
        ),
        ("jax", {"runtime_ref": "jax-distributed"}, "runtime_ref"),
        ("pytorch", {"env": {"RANK": "7"}}, "env"),
        ("xgboost", {"replicas": {"worker": {"env": {"RANK": "7"}}}}, "replicas.worker.env"),
        ("mpi", {"queue_name": "gpus"}, "queue_name"),
        ("mpi", {"replicas": {"launcher": {"resources": {"gpu": 1}}}}, "replicas.launcher.resources.gpu"),
    ],
)
def test_what_the_operator_cannot_do_is_refused(framework, fields, field):
    with pytest.raises(UnsupportedField) as raised:
        KINDS[framework].check(job_of(framework, **fields))

    (problem,) = raised.value.problems
    assert problem.field == field
    assert "'training-operator'" in str(raised.value)
    assert "7" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "PET_MAX_RESTARTS"),
        ({"num_nodes": None, "replicas": {"worker": {"replicas": 2}}}, "MASTER_PORT"),
    ],
)
def test_variables_that_the_operator_does_not_set_are_the_users(fields, name):
    main = main_of(job_of("pytorch", env={name: "7"}, **fields))

    assert env_of(main, "Worker")[name] == "7"


def test_an_image_is_asked_for():
    with pytest.raises(SpecError, match="image"):
        JAXJOB.check(job_of("jax", image=None))


@pytest.mark.parametrize("framework", SPECS)
def test_no_pod_has_a_longer_name_than_a_host_may(framework):
    job = job_of(framework, **({"num_nodes": 11} if framework != "xgboost" else {"num_workers": 11}))

    limit = KINDS[framework].name_limit(job)

    ends = {f"-{replica.name}" for replica in job.replicas if replica.group != "launcher"}
    assert max(len("n" * limit + end) for end in ends) == 63


def test_groups_of_a_manifest_of_the_users_own_come_in_the_order_of_their_ranks():
    specs = {"PS": {"replicas": 2}, "Worker": {"replicas": 3}, "Chief": {}, "Evaluator": {"replicas": 1}}

    groups = TFJOB.groups({"spec": {"tfReplicaSpecs": specs}})

    assert list(groups.items()) == [("chief", 1), ("worker", 3), ("ps", 2), ("evaluator", 1)]


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"training.kubeflow.org/replica-type": "helper", "training.kubeflow.org/replica-index": "0"},
        {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "x"},
    ],
)
def test_other_pods_are_no_replicas(labels):
    assert JAXJOB.place({"metadata": {"labels": labels}}, {"spec": {"jaxReplicaSpecs": {"Worker": {}}}}) is None


def test_patches():
    assert JAXJOB.suspend(True) == {"spec": {"runPolicy": {"suspend": True}}}
    assert JAXJOB.suspend(False) == {"spec": {"runPolicy": {"suspend": False}}}
    assert JAXJOB.ttl is not None
    assert JAXJOB.ttl(60) == {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 60}}}
