"""The trigger and the sensor: what they make of how a wait ends."""

from __future__ import annotations

import asyncio
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
from airflow.triggers.base import BaseTrigger

import airflow_trainer_provider as provider
from airflow_trainer_provider.errors import ApiError, JobLost, JobTimeout, SpecError
from airflow_trainer_provider.hooks import task as task_state
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

HANDLE = JobHandle(name="j", uid="u", backend="local", framework="jax", leader="worker-0", owner=1, location="/l")
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SUCCEEDED = JobOutcome(summary={"phase": "succeeded"})
FAILED = JobOutcome(failure=Diagnosis(job="j", phase="failed", reason="Error", message="It broke."))


@pytest.fixture
def hook(monkeypatch):
    """How the wait ends, and what the hook is asked for."""
    case = SimpleNamespace(end=SUCCEEDED, phase=JobPhase.RUNNING, waits=[], cancelled=[], acknowledged=[])

    async def wait(self, handle, **options):
        case.waits.append(options)
        if isinstance(case.end, BaseException):
            raise case.end
        return case.end

    async def backend_of(self, handle):
        return case

    async def status(handle):
        return JobStatus(phase=case.phase, queued_at=NOW)

    async def cancel(self, handle, reason):
        case.cancelled.append((handle, reason))

    async def acknowledge(self, handle):
        case.acknowledged.append(handle)

    case.status = status
    for method in (wait, backend_of, cancel, acknowledge):
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

    kwargs = {"job": dict(HANDLE.to_xcom()), "deadline": "2026-01-01T00:00:00+00:00", "starts": 1}
    assert events == [{**event, "kwargs": kwargs}] == json.loads(json.dumps(events))
    assert (hook.waits[0]["deadline"], hook.waits[0]["startup_timeout"]) == (NOW, 40)


async def test_an_error_that_no_retry_cures_says_so_in_the_event(hook):
    hook.end = SpecError([])

    events = [each.payload async for each in _trigger().run()]

    assert events[0]["retryable"] is False


async def test_an_error_of_any_kind_is_left_to_the_next_try(hook):
    hook.end = KeyError("conditions")

    (event,) = [each.payload async for each in _trigger().run()]

    del event["kwargs"]
    assert event == {"end": "error", "message": "KeyError: 'conditions'", "retryable": True}


async def test_an_error_of_any_kind_shows_no_secret(hook):
    hook.end = ConnectionError("cannot reach https://me:hunter2secret@mirror.example/")

    (event,) = [each.payload async for each in _trigger().run()]

    assert event["message"] == "ConnectionError: cannot reach https://me:***@mirror.example/"


@pytest.fixture
def firing(monkeypatch):
    """The triggers that were about to fire, and what they wait for."""
    case = SimpleNamespace(triggers=[], wait=None)

    async def ready_to_fire(trigger, begun):
        case.triggers.append(trigger)
        if case.wait:
            await case.wait()

    monkeypatch.setattr("airflow_trainer_provider.triggers.firing.ready_to_fire", ready_to_fire)
    return case


@pytest.fixture
def state(monkeypatch):
    """What Airflow answers, one after the other, to the question for the task's state."""
    case = SimpleNamespace(answers=["deferred"], handles=[HANDLE.to_xcom()])

    async def state_of(identity):
        assert (identity.dag_id, identity.run_id, identity.task_id, identity.map_index) == ("d", "r", "train", 3)
        answer = case.answers[0] if len(case.answers) == 1 else case.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def handle_of(identity):
        return case.handles[0] if len(case.handles) == 1 else case.handles.pop(0)

    monkeypatch.setattr(task_state, "state_of", state_of)
    monkeypatch.setattr(task_state, "_handle_of", handle_of)
    monkeypatch.setattr(task_state, "_NEXT_JOB_SECONDS", 0.05)
    monkeypatch.setattr(task_state, "_CLEARED_SECONDS", 0.05)
    monkeypatch.setattr(task_state, "_LOOK_SECONDS", 0.01)
    return case


