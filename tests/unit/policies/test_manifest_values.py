"""Rules count for a user's own manifest as for a spec, as far as its kind has a place for the field."""

from __future__ import annotations

import contextlib

import pytest

from airflow_trainer_provider.errors import PolicyViolation, SpecError
from airflow_trainer_provider.kinds.manifest import plan_manifest
from airflow_trainer_provider.policies.check import check_policies
from airflow_trainer_provider.spec import parse_manifest_spec
from tests.unit.policies.jobs import policy


def violations(manifest, rule, **fields):
    job = plan_manifest(parse_manifest_spec({"manifest": manifest, **fields}))
    try:
        check_policies([policy(rule)], job)
    except PolicyViolation as error:
        return [(each.field, each.value, each.rule) for each in error.violations]
    return []


def pytorch(containers=None, replicas=2, run_policy=None, **pod):
    def group(count):
        spec = {"containers": containers or [{"name": "pytorch", "image": "good/i"}], **pod}
        return {"replicas": count, "template": {"spec": spec}}

    specs = {"Master": group(1), "Worker": group(replicas)}
    spec = {"runPolicy": run_policy or {}, "pytorchReplicaSpecs": specs}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}, "spec": spec}


def mpi():
    gpus = {"resources": {"limits": {"nvidia.com/gpu": 1}}}

    def group(count, **container):
        return {
            "replicas": count,
            "template": {"spec": {"containers": [{"name": "x", "image": "good/i", **container}]}},
        }

    spec = {"mpiReplicaSpecs": {"Launcher": group(1), "Worker": group(4, **gpus)}}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "j"}, "spec": spec}


def train_job(**trainer):
    spec = {"runtimeRef": {"name": "torch"}, "trainer": trainer}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "j"}, "spec": spec}


