"""The images of init containers that volumes leave to Airflow's configuration."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.hooks.images import with_images
from airflow_trainer_provider.spec import TrainJobSpec, parse_spec

GIT = {"mount_path": "/src", "git": {"repository": "https://h/x"}}
S3 = {"mount_path": "/sets", "s3": {"uri": "s3://sets", "image": "mine:1"}}
OTHER = {"mount_path": "/data", "claim": "sets"}


@pytest.fixture(autouse=True)
def _options(monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__GIT_IMAGE", "git:1")
    monkeypatch.setenv("AIRFLOW__TRAINER__S3_IMAGE", "rclone:1")


def _spec(**fields: Any) -> TrainJobSpec:
    return parse_spec({"framework": "jax", **fields})


def test_a_volume_gets_the_configured_image_and_keeps_its_own():
    override = {"index": 1, "volumes": [GIT]}
    worker = {"replicas": 2, "volumes": [GIT, OTHER], "overrides": [override, {"index": 0, "image": "i"}]}
    spec = with_images(_spec(volumes=[GIT, S3, OTHER], replicas={"worker": worker}))

    group = spec.replicas["worker"]
    assert [volume.git.image for volume in (spec.volumes[0], group.volumes[0], group.overrides[0].volumes[0])] == [
        "git:1"
    ] * 3
    assert spec.volumes[1].s3.image == "mine:1"
    assert (spec.volumes[2], group.volumes[1]) == (_spec(volumes=[OTHER]).volumes[0],) * 2
    assert group.overrides[1].volumes is None


def test_without_the_option_the_volume_is_left_as_it_is(monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__GIT_IMAGE", "")
    spec = _spec(volumes=[GIT])

    assert with_images(spec) == spec


@pytest.mark.parametrize("fields", [{}, {"volumes": [OTHER]}, {"replicas": {"worker": {"volumes": [OTHER]}}}])
def test_the_configuration_is_not_read_for_a_job_that_fetches_nothing(monkeypatch, fields):
    monkeypatch.setenv("AIRFLOW__TRAINER__BACKEND", "wrong")
    spec = _spec(**fields)

    assert with_images(spec) is spec
