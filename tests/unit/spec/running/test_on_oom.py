"""``run_policy.on_oom``: what it may say, and beside what."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.spec import parse_spec


def _parse(on_oom, **fields):
    return parse_spec({"framework": "jax", "run_policy": {"on_oom": on_oom}, **fields})


@pytest.mark.parametrize("factor", [1.5, "1.5", 10])
@pytest.mark.parametrize(
    "fields",
    [
        {"resources_per_node": {"memory": "1Gi"}},
        {"resources_per_node": {"memory": {"limits": "1Gi"}}},
        {"replicas": {"worker": {"resources": {"memory": "1Gi"}}}},
        {"replicas": {"worker": {"overrides": [{"index": 0, "resources": {"memory": "1Gi"}}]}}},
    ],
)
def test_a_job_whose_memory_is_limited_can_have_more(factor, fields):
    on_oom = _parse({"factor": factor, "max": "2Gi"}, **fields).run_policy.on_oom

    assert (on_oom.factor, on_oom.max) == (float(factor), "2Gi")


@pytest.mark.parametrize(
    ("on_oom", "fields", "error"),
    [
        ({"factor": 1, "max": "2Gi"}, {"memory": "1Gi"}, "run_policy.on_oom.factor: got 1"),
        ({"factor": 11, "max": "2Gi"}, {"memory": "1Gi"}, "run_policy.on_oom.factor: got 11"),
        ({"factor": 2}, {"memory": "1Gi"}, "run_policy.on_oom.max"),
        ({"max": "2Gi"}, {"memory": "1Gi"}, "run_policy.on_oom.factor"),
        ({"factor": 2, "max": "64GB"}, {"memory": "1Gi"}, 'Write "64G"'),
        (
            {"factor": 2, "max": "2Gi"},
            {"cpu": 1},
            "run_policy.on_oom: got 'a value'; allowed: no value where no memory",
        ),
        ({"factor": 2, "max": "2Gi"}, {"memory": {"requests": "1Gi"}}, "Set resources_per_node.memory, or drop on_oom"),
        ({"factor": 2, "max": "1Gi"}, {"memory": "1Gi"}, r"run_policy.on_oom.max: got '1Gi'; allowed: more than"),
    ],
)
def test_what_cannot_grow_is_refused_by_name(on_oom, fields, error):
    with pytest.raises(SpecError, match=error):
        _parse(on_oom, resources_per_node=fields)
