"""A warning where several pods need accelerators and each is placed by itself."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.plan.together import placed_apart
from airflow_trainer_provider.kinds.manifest import plan_manifest
from airflow_trainer_provider.spec import parse_manifest_spec, parse_spec

JOB = {"framework": "jax", "num_nodes": 3, "resources_per_node": {"gpu": 1}}


def warning(**fields: object) -> str | None:
    return placed_apart(plan_job(parse_spec({**JOB, **fields})))


@pytest.mark.parametrize("gpu", [2, {"amd.com/gpu": 1}])
def test_pods_that_need_accelerators_and_are_placed_one_by_one(gpu):
    text = warning(resources_per_node={"gpu": gpu})

    assert text.startswith("3 pods of the job ask for accelerators, and nothing places them together")
    assert "scheduling.gang" in text
    assert "scheduling.queue_name" in text


@pytest.mark.parametrize(
    "fields",
    [
        {"num_nodes": 1},
        {"resources_per_node": {"cpu": 1}},
        # The launcher needs none.
        {"framework": "mpi", "num_nodes": 1},
        {"scheduling": {"gang": "volcano"}},
        {"scheduling": {"queue_name": "team"}},
        {"scheduling": {"scheduler_name": "mine"}},
        {"replicas": {"worker": {"scheduling": {"scheduler_name": "mine"}}}},
        {"pod_template": {"spec": {"schedulerName": "mine"}}},
        {"runtime_ref": "mine"},
    ],
)
def test_no_warning_where_nothing_is_known_to_be_wrong(fields):
    assert warning(**fields) is None


def test_a_manifest_says_itself_how_its_pods_are_placed():
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {}}}

    assert placed_apart(plan_manifest(parse_manifest_spec({"manifest": manifest}))) is None
