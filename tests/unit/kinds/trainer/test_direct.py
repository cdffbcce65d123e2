"""When a TrainJob starts from the named runtime itself, and why not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.operations.order import order_of
from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import Facts, Manifest, Rendered
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.trainer.trainjob import TRAINJOB
from airflow_trainer_provider.spec import parse_spec
from tests.golden_files import assert_golden

IDENTITY = Identity(dag_id="nightly", run_id="monday", task_id="train")
NAME = "nightly-train-0123456789-1"
_SCHEMAS = Path(__file__).parent / "schemas"
_OWN = "The job gets a runtime of its own, made from TrainingRuntime/team, because of "
_LATER = "env, whose variables refer to later ones"
_DIRECT = "The TrainJob starts from TrainingRuntime team itself."
_KAI = {"scheduler_name": "kai-scheduler"}
_POLICIES = {"pytorch": {"torch": {}}, "jax": {"jax": {}}, "xgboost": {"xgboost": {}}}


def schema(version: str = "2.3") -> Manifest:
    return json.loads((_SCHEMAS / f"{version}.json").read_text())


def runtime(framework: str = "pytorch") -> Manifest:
    """One whose pods have what every job's pods have, and with fields of its own."""
    container = {
        "name": "node",
        "image": "registry.example/team:1",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [{"name": "TEAM", "value": "vision"}],
        "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}],
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "volumes": [{"name": "scripts", "configMap": {"name": "scripts", "optional": True}}],
        "containers": [container],
    }
    step = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "team"},
        "spec": {
            "mlPolicy": {"numNodes": 2, **copy.deepcopy(_POLICIES[framework])},
            "template": {"spec": {"replicatedJobs": [step]}},
        },
    }


def rendered(of: Manifest | None = None, version: str = "2.3", framework: str = "pytorch", **fields: Any) -> Rendered:
    given = {"framework": framework, "command": ["python", "t.py"], "runtime_ref": "TrainingRuntime/team", **fields}
    facts = Facts(schema=schema(version), runtime=runtime(framework) if of is None else of)
    return order_of(TRAINJOB, "ns", plan_job(parse_spec(given)), IDENTITY).render(NAME, facts)


def changed(path: str, value: Any) -> Manifest:
    """The runtime with one field changed; None takes it out. ``pod`` and ``node`` stand for the pod, its container."""
    found = runtime()
    step = found["spec"]["template"]["spec"]["replicatedJobs"][0]
    pod = step["template"]["spec"]["template"]["spec"]
    start, *names, last = path.split(".")
    at: Any = {"runtime": found, "step": step, "pod": pod, "node": pod["containers"][0]}[start]
    for name in names:
        at = at.setdefault(name, {})
    at[last] = value
    if value is None:
        del at[last]
    return found


def _train(**container: Any) -> Manifest:
    return {"pod_template": {"spec": {"containers": [{"name": "train", **container}]}}}


def of_pods(objects: Rendered) -> Manifest:
    """The patch of the pods."""
    (patch,) = objects.main["spec"]["runtimePatches"]
    (step,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert step["name"] == "node"
    return step["template"]["spec"]["template"]


def _pod_in(of: Manifest) -> Manifest:
    """The pods' template in a runtime."""
    template: Manifest = of["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return template


def test_golden_from_a_runtime_itself(caplog):
    caplog.set_level("INFO")
    given = runtime()
    objects = rendered(
        given,
        env={"STAGE": "nightly", "TOKEN": {"secret": {"name": "hub", "key": "token"}}},
        args=["--epochs", "4"],
        resources_per_node={"cpu": 2, "gpu": 2},
        num_proc_per_node=2,
        scheduling={"node_selector": {"disk": "nvme"}, "tolerations": [{"key": "nvidia.com/gpu"}]},
        volumes=[{"mount_path": "/data", "claim": "sets", "read_only": True}],
        checkpoint={"claim": "models", "scope": "dag"},
        pod={"labels": {"team": "vision"}, "service_account": "reader", "image_pull": {"secrets": ["registry"]}},
        run_policy={"active_deadline_seconds": 3600, "grace_period_seconds": 10},
    )

    assert (objects.before, objects.after) == ((), ())
    assert caplog.messages == ["Runtime TrainingRuntime/team gives what the task leaves out: num_nodes=2.", _DIRECT]
    # The API server takes no TrainJob without its runtime.
    assert_golden("trainer/runtime-direct.yaml", yaml.safe_dump_all([given, objects.main], sort_keys=False, width=120))


def test_before_2_2_overrides_and_labels_change_the_pods():
    spec = rendered(version="2.1", volumes=[{"mount_path": "/data", "claim": "sets"}]).main["spec"]

    assert spec.keys() == {"runtimeRef", "trainer", "labels", "podTemplateOverrides"}
    assert spec["labels"][labels.JOB] == NAME
    (override,) = spec["podTemplateOverrides"]
    assert override == {
        "targetJobs": [{"name": "node"}],
        "metadata": {"labels": {**spec["labels"], labels.GROUP: "node"}},
        "spec": {
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "sets"}}],
            "containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        },
    }


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize("framework", sorted(_POLICIES))
def test_every_version_and_framework_starts_directly(framework, version):
    objects = rendered(version=version, framework=framework, num_nodes=2)

    assert objects.note == _DIRECT
    assert objects.before == ()
    fields = schema(version)["properties"]["spec"]["properties"]
    assert objects.main["spec"].keys() <= fields.keys()
    assert objects.main["spec"]["trainer"].keys() <= fields["trainer"]["properties"].keys()


