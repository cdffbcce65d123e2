"""The trigger and the sensor: what they make of how a wait ends."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)
from airflow.sdk import DAG

import airflow_trainer_provider as provider
from airflow_trainer_provider.errors import ApiError, JobLost, JobTimeout, SpecError
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.conclusion import Conclusion
from airflow_trainer_provider.job.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

HANDLE = JobHandle(name="j", uid="u", backend="local", framework="jax", leader="worker-0", owner=1, location="/l")
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SUCCEEDED = Conclusion(summary={"phase": "succeeded"})
FAILED = Conclusion(failure=Diagnosis(job="j", phase="failed", reason="Error", message="It broke."))


@pytest.fixture
def hook(monkeypatch):
    """How the wait ends, and what the hook is asked for."""
    case = SimpleNamespace(end=SUCCEEDED, phase=JobPhase.RUNNING, waits=[], cancelled=[], told=[])

    async def wait(self, handle, **options):
        case.waits.append(options)
        if isinstance(case.end, Exception):
            raise case.end
        return case.end

    async def backend_of(self, handle):
        return case

    async def status(handle):
        return JobStatus(phase=case.phase, queued_at=NOW)

    async def cancel(self, handle, reason):
        case.cancelled.append((handle, reason))

    async def collected(self, handle):
        case.told.append(handle)

    case.status = status
    for method in (wait, backend_of, cancel, collected):
        monkeypatch.setattr(TrainerHook, method.__name__, method)
    return case


def _trigger(**fields):
    values = {"reader": "try-1", "deadline": None, "cancel_on_kill": True, "startup_timeout": 40.0, **fields}
    return TrainJobTrigger(dict(HANDLE.to_xcom()), **values)


@pytest.mark.parametrize(
    ("end", "event"),
    [
        (SUCCEEDED, {"end": "concluded", **SUCCEEDED.to_json()}),
        (FAILED, {"end": "concluded", **FAILED.to_json()}),
        (JobTimeout("late"), {"end": "timed out"}),
        (JobLost("gone"), {"end": "error", "message": "gone", "retryable": True}),
        (ApiError("no answer"), {"end": "error", "message": "no answer", "retryable": True}),
    ],
)
async def test_the_event_says_all_of_how_the_wait_ended(hook, end, event):
    hook.end = end

    events = [each.payload async for each in _trigger(deadline="2026-01-01T00:00:00+00:00").run()]

    assert events == [event] == json.loads(json.dumps(events))
    assert (hook.waits[0]["deadline"], hook.waits[0]["startup_timeout"]) == (NOW, 40)


async def test_an_error_that_no_retry_cures_says_so_in_the_event(hook):
    hook.end = SpecError([])

    events = [each.payload async for each in _trigger().run()]

    assert events[0]["retryable"] is False


async def test_a_trigger_ends_its_tasks_job_and_no_other(hook):
    await _trigger(cancel_on_kill=False).on_kill()
    await _trigger().on_kill()

    assert hook.cancelled == [(HANDLE, "the task was killed while it was deferred")]


@pytest.fixture
def context():
    pushed = {}
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="wait", map_index=-1, try_number=1, pushed=pushed)
    ti.xcom_push = lambda key, value: pushed.update({key: value})
    ti.task = SimpleNamespace(do_xcom_push=True)
    return {"ti": ti}


def _sensor(**fields):
    with DAG("d", schedule=None):
        return provider.TrainJobSensor(task_id="wait", job=HANDLE.to_xcom(), **fields)


def test_a_poke_looks_for_a_moment_while_the_job_goes_on(hook, context):
    hook.end = JobTimeout("late")

    assert not _sensor().poke(context).is_done

    assert hook.waits[0]["deadline"] - datetime.now(timezone.utc) <= timedelta(seconds=1)


def test_a_poke_reads_an_ended_job_to_its_end(hook, context):
    hook.phase = JobPhase.SUCCEEDED

    value = _sensor().poke(context)

    assert (value.is_done, value.xcom_value) == (True, SUCCEEDED.summary)
    assert hook.waits[0]["deadline"] is None
    assert hook.told == [HANDLE]


def test_a_poke_fails_with_the_job(hook, context):
    hook.end = FAILED

    with pytest.raises(AirflowException, match="It broke"):
        _sensor().poke(context)

    assert context["ti"].pushed["failure"]["reason"] == "Error"


def test_a_deferred_sensor_hands_on_what_its_trigger_found(hook, context):
    assert _sensor().execute_complete(context, {"end": "concluded", **SUCCEEDED.to_json()}) == SUCCEEDED.summary


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"end": "timed out"}, AirflowSensorTimeout),
        ({"end": "error", "message": "gone", "retryable": True}, AirflowException),
        ({"end": "error", "message": "wrong", "retryable": False}, AirflowFailException),
        ({"end": "concluded", **FAILED.to_json()}, AirflowException),
    ],
)
def test_a_deferred_sensor_fails_or_skips(hook, context, event, error):
    with pytest.raises(error) as caught:
        _sensor().execute_complete(context, event)
    assert type(caught.value) is error

    with pytest.raises(AirflowSkipException, match="soft_fail"):
        _sensor(soft_fail=True).execute_complete(context, event)
