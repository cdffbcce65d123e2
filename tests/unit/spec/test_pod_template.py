"""Pod templates: the errors of malformed ones, and of Kubernetes' fields outside the pod template."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.spec import parse_spec
from airflow_trainer_provider.spec.job import RunPolicy, TrainJobSpec
from airflow_trainer_provider.spec.pod import PodSettings
from airflow_trainer_provider.spec.scheduling import Scheduling

TRAIN = "pod_template.spec.containers[name=train]"


def _problems(**fields: Any) -> dict[str, Any]:
    with pytest.raises(SpecError) as caught:
        parse_spec({"framework": "jax", **fields})
    return {problem.field: problem for problem in caught.value.problems}


def _container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "train", **fields}]}}


@pytest.mark.parametrize(
    ("template", "field", "allowed"),
    [
        ([], "pod_template", "a mapping"),
        ({"spec": []}, "pod_template.spec", "a mapping"),
        ({"spec": "x"}, "pod_template.spec", "a mapping"),
        ({"metadata": []}, "pod_template.metadata", "a mapping"),
        ({"metadata": {"labels": ["a"]}}, "pod_template.metadata.labels", "a mapping"),
        ({"metadata": {"labels": {"a": True}}}, "pod_template.metadata.labels.a", "text"),
        ({"metadata": {"annotations": {"a": {}}}}, "pod_template.metadata.annotations.a", "text"),
        ({"spec": {"volumes": "x"}}, "pod_template.spec.volumes", "a list"),
        ({"spec": {"volumes": [{"emptyDir": {}}]}}, "pod_template.spec.volumes[0].name", "text"),
        ({"spec": {"containers": {}}}, "pod_template.spec.containers", "a list"),
        ({"spec": {"containers": ["train"]}}, "pod_template.spec.containers[0]", "a mapping"),
        ({"spec": {"containers": [{"image": "i"}]}}, "pod_template.spec.containers[0].name", "text"),
        ({"spec": {"initContainers": [[]]}}, "pod_template.spec.initContainers[0]", "a mapping"),
        ({"spec": {"tolerations": {"key": "gpu"}}}, "pod_template.spec.tolerations", "a list"),
        ({"spec": {"imagePullSecrets": ["s"]}}, "pod_template.spec.imagePullSecrets[0]", "a mapping"),
        ({"spec": {"nodeSelector": {"gpu": False}}}, "pod_template.spec.nodeSelector.gpu", "text"),
        ({"spec": {"securityContext": 1000}}, "pod_template.spec.securityContext", "a mapping"),
        ({"spec": {"affinity": {"podAffinity": "x"}}}, "pod_template.spec.affinity.podAffinity", "a mapping"),
        (_container(env={"A": "b"}), "pod_template.spec.containers[0].env", "a list"),
        (_container(env=[{"value": "b"}]), "pod_template.spec.containers[0].env[0].name", "text"),
        (_container(volumeMounts=[{"name": "v"}]), "pod_template.spec.containers[0].volumeMounts[0].mountPath", "text"),
        (_container(resources={"limits": 2}), "pod_template.spec.containers[0].resources.limits", "a mapping"),
        (_container(command="python"), "pod_template.spec.containers[0].command", "a list"),
    ],
    ids=str,
)
def test_another_shape_is_refused_where_it_stands(template: Any, field: str, allowed: str) -> None:
    problem = _problems(pod_template=template)[field]

    assert allowed in problem.allowed
    assert problem.fix


def test_all_wrong_places_are_reported_at_once_without_values() -> None:
    env = [{"name": "TOKEN", "value": ["hunter2"]}]
    problems = _problems(pod_template={"metadata": [], "spec": {"volumes": "hunter2", **_container(env=env)["spec"]}})

    assert len(problems) == 3
    assert "hunter2" not in str(list(problems.values()))


def test_null_is_no_value_as_in_kubernetes() -> None:
    template = {"metadata": None, "spec": {"affinity": None, "containers": [{"name": "train", "env": None}]}}

    assert parse_spec({"framework": "jax", "pod_template": template}).pod_template == {
        "spec": {"containers": [{"name": "train"}]}
    }


def test_fields_that_this_provider_does_not_read_pass() -> None:
    template = {"spec": {"topologySpreadConstraints": [{"maxSkew": 1}], "os": {"name": "linux"}, "brandNew": 1}}

    assert parse_spec({"framework": "jax", "pod_template": template}).pod_template == template


@pytest.mark.parametrize(
    ("fields", "field", "place"),
    [
        # Beside the job's own fields.
        ({"tolerations": []}, "tolerations", "Write it as scheduling.tolerations."),
        ({"nodeSelector": {}}, "nodeSelector", "scheduling.node_selector"),
        ({"node_selector": {}}, "node_selector", "scheduling.node_selector"),
        ({"affinity": {}}, "affinity", "scheduling.node_affinity"),
        ({"serviceAccountName": "s"}, "serviceAccountName", "pod.service_account"),
        ({"service_account_name": "s"}, "service_account_name", "pod.service_account"),
        ({"image_pull_secrets": []}, "image_pull_secrets", "pod.image_pull.secrets"),
        ({"env_from": []}, "env_from", "Write it as pod.env_from."),
        ({"labels": {}}, "labels", "Write it as pod.labels."),
        ({"volume_mounts": []}, "volume_mounts", "Did you mean 'volumes'?"),
        ({"run_policy": {"volumes": []}}, "run_policy.volumes", "Write it as volumes: a list"),
        ({"run_policy": {"volumeMounts": []}}, "run_policy.volumeMounts", "Write it as volumes: a list"),
        ({"limits": {}}, "limits", "resources_per_node"),
        ({"resources": {}}, "resources", "resources_per_node"),
        ({"container_resources": {}}, "container_resources", "resources_per_node"),
        ({"cmds": []}, "cmds", "command"),
        ({"arguments": []}, "arguments", "args"),
        ({"env_vars": {}}, "env_vars", "env"),
        ({"backoffLimit": 1}, "backoffLimit", "run_policy.backoff_limit"),
        # Elsewhere.
        ({"run_policy": {"activeDeadlineSeconds": 5}}, "run_policy.activeDeadlineSeconds", "active_deadline_seconds"),
        (
            {"replicas": {"worker": {"tolerations": []}}},
            "replicas.worker.tolerations",
            "Write it as replicas.worker.scheduling.tolerations.",
        ),
        (
            {"replicas": {"worker": {"overrides": [{"index": 0, "nodeSelector": {}}]}}},
            "replicas.worker.overrides[0].nodeSelector",
            "Write it as replicas.worker.overrides[0].scheduling.node_selector.",
        ),
        (
            {"replicas": {"worker": {"hostNetwork": True}}},
            "replicas.worker.hostNetwork",
            "pod_template.spec.hostNetwork. It holds for all replicas",
        ),
        ({"pod": {"runAsUser": 1}}, "pod.runAsUser", "Write it as pod.security.run_as_user."),
        (
            {"replicas": {"worker": {"pod": {"fsGroup": 1}}}},
            "replicas.worker.pod.fsGroup",
            "Write it as replicas.worker.pod.security.fs_group.",
        ),
        ({"run_policy": {"nodePools": []}}, "run_policy.nodePools", "scheduling.node_pools"),
        ({"topologySpreadConstraints": []}, "topologySpreadConstraints", "scheduling.topology"),
        ({"queue_name": "a"}, "queue_name", "Write it as scheduling.queue_name."),
        (
            {"replicas": {"worker": {"scheduling": {"queue_name": "a"}}}},
            "replicas.worker.scheduling.queue_name",
            "Write it as scheduling.queue_name, which is of the whole job.",
        ),
        (
            {"replicas": {"worker": {"overrides": [{"index": 0, "scheduling": {"queue_name": "a"}}]}}},
            "replicas.worker.overrides[0].scheduling.queue_name",
            "Write it as scheduling.queue_name, which is of the whole job.",
        ),
        # Resources.
        ({"resources_per_node": {"nvidia.com/gpu": 1}}, "resources_per_node.nvidia.com/gpu", 'Write "gpu"'),
        ({"resources_per_node": {"limits": {"cpu": 2}}}, "resources_per_node.limits", '{"cpu": {"limits": 4}}'),
        ({"resources_per_node": {"rdma/hca": 1}}, "resources_per_node.rdma/hca", '{"extended": {"rdma/hca": 1}}'),
        (
            {"resources_per_node": {"hugepages-2Mi": "1Gi"}},
            "resources_per_node.hugepages-2Mi",
            f"{TRAIN}.resources.limits",
        ),
        ({"resources_per_node": {"shm_size": "1Gi"}}, "resources_per_node.shm_size", 'Write "shared_memory"'),
        (
            {"replicas": {"worker": {"resources": {"rdma/hca": 1}}}},
            "replicas.worker.resources.rdma/hca",
            "Write it as extended",
        ),
        ({"resources_per_node": {"gpus": 1}}, "resources_per_node.gpus", "Did you mean 'gpu'?"),
        # Within the template.
        ({"pod_template": {"tolerations": []}}, "pod_template.tolerations", "pod_template.spec.tolerations"),
        ({"pod_template": {"containers": []}}, "pod_template.containers", "pod_template.spec.containers"),
        ({"pod_template": {"labels": {}}}, "pod_template.labels", "pod_template.metadata.labels"),
        ({"pod_template": {"apiVersion": "v1"}}, "pod_template.apiVersion", "metadata and spec alone"),
        ({"pod_template": {"spec": {"env": []}}}, "pod_template.spec.env", f"{TRAIN}.env"),
        ({"pod_template": {"spec": {"volumeMounts": []}}}, "pod_template.spec.volumeMounts", f"{TRAIN}.volumeMounts"),
        ({"pod_template": {"spec": {"labels": {}}}}, "pod_template.spec.labels", "pod_template.metadata.labels"),
        (
            {"pod_template": {"spec": {"node_selector": {}}}},
            "pod_template.spec.node_selector",
            "Write it as scheduling.node_selector, a field of the job, or as pod_template.spec.nodeSelector.",
        ),
        (
            {"pod_template": _container(tolerations=[])},
            "pod_template.spec.containers[0].tolerations",
            "pod_template.spec.tolerations",
        ),
        (
            {"pod_template": _container(image_pull_policy="Always")},
            "pod_template.spec.containers[0].image_pull_policy",
            "imagePullPolicy",
        ),
        # Amounts outside of what they are of.
        ({"nvidia.com/gpu": 8}, "nvidia.com/gpu", "Write it as resources_per_node.gpu."),
        ({"num_gpus": 8}, "num_gpus", "Write it as resources_per_node.gpu."),
        ({"shm_size": "1Gi"}, "shm_size", "Write it as resources_per_node.shared_memory."),
        ({"scheduling": {"memory": "1Gi"}}, "scheduling.memory", "Write it as resources_per_node.memory."),
        ({"rdma/hca": 1}, "rdma/hca", 'Write it as resources_per_node.extended, e.g. {"rdma/hca": 1}.'),
        ({"topology.kubernetes.io/zone": "a"}, "topology.kubernetes.io/zone", "Remove it; it is not a field here."),
        ({"scheduling": {"nvidia.com/gpu.product": "A"}}, "scheduling.nvidia.com/gpu.product", "Remove it; it is not"),
        ({"framework": "mpi", "launcher": {"cpu": 4}}, "launcher.cpu", "Remove it; it is not a field here."),
        (
            {"amd.com/gpu": 8},
            "amd.com/gpu",
            'Write it as resources_per_node.extended, e.g. {"amd.com/gpu": 1}.',
        ),
        (
            {"replicas": {"worker": {"nvidia.com/gpu": 8}}},
            "replicas.worker.nvidia.com/gpu",
            "Write it as replicas.worker.resources.gpu.",
        ),
        (
            {"replicas": {"worker": {"overrides": [{"index": 0, "gpus": 1}]}}},
            "replicas.worker.overrides[0].gpus",
            "Write it as replicas.worker.overrides[0].resources.gpu.",
        ),
        (
            {"pod_template": {"spec": {"nvidia.com/gpu": 8}}},
            "pod_template.spec.nvidia.com/gpu",
            "Write it as resources_per_node.gpu, a field of the job, or into pod_template.spec.containers[name=train]",
        ),
        (
            {"pod_template": _container(resources={"amd.com/gpu": 1})},
            "pod_template.spec.containers[0].resources.amd.com/gpu",
            "Write it as resources_per_node.extended, a field of the job, or into",
        ),
        # Fields of the job within the template.
        ({"pod_template": {"num_nodes": 2}}, "pod_template.num_nodes", "Write it as num_nodes, a field of the job."),
        ({"pod_template": {"spec": {"elastic": {}}}}, "pod_template.spec.elastic", "elastic, a field of the job"),
        (
            {"pod_template": _container(grace_period_seconds=5)},
            "pod_template.spec.containers[0].grace_period_seconds",
            "run_policy.grace_period_seconds, a field of the job",
        ),
        (
            {"pod_template": _container(working_dir="/w")},
            "pod_template.spec.containers[0].working_dir",
            "Write it as Kubernetes does: workingDir.",
        ),
        (
            {"pod_template": _container(security_context={})},
            "pod_template.spec.containers[0].security_context",
            "Write it as Kubernetes does: securityContext.",
        ),
        (
            {"pod_template": _container(resources={"gpu": 1})},
            "pod_template.spec.containers[0].resources.gpu",
            "Write it as resources_per_node.gpu, a field of the job, or into limits.",
        ),
        (
            {"pod_template": {"spec": {"volumes": [{"name": "v", "host_path": "/data"}]}}},
            "pod_template.spec.volumes[0].host_path",
            "into volumes, a field of the job, with its mount_path. Kubernetes calls it hostPath.",
        ),
        (
            {"pod_template": _container(volumeMounts=[{"name": "v", "mountPath": "/d", "claim": "sets"}])},
            "pod_template.spec.containers[0].volumeMounts[0].claim",
            "Write the volume into volumes, a field of the job, with its mount_path.",
        ),
    ],
    ids=str,
)
def test_a_kubernetes_field_in_the_wrong_place_names_the_right_one(
    fields: dict[str, Any], field: str, place: str
) -> None:
    assert place in _problems(**fields)[field].fix


def test_a_volume_of_the_job_within_the_template_is_not_asked_for_a_name() -> None:
    volume = {"mount_path": "/data", "claim": "sets"}

    problems = _problems(pod_template={"spec": {"volumes": [volume]}})

    assert set(problems) == {f"pod_template.spec.volumes[0].{name}" for name in volume}


#: Fields of the job that are also fields of a PodSpec, or have the names of fields that it may get.
_AMBIGUOUS = {"volumes", "tolerations", "topology", "security"}
_PARTS = {"scheduling": Scheduling, "pod": PodSettings, "run_policy": RunPolicy}
_JOB_FIELDS = {
    # A decorator makes a function's field; no operator has one.
    **{name: name for name in TrainJobSpec.model_fields if name != "function"},
    **{name: f"{part}.{name}" for part, model in _PARTS.items() for name in model.model_fields},
}


@pytest.mark.parametrize("name", sorted(_JOB_FIELDS.keys() - _AMBIGUOUS))
def test_each_field_of_the_job_in_a_pods_spec_has_a_way_out(name: str) -> None:
    fix = _problems(pod_template={"spec": {name: {}}})[f"pod_template.spec.{name}"].fix

    in_template = {"image", "command", "args", "env", "labels", "annotations"}
    assert ("pod_template." if name in in_template else _JOB_FIELDS[name]) in fix


@pytest.mark.parametrize(
    ("amount", "spelling"),
    [
        ("16GB", 'Write "16G" for powers of 1000, or "16Gi" for powers of 1024'),
        ("16gb", '"16Gi"'),
        ("16 GiB", 'Write "16Gi"'),
        ("16gib", 'Write "16Gi"'),
        ("16g", '"16Gi"'),
        ("512MB", '"512Mi"'),
        ("512m", 'thousandth. Write "512Mi"'),
        ("1.5 TB", '"1.5Ti"'),
    ],
)
def test_an_amount_in_another_notation_names_the_right_spelling(amount: str, spelling: str) -> None:
    assert spelling in _problems(resources_per_node={"memory": amount})["resources_per_node.memory"].fix


@pytest.mark.parametrize("amount", ["٣", "1" * 19, "9" * 1000, "1e3", "-1", "nan"])
def test_what_only_looks_like_an_amount_is_refused(amount: str) -> None:
    assert "resources_per_node.cpu" in _problems(resources_per_node={"cpu": amount})
