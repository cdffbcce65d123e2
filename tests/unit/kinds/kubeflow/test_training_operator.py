"""The Training Operator's jobs: what is written down, what is refused, and which pods are which replica."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.job.plan.framework import Address
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Facts, Manifest, ReplicaRef
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.kubeflow.training_operator import JAXJOB, PADDLEJOB, PYTORCHJOB, TFJOB, XGBOOSTJOB
from airflow_trainer_provider.kinds.mpi_operator.mpijob import MPIJOB_V1
from airflow_trainer_provider.kinds.registry import KINDS as ALL
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

_EXIT_CODES = "run_policy.exit_codes"


def main_of(job: JobPlan, kind: Kind | None = None) -> Manifest:
    kind = kind or KINDS[job.framework.name]
    kind.renderer.check(job)
    return kind.renderer.render(job, meta(job, "train"), Facts()).main


def specs_of(main: Manifest) -> Manifest:
    return next(value for name, value in main["spec"].items() if name.endswith("ReplicaSpecs"))


def container_of(main: Manifest, kind: str) -> Manifest:
    return specs_of(main)[kind]["template"]["spec"]["containers"][0]


def env_of(main: Manifest, kind: str) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container_of(main, kind)["env"]}


@pytest.mark.parametrize("framework", SPECS)
def test_the_rendered_job_is_that_of_the_golden_file(framework):
    job, kind = job_of(framework), KINDS[framework]
    kind.renderer.check(job)

    rendered = kind.renderer.render(job, meta(job), Facts())

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
        (
            "pytorch",
            {"num_nodes": None, "elastic": {"min_nodes": 1, "max_nodes": 2, "rdzv_conf": {"join_timeout": 300}}},
            ELASTIC | {"PET_NPROC_PER_NODE", "PET_RDZV_CONF"},
        ),
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
    elastic = {
        "min_nodes": 1,
        "max_nodes": 3,
        "max_restarts": 2,
        "rdzv_conf": {"join_timeout": 300, "read_timeout": 60},
    }
    main = main_of(job_of("pytorch", num_nodes=None, num_proc_per_node="auto", elastic=elastic))

    assert main["spec"]["nprocPerNode"] == "auto"
    assert main["spec"]["elasticPolicy"] == {
        "minReplicas": 1,
        "maxReplicas": 3,
        "maxRestarts": 2,
        "rdzvBackend": "c10d",
        "rdzvId": "train",
        "rdzvConf": [{"key": "join_timeout", "value": "300"}, {"key": "read_timeout", "value": "60"}],
    }
    # A lost node is replaced, so many times.
    assert (specs_of(main)["Worker"]["restartPolicy"], main["spec"]["runPolicy"]["backoffLimit"]) == ("OnFailure", 3)
    both = main_of(job_of("pytorch", num_nodes=None, elastic=elastic, run_policy={"backoff_limit": 1}))
    assert both["spec"]["runPolicy"]["backoffLimit"] == 4


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


@pytest.mark.parametrize("framework", SPECS)
@pytest.mark.parametrize(("limit", "policy", "written"), [(0, "Never", None), (1, "OnFailure", 2), (3, "OnFailure", 4)])
def test_all_replicas_together_restart_as_often_as_the_limit_says(framework, limit, policy, written):
    main = main_of(job_of(framework, run_policy={"backoff_limit": limit}))

    # The operator fails a job when its last restart begins: it has to allow one more.
    assert main["spec"]["runPolicy"].get("backoffLimit") == written
    assert {spec["restartPolicy"] for spec in specs_of(main).values()} == {policy}


def pod_with(*containers: Manifest, init: tuple[Manifest, ...] = (), phase: str = "Running") -> Manifest:
    return {"status": {"phase": phase, "initContainerStatuses": list(init), "containerStatuses": list(containers)}}


def container(restarts: int, **state: Any) -> Manifest:
    return {"restartCount": restarts, "state": state}


RUNS: Manifest = {"running": {}}
FAILED: Manifest = {"terminated": {"exitCode": 1}}
BACKS_OFF: Manifest = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.key)
@pytest.mark.parametrize(
    ("limit", "pods", "patched"),
    [
        (2, [pod_with(container(2, **BACKS_OFF)), pod_with(container(0, **RUNS))], 2),
        (2, [pod_with(container(2, **FAILED))], 2),
        # What counts is all replicas together, their init containers and sidecars too.
        (2, [pod_with(container(1, **FAILED)), pod_with(container(1, **RUNS))], 2),
        (2, [pod_with(container(0, **FAILED), container(1, **RUNS), init=(container(1, **RUNS),))], 2),
        # There is a restart left, or none is needed.
        (2, [pod_with(container(1, **BACKS_OFF))], None),
        (2, [pod_with(container(2, **RUNS))], None),
        (2, [pod_with(container(2, terminated={"exitCode": 0}))], None),
        # The operator looks at pods that run only.
        (2, [pod_with(container(2, **FAILED), phase="Failed")], None),
        (0, [pod_with(container(0, **FAILED))], None),
    ],
)
def test_a_job_whose_restarts_are_used_up_is_failed_before_another_begins(kind, limit, pods, patched):
    job = job_of(next(name for name, each in KINDS.items() if each is kind), run_policy={"backoff_limit": limit})
    main = main_of(job)

    patch = kind.controller.without_restart(main, pods)

    assert patch == (None if patched is None else {"spec": {"runPolicy": {"backoffLimit": patched}}})
    if patch:
        main["spec"]["runPolicy"].update(patch["spec"]["runPolicy"])
        assert kind.controller.without_restart(main, pods) is None


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.key)
@pytest.mark.parametrize(
    ("limit", "init", "phase", "blocks"),
    [
        (2, container(3, **BACKS_OFF), "Pending", True),
        (2, container(3, **FAILED), "Pending", True),
        # It runs again, or may.
        (2, container(3, **RUNS), "Pending", False),
        (2, container(2, **BACKS_OFF), "Pending", False),
        # The operator counts the restarts of pods that run, and fails a job whose pod has failed.
        (2, container(3, **BACKS_OFF), "Running", False),
        (0, container(0, **FAILED), "Failed", False),
    ],
)
def test_an_init_container_that_has_used_up_the_restarts_keeps_the_job_from_starting(kind, limit, init, phase, blocks):
    job = job_of(next(name for name, each in KINDS.items() if each is kind), run_policy={"backoff_limit": limit})
    main = main_of(job)
    group = next(iter(kind.groups(main)))
    labels = {"training.kubeflow.org/replica-type": group, "training.kubeflow.org/replica-index": "0"}
    pod = pod_with(container(0, waiting={"reason": "PodInitializing"}), init=(init,), phase=phase)

    ref = kind.controller.blocked_by(main, [pod | {"metadata": {"labels": labels}}])

    assert ref == (ReplicaRef(group, 0) if blocks else None)


def test_exit_codes_that_only_the_tasks_retries_depend_on_change_no_restart_policy():
    main = main_of(job_of("jax", run_policy={"exit_codes": {"fail": ["1-127"]}}))

    assert {spec["restartPolicy"] for spec in specs_of(main).values()} == {"Never"}
    assert main["metadata"]["annotations"]["airflow-trainer-provider/exit-codes"] == '{"fail":["1-127"]}'


@pytest.mark.parametrize(("asked", "written"), [("None", "None"), ("Running", "Running"), ("All", "Running")])
def test_pods_that_still_run_may_outlive_the_job(asked, written):
    main = main_of(job_of("jax", run_policy={"clean_pods": asked}))

    # All of them go once the outcome is safe: the operator would delete them before it has been read.
    assert main["spec"]["runPolicy"]["cleanPodPolicy"] == written
    assert main["metadata"]["annotations"].get("airflow-trainer-provider/clean-pods") == {"All": "All"}.get(asked)


@pytest.mark.parametrize("policy", [{"clean_pods": "All"}, {"clean_pods": "None"}, {"ttl_seconds_after_finished": 5}])
def test_what_is_for_jobs_that_are_kept_is_refused_for_others(policy):
    with pytest.raises(UnsupportedField, match="unless the job is kept"):
        ClusterBackend("training-operator", None, "n").check(job_of("jax", run_policy=policy))


def test_the_deadline_is_the_pods_too():
    main = main_of(job_of("jax", run_policy={"active_deadline_seconds": 0.5}))

    assert main["spec"]["runPolicy"] == {"cleanPodPolicy": "Running", "activeDeadlineSeconds": 1}
    assert specs_of(main)["Worker"]["template"]["spec"]["activeDeadlineSeconds"] == 1
    without = main_of(job_of("jax", run_policy={}))
    assert "activeDeadlineSeconds" not in without["spec"]["runPolicy"]
    assert "activeDeadlineSeconds" not in specs_of(without)["Worker"]["template"]["spec"]


@pytest.mark.parametrize(
    ("policy", "held", "seconds"),
    [
        ({"activeDeadlineSeconds": 60}, [], 60),
        ({}, [], None),
        ({"activeDeadlineSeconds": 60, "suspend": True}, [], None),
        # Suspended, or resumed a moment ago: the operator has not set the new start yet.
        ({"activeDeadlineSeconds": 60, "suspend": False}, [("Suspended", "True")], None),
        ({"activeDeadlineSeconds": 60, "suspend": False}, [("Suspended", "False"), ("Running", "True")], 60),
    ],
)
def test_when_the_time_of_a_job_is_up(policy, held, seconds):
    conditions = [{"type": name, "status": status} for name, status in held]
    main = {"spec": {"runPolicy": policy}, "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": conditions}}

    expected = None if seconds is None else datetime(2026, 1, 1, 0, 1, tzinfo=timezone.utc)
    assert ALL["jaxjob"].controller.deadline_at(main) == expected
    assert ALL["mpijob-v2beta1"].controller.deadline_at(main) == expected
    assert ALL["jaxjob"].controller.deadline_at(main | {"status": None}) is None


def test_the_queue_is_named_on_the_main_object_only():
    main = main_of(job_of("jax", scheduling={"queue_name": "gpus"}))

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
        ("mpi", {"scheduling": {"queue_name": "gpus"}}, "scheduling.queue_name"),
        (
            "mpi",
            {"pod_template": {"spec": {"automountServiceAccountToken": False}}},
            "pod_template.spec.automountServiceAccountToken",
        ),
        ("mpi", {"replicas": {"launcher": {"resources": {"gpu": 1}}}}, "replicas.launcher.resources.gpu"),
        *(
            (framework, {**more, "run_policy": {**policy, "exit_codes": {"restart": ["128-255"]}}}, _EXIT_CODES)
            for framework, policy, more in (
                ("jax", {"backoff_limit": 1}, {}),
                ("mpi", {"backoff_limit": 1}, {}),
                ("pytorch", {}, {"num_nodes": None, "elastic": {"min_nodes": 1, "max_nodes": 2}}),
            )
        ),
    ],
)
def test_what_the_operator_cannot_do_is_refused(framework, fields, field):
    with pytest.raises(UnsupportedField) as raised:
        KINDS[framework].renderer.check(job_of(framework, **fields))

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
        JAXJOB.renderer.check(job_of("jax", image=None))


@pytest.mark.parametrize("framework", SPECS)
def test_no_pod_has_a_longer_name_than_a_host_may(framework):
    job = job_of(framework, **({"num_nodes": 11} if framework != "xgboost" else {"num_workers": 11}))

    limit = KINDS[framework].renderer.name_limit(job)

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
    assert JAXJOB.replica_ref({"metadata": {"labels": labels}}, {"spec": {"jaxReplicaSpecs": {"Worker": {}}}}) is None


def test_suspending_and_the_time_to_live_are_patches_of_the_run_policy():
    assert JAXJOB.suspension.patch(True) == {"spec": {"runPolicy": {"suspend": True}}}
    assert JAXJOB.suspension.patch(False) == {"spec": {"runPolicy": {"suspend": False}}}
    assert JAXJOB.retention.patch is not None
    assert JAXJOB.retention.patch(60) == {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 60}}}


@pytest.mark.parametrize("policy", [{"clean_pods": "All"}, {"ttl_seconds_after_finished": 5}])
def test_a_job_that_is_kept_only_when_it_fails_may_say_how(policy):
    job = job_of("jax", run_policy=policy, on_finish_action="delete_succeeded")

    ClusterBackend("training-operator", None, "n").check(job)


def test_the_only_replica_of_a_tfjob_has_its_own_address():
    main = main_of(job_of("tensorflow", num_nodes=1, replicas={}))

    task = {"type": "chief", "index": 0}
    assert json.loads(env_of(main, "Chief")["TF_CONFIG"]) == {
        "cluster": {"chief": ["train-chief-0:2222"]},
        "task": task,
    }
