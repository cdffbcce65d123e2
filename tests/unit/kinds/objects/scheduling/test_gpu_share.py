"""A share of a GPU: annotations of the pods, and where it is refused."""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.kinds.registry import kind_for
from tests.golden_files import assert_golden
from tests.unit.kinds.objects.test_pod import pods_of
from tests.unit.kinds.specs import job_of
from tests.unit.kinds.test_fields import KEYED, objects_of

KAI = {"scheduler_name": "kai-scheduler"}
#: Backend -> the framework of its golden file.
FRAMEWORKS = {"trainer": "pytorch", "training-operator": "pytorch", "mpi-operator": "mpi", "native": "pytorch"}


@pytest.mark.parametrize("backend", FRAMEWORKS)
def test_a_share_of_a_gpu_in_the_objects_of_each_backend(backend):
    pod = {"labels": {"kai.scheduler/queue": "team"}}
    job = job_of(FRAMEWORKS[backend], resources_per_node={"cpu": 2, "gpu": 0.5}, scheduling=KAI, pod=pod)
    ClusterBackend(backend, None, "default").check(job)

    documents = objects_of(KEYED.get(backend, kind_for(backend, job)), job)

    assert_golden(f"{backend}/gpu-share.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


@pytest.mark.parametrize(
    ("gpu", "annotations"),
    [
        (0.5, {"gpu-fraction": "0.5"}),
        ("0.25", {"gpu-fraction": "0.25"}),
        ({"fraction": 0.9}, {"gpu-fraction": "0.9"}),
        ({"memory": "8Gi"}, {"gpu-memory": "8192"}),
        ({"memory": "2G"}, {"gpu-memory": "1907"}),
    ],
    ids=str,
)
def test_a_share_is_an_annotation_of_each_pod_and_no_resource(gpu, annotations):
    job = job_of("jax", resources_per_node={"gpu": gpu}, scheduling=KAI)

    for backend in ("trainer", "training-operator", "native"):
        for pod in pods_of(backend, job):
            assert pod["metadata"]["annotations"] == annotations
            assert "resources" not in pod["spec"]["containers"][0] or not pod["spec"]["containers"][0]["resources"]


def test_a_share_takes_the_place_of_the_templates_gpus():
    container = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": 4, "rdma/hca": 1}}}
    template = {"spec": {"schedulerName": "runai-scheduler", "containers": [container]}}

    (pod,) = pods_of("training-operator", job_of("jax", resources_per_node={"gpu": 0.5}, pod_template=template))

    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"rdma/hca": 1}}


@pytest.mark.parametrize("backend", ["training-operator", "native"])
def test_a_share_takes_the_place_of_a_gpu_that_is_the_templates_only_amount(backend):
    amounts = {"nvidia.com/gpu": 1}
    container = {"name": "train", "image": "i", "resources": {"limits": amounts, "requests": amounts}}
    job = job_of(
        "jax", resources_per_node={"gpu": 0.5}, scheduling=KAI, pod_template={"spec": {"containers": [container]}}
    )

    for pod in pods_of(backend, job):
        assert pod["spec"]["containers"][0]["resources"] == {}


@pytest.mark.parametrize("others", [{}, {"team": "vision"}])
@pytest.mark.parametrize("gpu", [2, {"nvidia.com/gpu": 2}], ids=str)
def test_whole_gpus_take_the_place_of_the_templates_share(gpu, others):
    template = {"metadata": {"annotations": {"gpu-fraction": "0.5", "gpu-memory": "2000", **others}}}

    (pod,) = pods_of("training-operator", job_of("jax", resources_per_node={"gpu": gpu}, pod_template=template))

    assert pod["metadata"].get("annotations", {}) == others
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "2"}}


@pytest.mark.parametrize("resources", [None, {"cpu": 1}, {"gpu": {"amd.com/gpu": 1}}], ids=str)
def test_without_nvidias_gpus_the_templates_share_stays(resources):
    template = {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}

    (pod,) = pods_of("training-operator", job_of("jax", resources_per_node=resources, pod_template=template))

    assert pod["metadata"]["annotations"] == {"gpu-fraction": "0.5"}


def test_a_role_has_its_own():
    job = job_of("mpi", resources_per_node={"gpu": 0.5}, scheduling=KAI)

    found = {
        pod["metadata"]["labels"]["airflow-trainer-provider/group"]: pod["metadata"].get("annotations")
        for pod in pods_of("native", job)
    }

    assert found == {"launcher": None, "worker": {"gpu-fraction": "0.5"}}


@pytest.mark.parametrize("backend", FRAMEWORKS)
@pytest.mark.parametrize(
    ("scheduling", "allowed"),
    [(None, "the default scheduler shares none"), ({"scheduler_name": "volcano"}, "volcano shares none")],
)
def test_without_a_scheduler_that_shares_gpus(backend, scheduling, allowed):
    job = job_of(FRAMEWORKS[backend], resources_per_node={"gpu": {"memory": "8Gi"}}, scheduling=scheduling)

    with pytest.raises(SpecError) as caught:
        ClusterBackend(backend, None, "default").check(job)

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == ("resources_per_node.gpu", "8Gi")
    assert problem.allowed == f"whole GPUs, as {allowed}"
    assert "Set scheduling.scheduler_name to one that does (kai-scheduler, runai-scheduler)" in problem.fix


@pytest.mark.parametrize("gpu", [0.5, 2])
def test_an_annotation_of_the_same_name(gpu):
    pod = {"annotations": {"gpu-memory": "100"}}

    with pytest.raises(SpecError, match="no value beside the annotation gpu-memory"):
        ClusterBackend("native", None, "n").check(
            job_of("jax", resources_per_node={"gpu": gpu}, scheduling=KAI, pod=pod)
        )