def _cancelled_trigger(**fields):
    trigger = _trigger(**fields)
    trigger.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=3, try_number=1)
    return trigger


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (["failed"], "the task is failed"),
        (["success"], "the task is success"),
        (["skipped"], task_state.SKIPPED),
        (["removed"], "the task is removed"),
        ([None], "the task is cleared"),
        # Another triggerer has taken over; or its trigger has fired, and the task goes on with the outcome.
        (["deferred"], None),
        (["scheduled"], None),
        (["running"], None),
        (["up_for_retry"], None),
        # Cleared, and scheduled again: the next try knows that it was cleared.
        ([None, None, "scheduled"], None),
        ([ConnectionError("the database is away")], None),
    ],
)
async def test_a_cancelled_trigger_ends_the_job_only_of_a_task_that_is_over(hook, state, answers, reason):
    state.answers = answers

    await _cancelled_trigger().on_kill()

    assert hook.cancelled == ([(HANDLE, reason)] if reason else [])


@pytest.mark.parametrize(
    ("handles", "cancelled"),
    [
        ([HANDLE.to_xcom(), None, {**HANDLE.to_xcom(), "uid": "another"}], True),
        # Its next try has not got so far, or has adopted the job.
        ([HANDLE.to_xcom(), None], False),
        ([None, HANDLE.to_xcom()], False),
    ],
)
async def test_a_cancelled_trigger_ends_the_job_of_a_task_that_trains_again_elsewhere(hook, state, handles, cancelled):
    state.answers, state.handles = ["scheduled", "scheduled", "running"], handles

    await _cancelled_trigger().on_kill()

    assert hook.cancelled == ([(HANDLE, "the task is retrained by another job")] if cancelled else [])


async def test_a_trigger_that_airflow_cancels_again_and_again_still_ends_the_job(hook, state):
    state.answers = [None]
    killing = asyncio.create_task(_cancelled_trigger().on_kill())
    for _ in range(5):
        await asyncio.sleep(0)
        killing.cancel()

    await killing

    assert hook.cancelled == [(HANDLE, "the task is cleared")]


async def test_a_trigger_that_does_not_own_the_job_never_ends_it(hook, state):
    state.answers = ["failed"]

    await _cancelled_trigger(cancel_on_kill=False).on_kill()

    assert hook.cancelled == []


@pytest.mark.parametrize(
    ("answer", "calls_on_kill", "cancelled"),
    [("skipped", False, True), ("deferred", False, False), ("skipped", True, False)],
    ids=["task acted on", "triggerer stops", "Airflow 3.3"],
)
async def test_before_airflow_3_3_the_clean_up_does_what_on_kill_does(
    hook, state, monkeypatch, answer, calls_on_kill, cancelled
):
    if calls_on_kill:
        monkeypatch.setattr(BaseTrigger, "on_kill", lambda self: None, raising=False)
    else:
        monkeypatch.delattr(BaseTrigger, "on_kill", raising=False)
    state.answers, hook.end = [answer], asyncio.CancelledError()
    trigger = _cancelled_trigger()

    with pytest.raises(asyncio.CancelledError):
        [_ async for _ in trigger.run()]
    await trigger.cleanup()

    assert hook.cancelled == ([(HANDLE, task_state.SKIPPED)] if cancelled else [])


async def test_a_trigger_that_has_fired_ends_nothing_in_its_clean_up(hook, state, firing, monkeypatch):
    monkeypatch.delattr(BaseTrigger, "on_kill", raising=False)
    state.answers = ["success"]
    trigger = _cancelled_trigger()

    [_ async for _ in trigger.run()]
    await trigger.cleanup()

    assert hook.cancelled == []


async def test_a_trigger_is_ready_before_it_fires(hook, firing):
    trigger, events = _cancelled_trigger(), []

    async def nothing_yet():
        assert events == []

    firing.wait = nothing_yet
    async for event in trigger.run():
        events.append(event)

    assert firing.triggers == [trigger]
    assert len(events) == 1


