"""TrainJob and the runtime that is made for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import Facts, Manifest, Rendered, ReplicaRef
from airflow_trainer_provider.kinds.strategic_merge import merged_template
from airflow_trainer_provider.kinds.trainer.training_runtime import (
    CLUSTER_TRAINING_RUNTIMES,
    TRAINING_RUNTIMES,
    parse_runtime_ref,
)
from airflow_trainer_provider.kinds.trainer.trainjob import TRAINJOB, progress, trainjob
from tests.golden_files import assert_golden
from tests.unit.kinds.specs import KEYS, job_of, meta

_SCHEMAS = Path(__file__).parent / "schemas"
RUNTIMES = Path(__file__).parents[3] / "cluster" / "manifests" / "runtimes.yaml"
NODES = ("jax", "pytorch", "xgboost")


def rendered(framework: str, facts: Facts | None = None, **fields: Any) -> Rendered:
    job = job_of(framework, **fields)
    TRAINJOB.renderer.check(job)
    return trainjob(lambda: KEYS).renderer.render(job, meta(job), facts or Facts())


def schema(version: str) -> Manifest:
    return json.loads((_SCHEMAS / f"{version}.json").read_text())


def named(name: str) -> Manifest:
    return next(each for each in yaml.safe_load_all(RUNTIMES.read_text()) if each["metadata"]["name"] == name)


def step(objects: Rendered, name: str = "node") -> Manifest:
    steps = objects.before[0]["spec"]["template"]["spec"]["replicatedJobs"]
    return next(each for each in steps if each["name"] == name)


def container(objects: Rendered, name: str = "node") -> Manifest:
    return step(objects, name)["template"]["spec"]["template"]["spec"]["containers"][0]


def variables(objects: Rendered, name: str = "node") -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(objects, name)["env"]}


@pytest.mark.parametrize("framework", [*NODES, "mpi"])
def test_the_rendered_objects_are_those_of_the_golden_file(framework):
    objects = rendered(framework)

    documents = [*objects.before, objects.main, *objects.after]
    assert_golden(f"trainer/{framework}.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


def test_golden_from_a_runtime():
    objects = rendered("pytorch", Facts(runtime=named("trainer-test-torch")), runtime_ref="trainer-test-torch")

    assert_golden(
        "trainer/runtime-ref.yaml", yaml.safe_dump_all([*objects.before, objects.main], sort_keys=False, width=120)
    )


@pytest.mark.parametrize("framework", [*NODES, "mpi"])
def test_the_models_of_the_api_know_every_field(framework):
    from kubeflow_trainer_api import models

    objects = rendered(framework)

    job = models.TrainerV1alpha1TrainJob.from_dict(objects.main)
    runtime = models.TrainerV1alpha1TrainingRuntime.from_dict(objects.before[0])

    assert job.to_dict() == objects.main
    assert runtime.to_dict() == objects.before[0]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("framework", [*NODES, "mpi"])
def test_every_version_knows_the_fields(framework, version):
    known = schema(version)
    fields = known["properties"]["spec"]["properties"]
    spec = rendered(framework, Facts(schema=known)).main["spec"]

    assert spec.keys() <= fields.keys()
    assert spec["trainer"].keys() <= fields["trainer"]["properties"].keys()


def test_before_2_2_the_runtime_carries_the_deadline():
    objects = rendered("jax", Facts(schema=schema("2.1")))

    assert "activeDeadlineSeconds" not in objects.main["spec"]
    assert step(objects)["template"]["spec"]["activeDeadlineSeconds"] == 3600
    rules = objects.before[0]["spec"]["template"]["spec"]["failurePolicy"]["rules"]
    assert rules == [{"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}]


def test_since_2_2_the_train_job_carries_the_deadline():
    objects = rendered("jax", Facts(schema=schema("2.2")), run_policy={"active_deadline_seconds": 0.5})

    assert objects.main["spec"]["activeDeadlineSeconds"] == 1
    assert "activeDeadlineSeconds" not in step(objects)["template"]["spec"]


def test_in_a_queue_the_jobs_carry_the_deadline_as_well():
    policy = {"active_deadline_seconds": 60, "backoff_limit": 1}
    queued = {"run_policy": policy, "scheduling": {"queue_name": "q"}}

    objects = rendered("jax", Facts(schema=schema("2.2")), **queued)

    assert objects.main["spec"]["activeDeadlineSeconds"] == 60
    assert step(objects)["template"]["spec"]["activeDeadlineSeconds"] == 60
    assert objects.before[0]["spec"]["template"]["spec"]["failurePolicy"] == {
        "maxRestarts": 1,
        "rules": [{"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}],
    }


def test_before_2_2_restarts_have_no_common_deadline():
    policy = {"active_deadline_seconds": 60, "backoff_limit": 1}

    with pytest.raises(UnsupportedField, match=r"run_policy\.active_deadline_seconds"):
        rendered("jax", Facts(schema=schema("2.1")), run_policy=policy)
    rendered("jax", Facts(schema=schema("2.2")), run_policy=policy)


def test_restarts_are_the_whole_jobs():
    objects = rendered("pytorch", run_policy={"backoff_limit": 2})

    assert objects.before[0]["spec"]["template"]["spec"]["failurePolicy"] == {"maxRestarts": 2}
    assert step(objects)["template"]["spec"]["backoffLimit"] == 0
    assert step(objects)["template"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(("framework", "name"), [("jax", "node"), ("mpi", "launcher")])
def test_an_exit_code_that_fails_a_step_fails_the_job_set(framework, name):
    policy = {"backoff_limit": 2, "exit_codes": {"fail": [3, "64-66"]}}

    objects = rendered(framework, run_policy=policy)

    (rule,) = objects.before[0]["spec"]["template"]["spec"]["failurePolicy"]["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
    # What JobSet's webhook takes.
    assert re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", rule["name"])
    evicted, killed, code = step(objects, name)["template"]["spec"]["podFailurePolicy"]["rules"]
    assert [evicted["action"], killed["action"]] == ["Count", "Count"]
    values = {"containerName": "node", "operator": "In", "values": [3, 64, 65, 66]}
    assert code == {"action": "FailJob", "onExitCodes": values}
    if name == "launcher":
        assert "podFailurePolicy" not in step(objects)["template"]["spec"]


def test_pods_that_still_run_go_with_the_end():
    with pytest.raises(UnsupportedField, match="clean_pods"):
        rendered("jax", run_policy={"clean_pods": "None"})


def test_nothing_deletes_a_trainjob_after_a_while():
    job = job_of("jax", on_finish_action="keep", run_policy={"ttl_seconds_after_finished": 5})

    with pytest.raises(UnsupportedField, match="can delete a TrainJob after a while"):
        ClusterBackend("trainer", None, "n").check(job)


def test_a_lost_node_of_an_elastic_job_is_replaced():
    elastic = {"min_nodes": 1, "max_nodes": 3, "max_restarts": 2}
    objects = rendered("pytorch", elastic=elastic, num_nodes=None)

    assert step(objects)["template"]["spec"]["backoffLimit"] == 2
    assert variables(objects)["PET_NNODES"] == "1:3"
    assert variables(objects)["TRAINER_REPLICA"] == "worker-$(TRAINER_INDEX)"


def test_the_users_variables_win():
    assert variables(rendered("xgboost", env={"DMLC_TRACKER_PORT": "1"}))["DMLC_TRACKER_PORT"] == "1"


def test_several_gpus_are_one_process():
    assert variables(rendered("xgboost", resources_per_node={"gpu": 4}))["DMLC_NUM_WORKER"] == "3"


def test_processes_by_keyword():
    assert variables(rendered("pytorch", num_proc_per_node="gpu"))["PET_NPROC_PER_NODE"] == "gpu"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"replicas": {"master": {"image": "other:1"}}}, "replicas.master.image"),
        ({"replicas": {"worker": {"env": {"A": "1"}}}}, "replicas.worker.env"),
        (
            {"num_nodes": 3, "replicas": {"worker": {"overrides": [{"index": 1, "args": ["x"]}]}}},
            "replicas.worker.overrides[0].args",
        ),
    ],
)
def test_nodes_that_differ_are_refused(fields, path):
    with pytest.raises(UnsupportedField, match="backend='native'") as caught:
        rendered("pytorch", **fields)
    assert caught.value.problems[0].field == path


def test_the_launcher_may_differ():
    objects = rendered("mpi", replicas={"launcher": {"image": "launcher:1"}})

    assert container(objects, "launcher")["image"] == "launcher:1"
    assert container(objects)["image"] == "registry.example/train:1"
    assert "resources" not in container(objects, "launcher")


def test_an_image_is_needed():
    with pytest.raises(SpecError, match="image"):
        rendered("pytorch", image=None)


def test_a_runtime_brings_the_image_and_keeps_its_initializers():
    runtime = named("trainer-test-torch")
    steps = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    initializer = {"name": "dataset-initializer", "template": {"spec": {"template": {"spec": {"containers": []}}}}}
    steps.insert(0, initializer)
    steps[1]["dependsOn"] = [{"name": "dataset-initializer", "status": "Complete"}]
    runtime["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 5

    objects = rendered("pytorch", Facts(runtime=runtime), image=None, runtime_ref="x")

    spec = objects.before[0]["spec"]["template"]["spec"]
    assert [each["name"] for each in spec["replicatedJobs"]] == ["dataset-initializer", "node"]
    assert spec["replicatedJobs"][0] == initializer
    assert step(objects)["dependsOn"] == [{"name": "dataset-initializer", "status": "Complete"}]
    assert container(objects)["image"] == "trainer.test/worker:test"
    assert "ttlSecondsAfterFinished" not in spec


def test_a_runtime_that_does_not_fit():
    with pytest.raises(SpecError, match="node, launcher"):
        rendered("mpi", Facts(runtime=named("trainer-test-torch")), runtime_ref="x")


def test_a_runtime_ref_names_a_cluster_training_runtime_or_one_of_the_namespace():
    assert parse_runtime_ref("torch") == (CLUSTER_TRAINING_RUNTIMES, "torch")
    assert parse_runtime_ref("TrainingRuntime/torch") == (TRAINING_RUNTIMES, "torch")
    with pytest.raises(SpecError, match="runtime_ref"):
        parse_runtime_ref("Deployment/torch")


def test_a_runtime_is_read_from_the_cluster_or_from_its_namespace():
    own = TRAINJOB.renderer.runtime_path(job_of("jax", runtime_ref="TrainingRuntime/x"), "ns")
    assert own == "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainingruntimes/x"
    shared = TRAINJOB.renderer.runtime_path(job_of("jax", runtime_ref="x"), "ns")
    assert shared == "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/x"
    assert TRAINJOB.renderer.runtime_path(job_of("jax"), "ns") is None


def test_a_template_is_laid_over_another():
    base = {
        "spec": {
            "containers": [
                {"name": "node", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}], "image": "i"}
            ],
            "tolerations": [{"key": "x"}],
        }
    }
    secret = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    over = {"spec": {"containers": [{"name": "node", "env": [secret]}, {"name": "side"}], "tolerations": []}}

    assert merged_template(base, over) == {
        "spec": {
            "containers": [
                {"name": "node", "env": [secret, {"name": "B", "value": "1"}], "image": "i"},
                {"name": "side"},
            ],
            "tolerations": [],
        }
    }


@pytest.mark.parametrize(
    ("framework", "fields", "limit"),
    [
        ("pytorch", {}, 48),
        ("pytorch", {"num_nodes": 11}, 47),
        ("mpi", {}, 44),
        ("pytorch", {"runtime_ref": "x"}, 33),
    ],
)
def test_a_name_leaves_room_for_what_the_controllers_append(framework, fields, limit):
    assert TRAINJOB.renderer.name_limit(job_of(framework, **fields)) == limit


def pod(step: str, index: int) -> Manifest:
    return {
        "metadata": {
            "labels": {
                "jobset.sigs.k8s.io/replicatedjob-name": step,
                "batch.kubernetes.io/job-completion-index": str(index),
            }
        }
    }


def test_a_pods_replica_follows_from_its_step_and_its_index():
    nodes, mpi = rendered("xgboost").main, rendered("mpi").main

    assert [TRAINJOB.replica_ref(pod("node", index), nodes) for index in range(4)] == [
        ReplicaRef("master", 0),
        ReplicaRef("worker", 0),
        ReplicaRef("worker", 1),
        None,
    ]
    assert TRAINJOB.replica_ref(pod("launcher", 0), mpi) == ReplicaRef("launcher", 0)
    assert TRAINJOB.replica_ref(pod("node", 1), mpi) == ReplicaRef("worker", 1)
    assert TRAINJOB.replica_ref(pod("dataset-initializer", 0), nodes) is None


def test_groups_of_a_trainjob_created_outside_airflow():
    main = {"metadata": {}, "spec": {"trainer": {"numNodes": 3}}}
    assert TRAINJOB.groups(main) == {"node": 3}
    # Its runtime says more, where that may be read.
    assert TRAINJOB.groups({"metadata": {}, "spec": {}}) == {"node": 1}
    main["status"] = {"jobsStatus": [{"name": "node"}, {"name": "launcher"}]}
    assert list(TRAINJOB.groups(main).items()) == [("launcher", 1), ("node", 3)]


def condition(kind: str, reason: str, status: str = "True") -> Manifest:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "why",
        "lastTransitionTime": "2026-11-21T07:00:00Z",
    }


@pytest.mark.parametrize(
    ("conditions", "phase"),
    [
        ([], None),
        ([condition("Suspended", "Resumed", "False")], None),
        ([condition("Suspended", "Suspended")], JobPhase.SUSPENDED),
        ([condition("Suspended", "Resumed", "False"), condition("Complete", "AllJobsCompleted")], JobPhase.SUCCEEDED),
        ([condition("Failed", "DeadlineExceeded")], JobPhase.FAILED),
    ],
)
def test_a_condition_that_is_true_gives_the_phase(conditions, phase):
    job_set = {"metadata": {"uid": "s"}, "status": {"restarts": 1}}
    controller = TRAINJOB.read({"status": {"conditions": conditions}}, [job_set])

    assert controller.phase is phase
    assert (controller.restarts, controller.job_set) == (1, "s")
    assert (controller.finished_at is not None) is bool(phase and phase.ended)


@pytest.mark.parametrize(
    ("codes", "action", "reason"),
    [
        (None, "FailJobSetFailurePolicyAction", "DeadlineExceeded"),
        ({"fail": [3]}, "FailJobSetFailurePolicyAction", "FailJobSetFailurePolicyAction"),
        (None, "ReachedMaxRestarts", "ReachedMaxRestarts"),
    ],
)
def test_a_job_whose_jobs_carry_the_deadline_says_so_when_that_ends_it(codes, action, reason):
    policy = {"active_deadline_seconds": 60, "backoff_limit": 1, **({"exit_codes": codes} if codes else {})}
    queued = rendered("jax", Facts(schema=schema("2.2")), run_policy=policy, scheduling={"queue_name": "q"})
    job_set = {"metadata": {}, "spec": queued.before[0]["spec"]["template"]["spec"], "status": {}}

    controller = TRAINJOB.read({"status": {"conditions": [condition("Failed", action)]}}, [job_set])

    assert (controller.phase, controller.reason) == (JobPhase.FAILED, reason)


def test_progress_is_read_from_the_trainers_status():
    # JSON has no such numbers as the last ones.
    metrics = {"loss": "0.25", "accuracy": "NaN", "norm": "Infinity", "note": "none"}
    reported = {
        "progressPercentage": 40,
        "metrics": [{"name": name, "value": value} for name, value in metrics.items()],
    }
    found = progress({"status": {"trainerStatus": reported}})

    assert found is not None
    assert (found.percent, found.remaining_seconds, found.metrics) == (40, None, {"loss": 0.25})
    assert progress({}) is None


@pytest.mark.parametrize(
    ("name", "phase", "reason", "restarts"),
    [
        ("fail", JobPhase.FAILED, "ReachedMaxRestarts", 0),
        ("back", JobPhase.SUCCEEDED, "AllJobsCompleted", 1),
        ("dead", JobPhase.FAILED, "DeadlineExceeded", 0),
        ("sus", JobPhase.SUCCEEDED, "AllJobsCompleted", 0),
    ],
)
def test_objects_of_a_real_cluster(name, phase, reason, restarts):
    objects = json.loads((Path(__file__).parent / "objects" / f"{name}.json").read_text())
    by_kind: dict[str, list[Manifest]] = {}
    for each in objects:
        by_kind.setdefault(each["kind"], []).append(each)
    main = by_kind["TrainJob"][0]

    controller = TRAINJOB.read(main, by_kind.get("JobSet", []))

    assert (controller.phase, controller.reason, controller.restarts) == (phase, reason, restarts)
    assert all(TRAINJOB.replica_ref(pod, main) for pod in by_kind.get("Pod", []))


_NO_RETRY = {"backoffLimit": 0}


@pytest.mark.parametrize(
    ("policy", "restarts", "job", "deleted", "keeps"),
    [
        (None, 0, _NO_RETRY, {}, True),
        ({"maxRestarts": 1}, 0, _NO_RETRY, {}, False),
        ({"maxRestarts": 1}, 1, _NO_RETRY, {}, True),
        ({"rules": [{"action": "FailJobSet"}]}, 0, _NO_RETRY, {}, True),
        ({"rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts"}]}, 0, _NO_RETRY, {}, False),
        # Its Jobs take a pod that is being deleted for failed, and make another.
        (None, 0, {"backoffLimit": 3}, {}, False),
        (None, 0, {}, {}, False),
        (None, 0, {"backoffLimit": 3, "podFailurePolicy": {"rules": []}}, {}, True),
        (None, 0, {"podReplacementPolicy": "Failed"}, {}, True),
        (None, 0, {"podReplacementPolicy": "TerminatingOrFailed"}, {}, False),
        (None, 0, _NO_RETRY, {"deletionTimestamp": "2026-11-21T07:00:00Z"}, False),
    ],
)
def test_a_replica_that_is_complete_stays_so_unless_something_may_start_it_again(policy, restarts, job, deleted, keeps):
    steps = [{"name": "node", "template": {"spec": job}}]
    job_set = {
        "kind": "JobSet",
        "metadata": {"uid": "a", **deleted},
        "spec": {"replicatedJobs": steps, **({"failurePolicy": policy} if policy else {})},
        "status": {"restarts": restarts},
    }

    assert TRAINJOB.read({"metadata": {}, "spec": {}}, [job_set]).keeps_complete is keeps
    assert TRAINJOB.read({"metadata": {}, "spec": {}}, []).keeps_complete is False


def test_the_leader_of_an_elastic_job_has_a_service():
    elastic = {"min_nodes": 1, "max_nodes": 2, "rdzv_conf": {"join_timeout": 300}}
    objects = rendered("pytorch", elastic=elastic, num_nodes=None)

    name = objects.before[1]["metadata"]["name"]
    assert variables(objects)["PET_RDZV_ENDPOINT"] == f"{name}:29500"
    assert variables(objects)["PET_RDZV_CONF"] == "join_timeout=300"
    assert len(rendered("pytorch").before) == 1


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"env": {"OMPI_MCA_plm_rsh_args": "-p 22"}}, "env"),
        (
            {"replicas": {"worker": {"overrides": [{"index": 0, "env": {"OMPI_MCA_plm_rsh_args": "-p 22"}}]}}},
            "replicas.worker.overrides[0].env",
        ),
    ],
)
def test_variables_that_trainer_overwrites_are_refused(fields, path):
    with pytest.raises(UnsupportedField, match="OMPI_MCA_plm_rsh_args") as error:
        rendered("mpi", **fields, runtime_ref="mpi")
    assert error.value.problems[0].field == path


def test_variables_of_a_job_without_a_runtime_are_its_own():
    assert variables(rendered("mpi", env={"OMPI_MCA_plm_rsh_args": "-v"}), "launcher")["OMPI_MCA_plm_rsh_args"] == "-v"
