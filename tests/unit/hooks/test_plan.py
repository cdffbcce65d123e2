"""What Airflow's configuration adds to a job."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.hooks.plan import configured_job
from airflow_trainer_provider.spec import parse_spec

POOLS = {"framework": "jax", "scheduling": {"node_pools": ["a"]}}


def test_node_pools_have_the_label_that_is_configured(monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__NODE_POOL_LABEL", "example.com/pool")

    assert configured_job(parse_spec(POOLS)).leader.scheduling.node_pool_label == "example.com/pool"
    own = {"node_pools": ["a"], "node_pool_label": "own"}
    assert configured_job(parse_spec({**POOLS, "scheduling": own})).leader.scheduling.node_pool_label == "own"


def test_only_a_job_with_pools_needs_the_option(monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__NODE_POOL_LABEL", "a b")

    configured_job(parse_spec({"framework": "jax", "scheduling": {"node_selector": {"a": "b"}}}))
    with pytest.raises(SpecError, match=r"\[trainer\] node_pool_label"):
        configured_job(parse_spec(POOLS))
