"""Resources and shared memory, as Kubernetes writes them, beside what a pod template says."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.kinds.base import Manifest
from tests.unit.kinds.objects.test_pod import pods_of
from tests.unit.kinds.specs import job_of

VOLUME = "trainer-shared-memory"


def spec_of(resources: dict[str, Any], backend: str = "training-operator", **fields: Any) -> Manifest:
    (pod,) = pods_of(backend, job_of("jax", resources_per_node=resources, **fields))
    return pod["spec"]


@pytest.mark.parametrize(
    ("resources", "limits"),
    [
        ({"gpu": 2}, {"nvidia.com/gpu": "2"}),
        ({"gpu": {"requests": 2, "limits": 2}}, {"nvidia.com/gpu": "2"}),
        ({"gpu": {"amd.com/gpu": 2}}, {"amd.com/gpu": "2"}),
        ({"gpu": {"habana.ai/gaudi": 8}, "extended": {"rdma/hca": 1}}, {"habana.ai/gaudi": "8", "rdma/hca": "1"}),
        ({"extended": {"example.com/fpga": 1}}, {"example.com/fpga": "1"}),
    ],
    ids=str,
)
def test_gpus_and_other_devices_are_limits_of_the_training(resources, limits):
    assert spec_of(resources)["containers"][0]["resources"] == {"limits": limits}


def test_those_of_a_pod_template_stay_beside_them():
    container = {"name": "train", "resources": {"limits": {"hugepages-2Mi": "1Gi", "rdma/hca": 4}}}

    spec = spec_of({"extended": {"rdma/hca": 1}}, pod_template={"spec": {"containers": [container]}})

    assert spec["containers"][0]["resources"]["limits"] == {"hugepages-2Mi": "1Gi", "rdma/hca": "1"}


@pytest.mark.parametrize(
    ("resources", "size"),
    [
        ({"shared_memory": "auto"}, None),
        ({"shared_memory": "auto", "memory": {"requests": "4Gi"}}, None),
        ({"shared_memory": "auto", "memory": "4Gi"}, "2Gi"),
        ({"shared_memory": "auto", "memory": {"requests": "1Gi", "limits": "5Gi"}}, "2560Mi"),
        ({"shared_memory": "auto", "memory": "3M"}, "1500000"),
        ({"shared_memory": "auto", "memory": "1.5Gi"}, "768Mi"),
        ({"shared_memory": "512Mi"}, "512Mi"),
        ({"shared_memory": "4Gi", "memory": "4Gi"}, "4Gi"),
    ],
    ids=str,
)
def test_shared_memory_is_half_of_the_memory_limit_or_as_large_as_given(resources, size):
    spec = spec_of(resources)

    limit = {"sizeLimit": size} if size else {}
    assert spec["volumes"] == [{"name": VOLUME, "emptyDir": {"medium": "Memory", **limit}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": VOLUME, "mountPath": "/dev/shm"}]


def test_without_the_field_there_is_none():
    assert "volumes" not in spec_of({"memory": "4Gi"})


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/"])
def test_it_takes_the_place_of_what_a_pod_template_mounts_there(path):
    mounts = [{"name": "shm", "mountPath": path}, {"name": "data", "mountPath": "/data"}]
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "data", "emptyDir": {}}]
    template = {"spec": {"volumes": volumes, "containers": [{"name": "train", "volumeMounts": mounts}]}}

    spec = spec_of({"shared_memory": "1Gi"}, pod_template=template)

    assert [each["name"] for each in spec["containers"][0]["volumeMounts"]] == ["data", VOLUME]
    assert [each["name"] for each in spec["volumes"]] == ["shm", "data", VOLUME]


def test_a_launcher_has_only_its_own():
    job = job_of("mpi", resources_per_node={"memory": "4Gi", "shared_memory": "auto"})

    found = {
        pod["metadata"]["labels"]["airflow-trainer-provider/group"]: [each["name"] for each in pod["spec"]["volumes"]]
        for pod in pods_of("native", job)
    }

    assert [VOLUME in names for names in (found["launcher"], found["worker"])] == [False, True]


def test_the_claims_of_a_pod_template_stay():
    claims = [{"name": "gpu"}]
    container = {"name": "train", "resources": {"claims": claims, "requests": {"cpu": "1"}}}

    spec = spec_of({"cpu": 2}, pod_template={"spec": {"containers": [container]}})

    assert spec["containers"][0]["resources"] == {"claims": claims, "requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
