"""The claims that are created for a job's volumes, and which of those that exist a later job uses again."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.kinds.base import Facts, Manifest, Rendered
from airflow_trainer_provider.kinds.merge_patch import merged
from airflow_trainer_provider.kinds.objects.labels import JOB, KEPT, TASK
from airflow_trainer_provider.kinds.objects.volumes.claims import unusable, with_claims
from airflow_trainer_provider.kinds.registry import kind_for
from tests.unit.kinds.specs import job_of, meta

NEW = {"size": "10Gi", "storage_class": "fast", "access_modes": ["ReadWriteMany"]}
KEPT_VOLUME = {"mount_path": "/kept", "name": "checkpoints", "new_claim": {**NEW, "keep": True}}


def _rendered(*volumes: dict[str, Any], backend: str = "trainer", **fields: Any) -> Rendered:
    job = job_of("jax", volumes=list(volumes), **fields)
    own = meta(job, "train")
    return with_claims(kind_for(backend, job).renderer.render(job, own, Facts()), job, own)


def _kept() -> Manifest:
    (claim,) = _rendered(KEPT_VOLUME).kept
    return claim


def test_a_claim_of_the_job_has_its_labels_and_comes_before_what_mounts_it():
    rendered = _rendered({"mount_path": "/scratch", "new_claim": NEW}, backend="native")

    claim, *others = rendered.after
    assert claim["metadata"]["name"] == "train-scratch"
    assert claim["metadata"]["labels"] == rendered.main["metadata"]["labels"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "10Gi"}},
        "volumeMode": "Filesystem",
        "storageClassName": "fast",
    }
    assert [each["kind"] for each in others] == ["Service", "Job"]
    assert rendered.kept == ()


def test_the_cluster_chooses_the_class_where_none_is_named():
    (claim,) = _rendered({"mount_path": "/scratch", "new_claim": {"size": "1Gi"}}).after

    assert "storageClassName" not in claim["spec"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_a_claim_that_is_kept_has_the_volumes_name_and_belongs_to_no_job():
    rendered = _rendered(KEPT_VOLUME)

    (claim,) = rendered.kept
    assert claim["metadata"]["name"] == "checkpoints"
    assert claim["metadata"]["labels"][KEPT] == "true"
    assert not claim["metadata"]["labels"].keys() & {JOB, TASK}
    assert rendered.after == ()


def test_replicas_share_the_claim_of_one_volume():
    group = {"volumes": [{"mount_path": "/more", "new_claim": NEW}]}
    rendered = _rendered({"mount_path": "/data", "new_claim": NEW}, replicas={"worker": group}, backend="native")

    claims = [each["metadata"]["name"] for each in rendered.after if each["kind"] == "PersistentVolumeClaim"]
    assert claims == ["train-data", "train-more"]


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ({}, None),
        # What the API server and the volume's controller add.
        ({"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}, "metadata": {"uid": "u"}}, None),
        # It has grown.
        ({"spec": {"resources": {"requests": {"storage": "20Gi"}}}}, None),
        ({"spec": {"resources": {"requests": {"storage": "1Pi"}}}}, None),
        ({"metadata": {"labels": {KEPT: None}}}, "it was not created by new_claim with keep"),
        ({"metadata": {"labels": None}}, "it was not created by new_claim with keep"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "it is being deleted"),
        ({"spec": {"accessModes": ["ReadWriteOnce"]}}, "it has access modes ReadWriteOnce and not ReadWriteMany"),
        ({"spec": {"storageClassName": "slow"}}, "it has storageClassName slow and not fast"),
        ({"spec": {"volumeMode": "Block"}}, "it has volumeMode Block and not Filesystem"),
        ({"spec": {"resources": {"requests": {"storage": "5Gi"}}}}, "it has 5Gi and not 10Gi"),
    ],
)
def test_a_claim_that_exists_is_used_where_it_has_what_is_asked_for(patch, reason):
    found = unusable(merged(_kept(), patch), _kept())

    assert found == reason or (reason and found.startswith(reason))


def test_any_class_will_do_where_none_is_named():
    wanted = _kept()
    del wanted["spec"]["storageClassName"]

    assert unusable(_kept(), wanted) is None
