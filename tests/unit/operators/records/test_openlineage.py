"""What OpenLineage's events of a task hold of its job."""

from __future__ import annotations

import pytest
from airflow.sdk import DAG
from attrs import asdict

import airflow_trainer_provider as provider
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.outcome import JobOutcome

HANDLE = JobHandle(name="j", uid="u", backend="native", framework="jax", leader="worker-0", owner=1, location="l")
SUMMARY = {
    "phase": "succeeded",
    "restarts": 1,
    "queue_seconds": 2.5,
    "run_seconds": 60.0,
    "metrics": {"loss": 0.5},
    "replicas": [{"group": "worker"}, {"group": "worker"}],
}
FAILED = Diagnosis(
    job="j",
    phase="failed",
    reason="Error",
    message="It broke.",
    replica="worker-0",
    exit_code=1,
    last_log_lines=("a line",),
    others=({"replica": "worker-1"},),
)


@pytest.fixture
def operator():
    with DAG("d", schedule=None):
        return provider.TrainJobOperator(task_id="train", framework="jax")


def _facet(lineage):
    (facet,) = lineage.run_facets.values()
    return {name: value for name, value in asdict(facet).items() if not name.startswith("_")}


def test_a_job_that_succeeded(operator):
    operator.handle, operator.outcome = HANDLE, JobOutcome(summary=SUMMARY)

    lineage = operator.get_openlineage_facets_on_complete(None)

    # The provider adds what the task declares where there is nothing yet.
    assert (lineage.inputs, lineage.outputs) == ([], [])
    assert list(lineage.run_facets) == ["trainer_job"]
    assert _facet(lineage) == {
        "job": "j",
        "framework": "jax",
        "backend": "native",
        "phase": "succeeded",
        "replicas": 2,
        "restarts": 1,
        "queueSeconds": 2.5,
        "runSeconds": 60.0,
        "metrics": {"loss": 0.5},
        "verdict": None,
    }


def test_a_job_that_failed_has_its_verdict_without_its_lines(operator):
    operator.handle = HANDLE
    operator.outcome = JobOutcome(failure=FAILED, failed_figures={"restarts": 0, "metrics": {}, "run_seconds": None})

    facet = _facet(operator.get_openlineage_facets_on_failure(None))

    assert (facet["phase"], facet["replicas"], facet["runSeconds"]) == ("failed", 2, None)
    assert (facet["verdict"]["message"], facet["verdict"]["exitCode"]) == ("It broke.", 1)
    assert "a line" not in str(facet)


def test_a_job_whose_outcome_has_not_reached_the_task_is_named(operator):
    operator.handle = HANDLE

    facet = _facet(operator.get_openlineage_facets_on_failure(None))

    assert (facet["job"], facet["phase"], facet["replicas"], facet["verdict"]) == ("j", None, None, None)


def test_a_task_that_came_to_no_job_has_no_facet(operator):
    assert operator.get_openlineage_facets_on_failure(None).run_facets == {}


def test_a_failure_without_a_replica_counts_each_replica_once(operator):
    rows = tuple({"replica": f"worker-{index}"} for index in range(2))
    late = Diagnosis(job="j", phase="failed", reason="DeadlineExceeded", message="Too long.", others=rows)
    operator.handle, operator.outcome = HANDLE, JobOutcome(failure=late)

    assert _facet(operator.get_openlineage_facets_on_failure(None))["replicas"] == 2