def test_the_annotations_are_the_same_as_with_a_runtime_of_its_own():
    direct, own = rendered(), rendered(changed("pod.restartPolicy", None))

    assert (len(direct.before), len(own.before)) == (0, 1)
    assert direct.main["metadata"] == own.main["metadata"]


def test_the_variables_are_those_of_a_runtime_of_its_own():
    """But those that Trainer sets by the policy, to the same values."""
    direct, own = rendered(env={"A": "1"}), rendered(changed("pod.restartPolicy", None), env={"A": "1"})

    steps = own.before[0]["spec"]["template"]["spec"]["replicatedJobs"]
    wanted = {each["name"]: each for each in steps[0]["template"]["spec"]["template"]["spec"]["containers"][0]["env"]}
    found = {each["name"]: each for each in direct.main["spec"]["trainer"]["env"]}
    assert wanted.keys() - found.keys() == {"TEAM", *(name for name in wanted if name.startswith("PET_"))}
    assert found == {name: wanted[name] for name in found}
    assert {name: wanted[f"PET_{name}"]["value"] for name in ("NNODES", "NPROC_PER_NODE", "MASTER_ADDR")} == {
        "NNODES": "2",
        "NPROC_PER_NODE": str(direct.main["spec"]["trainer"]["numProcPerNode"]),
        "MASTER_ADDR": f"{NAME}-node-0-0.{NAME}",
    }


def test_pods_and_jobset_carry_the_labels_by_which_they_are_found():
    objects = rendered()

    (patch,) = objects.main["spec"]["runtimePatches"]
    of_job_set = patch["trainingRuntimeSpec"]["template"]["metadata"]["labels"]
    assert of_job_set[labels.JOB] == NAME
    assert of_pods(objects)["metadata"]["labels"] == {**of_job_set, labels.GROUP: "node"}


