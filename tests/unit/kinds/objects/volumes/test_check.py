"""Volumes that no pod can have are refused before anything is made, and the error names both sides."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.kinds.registry import BACKENDS
from tests.unit.kinds.objects.test_pod_check import FRAMEWORKS
from tests.unit.kinds.specs import job_of

CLAIM = {"mount_path": "/data", "claim": "sets"}
OTHER = {"mount_path": "/data", "name": "other", "claim": "sets"}


def _volume(**fields: Any) -> dict[str, Any]:
    return {"mount_path": "/data", **fields}


def _at(path: str) -> dict[str, Any]:
    return {"volumes": [_volume(mount_path=path, claim="a")]}


def _of_workers(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {"replicas": {"worker": {"volumes": list(volumes)}}}


@pytest.mark.parametrize(
    ("framework", "fields", "field", "value", "allowed", "fix"),
    [
        # What the provider uses itself.
        (
            "jax",
            _at("/etc/trainer-files/x"),
            "volumes[0].mount_path",
            "/etc/trainer-files/x",
            "/etc/trainer-files",
            "Mount it elsewhere",
        ),
        ("jax", _at("/run"), "volumes[0].mount_path", "/run", "/run/trainer-fetch", "Mount it elsewhere"),
        ("mpi", _at("/root"), "volumes[0].mount_path", "/root", "/root/.ssh", "Mount it elsewhere"),
        ("mpi", _at("/ssh/auth"), "volumes[0].name", "ssh-auth", "the operators use", "Give it another name"),
        (
            "jax",
            {**_at("/mnt"), "checkpoint": {"claim": "models"}},
            "volumes[0].mount_path",
            "/mnt",
            "/mnt/trainer-checkpoints",
            "Mount it elsewhere",
        ),
        (
            "jax",
            {
                "checkpoint": {"claim": "models"},
                "pod_template": {"spec": {"volumes": [{"name": "x"}, {"name": "trainer-checkpoints"}]}},
            },
            "pod_template.spec.volumes[1].name",
            "trainer-checkpoints",
            "another value beside checkpoint",
            "Change it.",
        ),
        (
            "jax",
            {
                "checkpoint": {"claim": "models"},
                "pod_template": {
                    "spec": {
                        "volumes": [{"name": "x"}],
                        "containers": [
                            {
                                "name": "train",
                                "volumeMounts": [{"name": "x", "mountPath": "/mnt/trainer-checkpoints"}],
                            }
                        ],
                    }
                },
            },
            "pod_template.spec.containers[name=train].volumeMounts[0].mountPath",
            "/mnt/trainer-checkpoints",
            "another value beside checkpoint",
            "Change it.",
        ),
        # Images.
        (
            "jax",
            {"volumes": [_volume(git={"repository": "https://h/x"})]},
            "volumes[0].git.image",
            None,
            "with git",
            "Set it, or [trainer] git_image in Airflow's configuration",
        ),
        (
            "jax",
            _of_workers(_volume(s3={"uri": "s3://sets"})),
            "replicas.worker.volumes[0].s3.image",
            None,
            "with rclone",
            "Set it, or [trainer] s3_image",
        ),
        # The pod template.
        (
            "jax",
            {"volumes": [CLAIM], "pod_template": {"spec": {"volumes": [{"name": "x"}, {"name": "data"}]}}},
            "volumes[0].name",
            "data",
            "a name other than that of pod_template.spec.volumes[1]",
            "Give it another name, or drop pod_template.spec.volumes[1]",
        ),
        (
            "jax",
            {
                "volumes": [CLAIM],
                "pod_template": {
                    "spec": {
                        "volumes": [{"name": "x"}],
                        "containers": [{"name": "train", "volumeMounts": [{"name": "x", "mountPath": "/data"}]}],
                    }
                },
            },
            "volumes[0].mount_path",
            "/data",
            "a path other than that of pod_template.spec.containers[name=train].volumeMounts[0]",
            "Mount one of them elsewhere",
        ),
        # Each other.
        (
            "jax",
            {"volumes": [_volume(name="a", claim="a"), {"mount_path": "/b", "name": "a", "claim": "b"}]},
            "volumes[1].name",
            "a",
            "the source of volumes[0]",
            "Give one of them another name.",
        ),
        (
            "jax",
            {"volumes": [CLAIM], **_of_workers({"mount_path": "/other", "name": "data", "claim": "b"})},
            "replicas.worker.volumes[0].name",
            "data",
            "the source of volumes[0]",
            "Give one of them another name.",
        ),
        # Claims of the whole job.
        (
            "tensorflow",
            {
                "volumes": [_volume(new_claim={"size": "1Gi"})],
                "replicas": {"ps": {"volumes": [_volume(new_claim={"size": "2Gi"})]}},
            },
            "replicas.ps.volumes[0].name",
            "data",
            "the source of volumes[0]",
            "Give one of them another name.",
        ),
        (
            "jax",
            {"volumes": [_volume(new_claim={"size": "1Gi", "access_modes": ["ReadWriteOncePod"]})]},
            "volumes[0].new_claim.access_modes",
            "ReadWriteOncePod",
            "a mode that lets 2 replicas mount it",
            "Write ReadWriteMany",
        ),
        # The shared memory of the replicas.
        (
            "jax",
            {
                "volumes": [{"mount_path": "/dev/shm", "empty_dir": {"medium": "memory"}}],
                "resources_per_node": {"shared_memory": "1Gi"},
            },
            "volumes[0].mount_path",
            "/dev/shm",
            "a path other than that of resources_per_node.shared_memory",
            "Drop one of them.",
        ),
        ("mpi", _at("/etc/mpi"), "volumes[0].mount_path", "/etc/mpi", "/etc/mpi", "Mount it elsewhere"),
        (
            "jax",
            {
                "volumes": [CLAIM],
                "pod_template": {
                    "spec": {
                        "volumes": [{"name": "x"}],
                        "containers": [{"name": "train", "volumeDevices": [{"name": "x", "devicePath": "/data"}]}],
                    }
                },
            },
            "volumes[0].mount_path",
            "/data",
            "a path other than that of pod_template.spec.containers[name=train].volumeDevices[0]",
            "Mount one of them elsewhere",
        ),
    ],
    ids=str,
)
def test_what_no_pod_can_have(framework, fields, field, value, allowed, fix):
    with pytest.raises(SpecError) as caught:
        ClusterBackend("native", None, "n").check(job_of(framework, **fields))

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (field, value)
    assert allowed in problem.allowed
    assert problem.fix.startswith(fix)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_refuses_them(backend):
    job = job_of(FRAMEWORKS[backend], volumes=[_volume(git={"repository": "https://h/x"})])

    with pytest.raises(SpecError, match=r"volumes\[0\].git.image"):
        ClusterBackend(backend, None, "n").check(job)


@pytest.mark.parametrize(
    ("framework", "fields"),
    [
        # Other frameworks have no ssh.
        ("jax", {"volumes": [_volume(mount_path="/root/.ssh", secret={"name": "key"})]}),
        ("jax", {"volumes": [CLAIM], "pod_template": {"spec": {"volumes": [{"name": "x", "emptyDir": {}}]}}}),
        ("jax", {"volumes": [{"mount_path": "/mnt/data", "claim": "sets"}], "checkpoint": {"claim": "sets"}}),
        ("jax", _at("/mnt/trainer-checkpoints")),
        # The same claim for all, at several paths.
        ("jax", {"volumes": [_volume(name="a", claim="a"), {"mount_path": "/b", "name": "a", "claim": "a"}]}),
        ("jax", {"volumes": [_volume(mount_path="/dev/shm", empty_dir={"medium": "memory"})]}),
        (
            "jax",
            {"num_nodes": 1, "volumes": [_volume(new_claim={"size": "1Gi", "access_modes": ["ReadWriteOncePod"]})]},
        ),
        # A group that replaces the job's.
        ("tensorflow", {"volumes": [CLAIM], "replicas": {"ps": {"volumes": [OTHER]}}}),
    ],
    ids=str,
)
def test_what_a_pod_can_have(framework, fields):
    ClusterBackend("native", None, "n").check(job_of(framework, **fields))