def job(**spec):
    template = {"spec": {"containers": [{"name": "x", "image": "good/i"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template, **spec}}


MASTER = "manifest.spec.pytorchReplicaSpecs.Master.template.spec"
WORKER = "manifest.spec.pytorchReplicaSpecs.Worker.template.spec"


@pytest.mark.parametrize(
    ("manifest", "rule", "expected"),
    [
        (pytorch(), {"field": "image", "required": True, "pattern": "good/.*"}, []),
        (
            pytorch([{"name": "pytorch", "image": "bad/i"}]),
            {"field": "replicas.worker.image", "pattern": "good/.*"},
            [(f"{WORKER}.containers[0].image", "bad/i", "text that matches good/.*")],
        ),
        (
            pytorch([{"name": "pytorch"}, {"name": "logs", "image": "bad/i"}], replicas=0),
            {"field": "image", "required": True, "pattern": "good/.*"},
            [
                (f"{MASTER}.containers[0].image", None, "a value"),
                (f"{MASTER}.containers[1].image", "bad/i", "text that matches good/.*"),
                (f"{WORKER}.containers[0].image", None, "a value"),
                (f"{WORKER}.containers[1].image", "bad/i", "text that matches good/.*"),
            ],
        ),
        (
            pytorch(replicas=4),
            {"field": "num_nodes", "max": 4},
            [("manifest.spec.pytorchReplicaSpecs", 5, "at most 4")],
        ),
        (pytorch(run_policy={"backoffLimit": 4}), {"field": "run_policy.backoff_limit", "max": 3}, []),
        (
            pytorch(run_policy={"backoffLimit": 5}),
            {"field": "run_policy.backoff_limit", "max": 3},
            [("manifest.spec.runPolicy.backoffLimit", 4, "at most 3")],
        ),
        (
            pytorch(),
            {"field": "run_policy.active_deadline_seconds", "required": True},
            [("manifest.spec.runPolicy.activeDeadlineSeconds", None, "a value")],
        ),
        (
            pytorch(volumes=[{"name": "b", "hostPath": {"path": "/"}}, {"name": "a"}]),
            {"field": "volumes.*.host_path", "forbidden": True},
            [
                (f"{MASTER}.volumes[0].hostPath.path", "/", "no value"),
                (f"{WORKER}.volumes[0].hostPath.path", "/", "no value"),
            ],
        ),
        (
            pytorch(volumes=[{"name": "a", "secret": {"secretName": "theirs"}}]),
            {"field": "replicas.worker.volumes.*.secret.name", "allowed": ["ours"]},
            [(f"{WORKER}.volumes[0].secret.secretName", "theirs", "one of ours")],
        ),
        (
            pytorch(priorityClassName="serving"),
            {"field": "scheduling.priority_class", "allowed": ["batch"]},
            [
                (f"{MASTER}.priorityClassName", "serving", "one of batch"),
                (f"{WORKER}.priorityClassName", "serving", "one of batch"),
            ],
        ),
        (
            train_job(resourcesPerNode={"limits": {"nvidia.com/gpu": 9}}),
            {"field": "resources_per_node.gpu", "max": 8},
            [("manifest.spec.trainer.resources.nvidia.com/gpu", 9, "at most 8")],
        ),
        # Its runtime may have one.
        (train_job(), {"field": "image", "required": True}, []),
        (
            train_job(env=[{"name": "DEBUG"}]),
            {"field": "env.DEBUG", "forbidden": True},
            [("manifest.spec.trainer.env.DEBUG", "", "no value")],
        ),
        (
            job(backoffLimit=9),
            {"field": "run_policy.backoff_limit", "max": 3},
            [("manifest.spec.backoffLimitPerIndex", 9, "at most 3")],
        ),
        (
            job(),
            {"field": "resources_per_node.memory", "required": True},
            [("manifest.spec.template.spec.containers[0].resources.memory", None, "a value")],
        ),
        (
            pytorch(initContainers=[{"name": "get", "image": "bad/i"}]),
            {"field": "image", "pattern": "good/.*"},
            [
                (f"{MASTER}.initContainers[0].image", "bad/i", "text that matches good/.*"),
                (f"{WORKER}.initContainers[0].image", "bad/i", "text that matches good/.*"),
            ],
        ),
        (job(), {"field": "manifest", "forbidden": True}, [("manifest", "Job", "no value")]),
        (job(), {"field": "elastic.max_nodes", "max": 1}, []),
        (pytorch(), {"field": "framework", "allowed": ["jax"]}, [("framework", "pytorch", "one of jax")]),
    ],
)
def test_a_rule(manifest, rule, expected):
    assert violations(manifest, rule) == expected


def test_a_rule_for_what_stands_beside_the_manifest():
    rule = {"field": "on_finish_action", "allowed": ["delete"]}

    assert violations(job(), rule, on_finish_action="keep") == [("on_finish_action", "keep", "one of delete")]


@pytest.mark.parametrize("strange", [7, "text", [], {}, [7], [{"name": 7}], None])
@pytest.mark.parametrize("field", ["image", "env.A", "resources_per_node.gpu", "num_nodes", "run_policy.backoff_limit"])
def test_a_manifest_of_a_strange_shape_is_read_as_far_as_it_can_be(field, strange):
    container = {"name": "x", "env": strange, "resources": strange, "image": strange}
    of_pods = [strange, {"spec": strange}, {"spec": {"containers": strange}}, {"spec": {"containers": [container]}}]
    jobs = [job(template=each, completions=strange, backoffLimit=strange) for each in of_pods]
    groups = [strange, {"Worker": strange}, *({"Worker": {"replicas": strange, "template": each}} for each in of_pods)]
    for specs in groups:
        manifest = pytorch()
        manifest["spec"]["pytorchReplicaSpecs"] = specs
        jobs.append(manifest)

    for manifest in jobs:
        # What no job can be is refused before.
        with contextlib.suppress(SpecError):
            violations(manifest, {"field": field, "max": 4})


def test_an_init_container_need_not_have_what_the_training_has():
    train = {"name": "x", "image": "good/i", "resources": {"limits": {"memory": "1Gi"}}}
    manifest = job(template={"spec": {"containers": [train], "initContainers": [{"name": "get", "image": "good/i"}]}})

    assert violations(manifest, {"field": "resources_per_node.memory", "required": True}) == []


def test_a_launcher_need_not_have_what_the_nodes_have():
    assert violations(mpi(), {"field": "resources_per_node.gpu", "required": True}) == []


def test_a_launcher_is_not_a_node():
    assert violations(mpi(), {"field": "num_nodes", "max": 4}) == []
    assert violations(mpi(), {"field": "num_nodes", "max": 3}) == [("manifest.spec.mpiReplicaSpecs", 4, "at most 3")]


def test_a_group_without_a_number_is_one_node():
    manifest = pytorch()
    del manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]

    rule = {"field": "num_nodes", "max": 1}
    assert violations(manifest, rule) == [("manifest.spec.pytorchReplicaSpecs", 2, "at most 1")]