@pytest.mark.parametrize(
    ("fields", "in_pods"),
    [
        ({"scheduling": {"node_selector": {"disk": "nvme"}}}, ["nodeSelector"]),
        ({"scheduling": {"node_affinity": [{"key": "zone", "values": ["a"]}]}}, ["affinity"]),
        ({"scheduling": {"tolerations": [{"key": "gpu"}]}}, ["tolerations"]),
        ({"volumes": [{"mount_path": "/data", "claim": "sets"}]}, ["volumes", "containers"]),
        ({"resources_per_node": {"shared_memory": "1Gi"}}, ["volumes", "containers"]),
        ({"pod": {"service_account": "reader"}}, ["serviceAccountName"]),
        ({"pod": {"security": {"run_as_user": 5}}}, ["securityContext"]),
        ({"pod": {"image_pull": {"secrets": ["registry"]}}}, ["imagePullSecrets"]),
        ({"run_policy": {"grace_period_seconds": 5}}, ["terminationGracePeriodSeconds"]),
        ({"image": "other"}, []),
        ({"env": {"A": "$(TEAM)"}}, []),
        ({"env": {"TEAM": "other"}}, []),
        ({"resources_per_node": {"gpu": 1}}, []),
        ({"args": ["a"]}, []),
        ({"num_nodes": 4, "num_proc_per_node": 2}, []),
        ({"run_policy": {"active_deadline_seconds": 5}}, []),
    ],
)
def test_fields_that_trainjob_has(fields, in_pods):
    objects = rendered(**fields)

    assert objects.note == _DIRECT
    assert list(of_pods(objects)["spec"]) == in_pods


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"elastic": {"min_nodes": 1, "max_nodes": 2}}, "elastic"),
        ({"scheduling": {"queue_name": "training"}}, "scheduling.queue_name"),
        ({"run_policy": {"backoff_limit": 2}}, "failurePolicy"),
        ({"working_dir": "/srv"}, "containers.node.workingDir"),
        ({"pod": {"env_from": [{"secret": "hub"}]}}, "containers.node.envFrom"),
        ({"pod": {"image_pull": {"policy": "Always"}}}, "containers.node.imagePullPolicy"),
        ({"scheduling": {"priority_class": "research"}}, "priorityClassName"),
        ({"scheduling": {"topology": {"key": "zone", "policy": "spread"}}}, "topologySpreadConstraints"),
        ({"pod_template": {"spec": {"containers": [{"name": "train"}, {"name": "b"}]}}}, "containers"),
        ({"pod_template": {"spec": {"hostNetwork": True}}}, "hostNetwork"),
        # One that is mounted there already would be merged with it.
        ({"volumes": [{"mount_path": "/scripts", "name": "c", "claim": "c"}]}, "containers.node.volumeMounts"),
        ({"volumes": [{"mount_path": "/x", "name": "scripts", "claim": "c"}]}, "volumes"),
        ({"volumes": [{"mount_path": "/src", "git": {"repository": "https://h/x", "image": "g"}}]}, "initContainers"),
        ({"env": {"PET_NNODES": "7"}}, "env.PET_NNODES"),
        (_train(env=[{"name": "PET_NODE_RANK", "value": "7"}]), "env.PET_NODE_RANK"),
        (_train(tty=True), "containers.node.tty"),
        ({"env": {"A": "$(PET_NNODES)"}}, _LATER),
        ({"env": {"TEAM": "$(B)", "B": "1"}}, _LATER),
        ({"num_proc_per_node": "gpu"}, "num_proc_per_node"),
        ({"command": ["tune", "run"]}, "command"),
        ({"args": [f"{at}" for at in range(129)]}, "trainer.args"),
    ],
)  # fmt: skip
def test_fields_of_the_task_that_trainjob_does_not_have(fields, reasons):
    objects = rendered(**fields)

    assert objects.note == f"{_OWN}{reasons}."
    assert [each["kind"] for each in objects.before][:1] == ["TrainingRuntime"]


@pytest.mark.parametrize(
    ("path", "value", "reasons"),
    [
        ("step.template.spec.backoffLimit", None, "backoffLimit"),
        ("step.template.spec.ttlSecondsAfterFinished", 5, "ttlSecondsAfterFinished"),
        ("step.template.metadata.labels", {}, "metadata"),
        ("step.replicas", 2, "replicas"),
        ("pod.restartPolicy", None, "restartPolicy"),
        ("pod.automountServiceAccountToken", None, "automountServiceAccountToken"),
        ("node.terminationMessagePolicy", None, "containers.node.terminationMessagePolicy"),
        ("node.terminationMessagePath", "/tmp/end", "containers.node.terminationMessagePath"),
        ("node.env", [{"name": "A", "value": "$(B)"}, {"name": "B", "value": ""}], _LATER),
        ("node.env", [{"name": "B", "value": ""}, {"name": "A", "value": "$(B)"}], None),
        ("node.args", ["a"], None),
        ("node.command", ["python", "t.py"], None),
        ("pod.serviceAccountName", "theirs", None),
        ("runtime.spec.mlPolicy", None, "mlPolicy"),
        ("runtime.spec.mlPolicy.torch.envInjection", {"targets": []}, None),
        ("runtime.spec.mlPolicy.torch", None, None),
        ("runtime.spec.template.spec.failurePolicy", {"maxRestarts": 0, "restartStrategy": "Recreate"}, None),
        ("runtime.spec.template.spec.failurePolicy", {"maxRestarts": 3}, "failurePolicy"),
        ("runtime.spec.template.spec.ttlSecondsAfterFinished", 5, "ttlSecondsAfterFinished"),
        ("runtime.spec.template.metadata.labels.team", "vision", None),
    ],
)
def test_what_the_pods_of_a_runtime_have_to_be(path, value, reasons):
    of = changed(path, value)
    before = copy.deepcopy(of)

    assert rendered(of).note in (_DIRECT if reasons is None else f"{_OWN}{reasons}.",)
    assert of == before