async def test_a_trigger_whose_task_is_marked_before_it_fires_ends_the_job(hook, state, firing, monkeypatch):
    monkeypatch.delattr(BaseTrigger, "on_kill", raising=False)
    state.answers, hook.end = ["skipped"], JobTimeout("late")

    async def cancelled():
        raise asyncio.CancelledError

    firing.wait, trigger = cancelled, _cancelled_trigger()

    with pytest.raises(asyncio.CancelledError):
        [_ async for _ in trigger.run()]
    await trigger.cleanup()

    assert hook.cancelled == [(HANDLE, task_state.SKIPPED)]


@pytest.mark.parametrize(("metrics", "has_key"), [({}, False), ({"loss": r"loss=(.*)"}, True)])
async def test_only_metrics_make_a_row_that_earlier_triggerers_cannot_read(hook, firing, metrics, has_key):
    _, kwargs = _trigger(metrics=metrics).serialize()
    trigger = TrainJobTrigger(**kwargs)
    trigger.task_instance = _cancelled_trigger().task_instance

    [_ async for _ in trigger.run()]

    assert ("metrics" in kwargs) is has_key
    assert hook.waits[0]["reports"].metrics == metrics


@pytest.mark.parametrize("given", [{}, {"starts": 2}, {"starts": 3, "more_memory": [{"replica": "worker-1"}]}])
async def test_the_event_has_what_the_task_goes_on_with_and_the_row_no_more_than_there_is(hook, given):
    _, row = _trigger(**given).serialize()

    (event,) = [each.payload async for each in TrainJobTrigger(**row).run()]

    assert {name: row[name] for name in ("starts", "more_memory") if name in row} == given
    assert event["kwargs"] == {"job": dict(HANDLE.to_xcom()), "deadline": None, "starts": 1, **given}


async def test_a_trigger_that_does_not_own_the_job_reports_nothing(hook, firing):
    [_ async for _ in _cancelled_trigger(cancel_on_kill=False).run()]

    assert hook.waits[0]["reports"] is None


@pytest.fixture
def context():
    pushed = {}
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="wait", map_index=-1, try_number=1, pushed=pushed)
    ti.xcom_push = lambda key, value: pushed.update({key: value})
    ti.task = SimpleNamespace(outlets=())
    return {"ti": ti}


def _sensor(**fields):
    with DAG("d", schedule=None):
        return provider.TrainJobSensor(task_id="wait", job=HANDLE.to_xcom(), **fields)


def test_a_poke_looks_for_a_moment_while_the_job_goes_on(hook, context):
    hook.end, moment = JobTimeout("late"), timedelta(seconds=1)
    before = datetime.now(timezone.utc)

    assert not _sensor().poke(context).is_done

    assert before + moment <= hook.waits[0]["deadline"] <= datetime.now(timezone.utc) + moment


def test_a_poke_reads_an_ended_job_to_its_end(hook, context):
    hook.phase = JobPhase.SUCCEEDED

    value = _sensor().poke(context)

    assert (value.is_done, value.xcom_value) == (True, SUCCEEDED.summary)
    assert hook.waits[0]["deadline"] is None
    assert context["ti"].task.succeeded_job[1] == HANDLE


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
    assert isinstance(caught.value, AirflowFailException) is (error is AirflowFailException)

    with pytest.raises(AirflowSkipException, match="soft_fail"):
        _sensor(soft_fail=True).execute_complete(context, event)


def test_a_sensor_fails_for_good_where_a_function_has_no_value(hook, context):
    summary = {"phase": "succeeded", "function": "train", "result": None, "result_error": "its value has a set"}
    hook.phase, hook.end = JobPhase.SUCCEEDED, JobOutcome(summary=summary)

    for wait in (
        lambda: _sensor().poke(context),
        lambda: _sensor().execute_complete(context, {"end": "concluded", **hook.end.to_json()}),
    ):
        context["ti"].pushed.clear()
        with pytest.raises(AirflowFailException, match="job j has succeeded, but its value has a set"):
            wait()
        assert context["ti"].pushed == {"summary": summary}
        assert not hasattr(context["ti"].task, "succeeded_job")
    # A script's result is an extra.
    script = JobOutcome(summary={"phase": "succeeded", "result": None, "result_error": "the result is not JSON"})
    assert _sensor().execute_complete(context, {"end": "concluded", **script.to_json()}) == script.summary
