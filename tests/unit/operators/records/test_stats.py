"""The metrics that Airflow's own metrics get of an ended job."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import Stats

from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.operators.records.stats import emit_stats

HANDLE = JobHandle(name="j", uid="u", backend="native", framework="jax", leader="worker-0", owner=1, location="l")
TI = SimpleNamespace(dag_id="d", task_id="t")
TAGS = {"dag_id": "d", "task_id": "t", "framework": "jax", "backend": "native"}
SUMMARY = {"phase": "succeeded", "queue_seconds": 2.5, "run_seconds": 60.0, "restarts": 1}
FAILED = Diagnosis(job="j", phase="failed", reason="Error", message="It broke.")


@pytest.fixture
def sent(monkeypatch):
    """What reaches Airflow's metrics."""
    sent = []
    monkeypatch.setattr(Stats, "timing", lambda name, dt, *, tags: sent.append((name, dt, tags)))
    monkeypatch.setattr(Stats, "incr", lambda name, count=1, *, tags: sent.append((name, count, tags)))
    return sent


def test_durations_restarts_and_the_outcome_are_sent_with_tags(sent):
    emit_stats(TI, HANDLE, JobOutcome(summary=SUMMARY))

    assert sent == [
        ("trainer.queue_seconds", timedelta(seconds=2.5), TAGS),
        ("trainer.run_seconds", timedelta(seconds=60), TAGS),
        ("trainer.restarts", 1, TAGS),
        ("trainer.jobs.succeeded", 1, TAGS),
    ]


def test_a_job_that_did_not_succeed_is_measured_as_far_as_it_came(sent):
    figures = {"restarts": 2, "queue_seconds": 0.0, "run_seconds": None}

    emit_stats(TI, HANDLE, JobOutcome(failure=FAILED, failed_figures=figures))

    assert [row[:2] for row in sent] == [
        ("trainer.queue_seconds", timedelta()),
        ("trainer.restarts", 2),
        ("trainer.jobs.failed", 1),
    ]


def test_the_tags_are_those_of_airflows_own_metrics(sent):
    own = {"dag_id": "d", "task_id": "t", "team_name": "vision"}
    handle = HANDLE.model_copy(update={"framework": ""})

    emit_stats(SimpleNamespace(stats_tags=own), handle, JobOutcome(summary=SUMMARY))

    assert sent[0][2] == {**own, "framework": "unknown", "backend": "native"}


def test_an_error_of_the_metrics_is_logged_and_fails_nothing(monkeypatch, caplog):
    def fail(*_, **__):
        raise OSError("no route")

    monkeypatch.setattr(Stats, "timing", fail)

    emit_stats(TI, HANDLE, JobOutcome(summary=SUMMARY))

    assert "The metrics of training job j could not be sent: no route" in caplog.text