def test_a_container_of_another_name_or_place_is_not_the_trainings():
    first, second = copy.deepcopy(runtime()), copy.deepcopy(runtime())
    for each, containers in ((first, [{"name": "train", "image": "i"}]), (second, [{"name": "agent", "image": "i"}])):
        pod = each["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        pod["containers"] = [*containers, *(pod["containers"] if each is second else [])]

    assert rendered(first).note == f"{_OWN}containers."
    assert rendered(second).note == f"{_OWN}containers."


def test_no_runtime_itself_without_the_schema_or_under_mpi():
    order = order_of(TRAINJOB, "ns", plan_job(parse_spec({"framework": "pytorch", "runtime_ref": "team"})), IDENTITY)
    found = order.render(NAME, Facts(runtime=runtime())).note
    known = schema("2.2")
    del known["properties"]["spec"]["properties"]["runtimePatches"]

    assert found == f"{_OWN.replace('TrainingRuntime/', '')}the TrainJob CRD, whose schema is not published."
    assert order.render(NAME, Facts(known, runtime())).note.endswith("which cannot change the pods of a runtime.")
    assert order.render(NAME, Facts(schema())).note is None


def test_a_grace_period_before_2_3_is_the_runtimes_or_a_reason():
    assert rendered(version="2.2", run_policy={"grace_period_seconds": 30}).note == _DIRECT
    found = rendered(version="2.2", run_policy={"grace_period_seconds": 5}).note
    assert found == f"{_OWN}terminationGracePeriodSeconds."


def test_a_deadline_before_2_2_is_a_reason():
    found = rendered(version="2.1", run_policy={"active_deadline_seconds": 5}).note

    assert found == f"{_OWN}failurePolicy, activeDeadlineSeconds."


def test_a_gpu_that_is_all_the_runtime_asks_for_cannot_be_taken_away():
    of = changed("node.resources", {"limits": {"nvidia.com/gpu": 1}})
    _pod_in(of)["spec"]["schedulerName"] = "kai-scheduler"

    objects = rendered(of, resources_per_node={"gpu": 0.5}, scheduling=_KAI)
    beside = rendered(of, resources_per_node={"gpu": 0.5, "cpu": 1}, scheduling=_KAI)

    assert objects.note == f"{_OWN}resources."
    assert _pod_in(objects.before[0])["spec"]["containers"][0]["resources"] == {}
    assert beside.note == _DIRECT
    assert beside.main["spec"]["trainer"]["resourcesPerNode"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("theirs", "gpu", "lost", "left"),
    [
        ({"gpu-memory": "2000"}, 0.5, "annotations.gpu-memory", {"gpu-fraction": "0.5"}),
        ({"gpu-fraction": "0.5"}, 2, "annotations.gpu-fraction", {}),
        ({"gpu-fraction": "0.2"}, 0.5, None, {"gpu-fraction": "0.5"}),
        ({"team": "vision"}, 0.5, None, {"gpu-fraction": "0.5"}),
    ],
    ids=str,
)
def test_an_annotation_of_the_runtime_cannot_be_taken_away(theirs, gpu, lost, left):
    of = runtime()
    pod = _pod_in(of)
    pod["metadata"] = {"annotations": theirs}
    pod["spec"]["schedulerName"] = "kai-scheduler"

    objects = rendered(of, resources_per_node={"gpu": gpu}, scheduling=_KAI)

    assert objects.note == (f"{_OWN}{lost}." if lost else _DIRECT)
    pods = _pod_in(objects.before[0]) if lost else of_pods(objects)
    assert pods["metadata"].get("annotations", {}) == left


def test_trainer_counts_a_worker_of_xgboost_for_each_gpu():
    found = rendered(framework="xgboost", num_nodes=2, resources_per_node={"gpu": 2})

    assert found.note == f"{_OWN}env.DMLC_NUM_WORKER."


def test_the_runtimes_arguments_go_where_the_task_has_none():
    trainer = rendered(changed("node.args", ["--epochs"]), launcher="none").main["spec"]["trainer"]

    assert (trainer["command"], trainer["args"]) == (["python"], ["t.py"])
    # An empty list is lost where Kueue or another controller writes the TrainJob.
    assert rendered(changed("node.args", ["--epochs"]), launcher="none", command=["train"]).note == f"{_OWN}args."


def test_variables_for_other_containers_are_refused_for_a_runtime_of_its_own():
    of = changed("runtime.spec.mlPolicy.torch.envInjection", {"targets": []})

    with pytest.raises(UnsupportedField, match="envInjection"):
        rendered(of, working_dir="/srv")
