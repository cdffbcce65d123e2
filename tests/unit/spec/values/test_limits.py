"""Jobs that are too large for anything are refused before anything is laid out."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.spec import parse_spec
from airflow_trainer_provider.spec.values import limits

MANY = 1_000_000_000


def _refusal(**fields: Any) -> Any:
    """The problem, which neither time nor memory goes into."""
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(SpecError) as caught:
            plan_job(parse_spec({"framework": "pytorch", **fields}))
        seconds, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seconds < 3
    assert peak < 20 * 2**20
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("number", [10_001, MANY, str(MANY), 10**30])
@pytest.mark.parametrize(
    ("field", "put"),
    [
        ("num_nodes", lambda number: {"num_nodes": number}),
        ("num_workers", lambda number: {"num_workers": number}),
        ("elastic.max_nodes", lambda number: {"elastic": {"min_nodes": 1, "max_nodes": number}}),
        ("elastic.max_restarts", lambda number: {"elastic": {"min_nodes": 1, "max_nodes": 1, "max_restarts": number}}),
        ("replicas.worker.replicas", lambda number: {"replicas": {"worker": {"replicas": number}}}),
        ("resources_per_node.gpu", lambda number: {"resources_per_node": {"gpu": number}}),
    ],
)
def test_no_number_of_replicas_or_restarts_is_above_ten_thousand(field: str, put: Any, number: Any) -> None:
    problem = _refusal(**put(number))

    assert problem.field == field
    assert "at most 10000" in problem.allowed


def test_no_number_of_processes_is_above_ten_thousand() -> None:
    assert "at most 10000, or auto, cpu, gpu" in _refusal(num_proc_per_node=MANY).allowed


def test_all_groups_together_have_ten_thousand_replicas_at_most() -> None:
    sizes = {"worker": {"replicas": 4000}, "ps": {"replicas": 6001}}
    problem = _refusal(framework="tensorflow", replicas=sizes)

    assert (problem.field, problem.value) == ("replicas.ps.replicas", 6001)
    assert "at most 10000 replicas in all; these are 10001" in problem.allowed


def test_ten_thousand_nodes_are_laid_out() -> None:
    assert len(plan_job(parse_spec({"framework": "pytorch", "num_nodes": 10_000})).replicas) == 10_000


def test_a_list_of_replica_addresses_that_fits_into_no_variable_is_refused() -> None:
    problem = _refusal(framework="tensorflow", num_nodes=9_999)

    assert (problem.field, problem.value) == ("num_nodes", 9_999)
    assert "131071 bytes" in problem.allowed


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"replicas": {"worker": {"overrides": [{"index": at} for at in range(300)]}}}, "replicas.worker.overrides"),
        ({"replicas": {f"group{at}": {} for at in range(20)}}, "replicas"),
        ({"run_policy": {"active_deadline_seconds": 1e300}}, "run_policy.active_deadline_seconds"),
        ({"run_policy": {"startup_timeout_seconds": 10**12}}, "run_policy.startup_timeout_seconds"),
        ({"run_policy": {"ttl_seconds_after_finished": 2**31}}, "run_policy.ttl_seconds_after_finished"),
        ({"image": "x" * 5000}, "image"),
        ({"scheduling": {"queue_name": "q" * 64}}, "scheduling.queue_name"),
    ],
)
def test_other_fields_have_bounds_too(fields: dict[str, Any], field: str) -> None:
    assert _refusal(**fields).field == field


def test_the_bounds_are_those_of_the_documentation() -> None:
    assert (limits.MOST_OVERRIDES, limits.MOST_OBJECTS, limits.MOST_JOB_BYTES) == (256, 1000, 8 * 2**20)
