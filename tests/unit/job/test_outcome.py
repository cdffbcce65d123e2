"""An outcome comes out of a trigger's event as it went in."""

from __future__ import annotations

import json

import pytest

from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.outcome import JobOutcome

FAILURE = Diagnosis(
    job="j",
    phase="failed",
    reason="Error",
    message="It broke.",
    traceback=("Traceback", "ValueError"),
    last_log_lines=("one", "two"),
    others=({"replica": "worker-1", "exit_code": None},),
)


@pytest.mark.parametrize(
    "outcome",
    [
        JobOutcome(summary={"phase": "succeeded", "result": [1, {"a": None}]}),
        JobOutcome(failure=FAILURE),
        JobOutcome(failure=FAILURE, failed_figures={"restarts": 1, "metrics": {"loss": 0.5}, "run_seconds": None}),
    ],
)
def test_it_comes_out_as_it_went_in(outcome):
    assert JobOutcome.parse(json.loads(json.dumps(outcome.to_json()))) == outcome


def test_a_triggerer_of_an_earlier_version_sends_no_figures():
    event = JobOutcome(failure=FAILURE, failed_figures={"restarts": 1}).to_json()
    del event["failed_figures"]

    assert JobOutcome.parse(event) == JobOutcome(failure=FAILURE)


def test_figures_and_phase_are_those_of_the_job_however_it_ended():
    summary = {"phase": "succeeded", "restarts": 2}
    failed = JobOutcome(failure=FAILURE, failed_figures={"restarts": 3})

    assert (JobOutcome(summary=summary).phase, JobOutcome(summary=summary).figures) == ("succeeded", summary)
    assert (failed.phase, failed.figures) == ("failed", {"restarts": 3})
    assert failed.masked(lambda value: value).figures == {"restarts": 3}
