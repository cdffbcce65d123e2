"""The task view: the data of the Training tab of a task instance."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_trainer_provider.plugins.view.model.facts import actions_of, facts_of, job_of
from airflow_trainer_provider.plugins.view.model.progress import (
    metrics_of,
    progress_of,
    queue_seconds,
    restarts_of,
    typical_of,
)
from airflow_trainer_provider.plugins.view.model.records import EarlierRun, TaskRecords
from airflow_trainer_provider.plugins.view.model.sentence import sentence_of
from airflow_trainer_provider.plugins.view.model.state import JobState, phase_of_try, state_of
from airflow_trainer_provider.plugins.view.model.values import (
    iso,
    mapping,
    mappings,
    number,
    seconds_between,
    text,
    texts,
    whole,
)
from airflow_trainer_provider.plugins.view.model.waiting import wait_of

#: Fields of the XCom ``failure`` that are shown.
_FAILURE_TEXTS = ("job", "phase", "reason", "message", "replica", "signal", "retry_can_help", "way_out")
_OTHER_TEXTS = ("name", "replica", "reason", "signal")


def task_view(records: TaskRecords, shown_try: int | None, may_edit: bool, now: datetime) -> dict[str, Any]:
    """The whole task view, as JSON values.

    :param records: the records of the task instance.
    :param shown_try: the number of the try; None for the latest.
    :param may_edit: whether the viewer may edit the task instance.
    :param now: the current time.
    """
    state = state_of(records, shown_try, now)
    previous = records.earlier[0] if records.earlier else None
    progress = progress_of(state, previous)
    said = sentence_of(state)
    return {
        "as_of": iso(state.as_of),
        "stale": _stale(state),
        "is_training": state.is_training,
        "task_state": state.task_state,
        "job": job_of(state),
        "try_number": state.try_number,
        "tries": _tries(records, state),
        "max_tries": records.max_tries + 1,
        "status": _status(state),
        "summary": said.summary,
        "detail": said.detail,
        "progress": progress,
        "typical": typical_of(records.earlier),
        "restarts": restarts_of(state),
        "metrics": metrics_of(state),
        "previous": _previous(previous),
        "facts": facts_of(state, progress["eta"] if progress else None),
        "actions": actions_of(state, may_edit),
        "wait": _wait(state, records),
        "failure": _failure(state),
        "airflow": _airflow(state),
        "hang": None,
        "result": _result(state),
        "durations": _durations(state),
        "goodput": None,
    }


def _stale(state: JobState) -> dict[str, Any] | None:
    if state.silent_since is None:
        return None
    if state.is_between_tries:
        what = "The task waits for its next try"
    else:
        what = f"{f'The {state.waiter}' if state.waiter else 'What waits for the job'} does not report"
    return {"since": iso(state.silent_since), "why": f"{what}; the job itself may go on."}


def _tries(records: TaskRecords, state: JobState) -> list[dict[str, Any]]:
    latest = _latest_phase(records, state)
    rows = [{"number": each.number, "phase": phase_of_try(each)} for each in records.tries]
    return [{**row, "phase": latest} if row["number"] == records.try_number else row for row in rows]


def _latest_phase(records: TaskRecords, state: JobState) -> str | None:
    """The phase of the latest try, even if another try is shown."""
    if not state.is_earlier_try:
        return state.phase
    status = mapping(records.xcoms.get("status"))
    newest = records.tries[-1] if records.tries else None
    return (phase_of_try(newest) if newest else None) or text(status.get("phase"))


def _status(state: JobState) -> dict[str, Any]:
    return {
        "phase": state.phase,
        "reason": state.reason,
        "message": state.message,
        "queued_at": iso(state.queued_at),
        "admitted_at": None,
        "started_at": iso(state.started_at),
        "finished_at": iso(state.finished_at),
        "restarts": state.restarts,
    }


def _previous(run: EarlierRun | None) -> dict[str, Any] | None:
    return {"run_id": run.run_id, "label": iso(run.at) or run.run_id, "state": "succeeded"} if run else None


def _wait(state: JobState, records: TaskRecords) -> dict[str, Any] | None:
    if state.phase not in ("queued", "starting") or not state.job:
        return None
    waits = [each for each in (queue_seconds(run) for run in records.earlier) if each is not None]
    return wait_of(state, waits)


def _failure(state: JobState) -> dict[str, Any] | None:
    failure = state.failure
    if not failure:
        return None
    return {
        **{name: text(failure.get(name)) for name in _FAILURE_TEXTS},
        "rank": whole(failure.get("rank")),
        "exit_code": whole(failure.get("exit_code")),
        "infrastructure": failure.get("infrastructure") is True,
        "traceback": texts(failure.get("traceback")),
        "last_log_lines": texts(failure.get("last_log_lines")),
        "others": [_other(row) for row in mappings(failure.get("others"))],
        "at": iso(failure.get("at") or state.finished_at),
        "step": whole(failure.get("step")) or whole(state.progress.get("step")),
        "ranks": text(failure.get("ranks")),
    }


def _other(row: Any) -> dict[str, Any]:
    return {**{name: text(row.get(name)) for name in _OTHER_TEXTS}, "exit_code": whole(row.get("exit_code"))}


def _airflow(state: JobState) -> dict[str, str] | None:
    """What Airflow does after a failure."""
    if state.phase not in ("failed", "cancelled") or state.is_earlier_try:
        return None
    left = f"{state.retries_left} {'retry' if state.retries_left == 1 else 'retries'} left"
    if state.task_state == "up_for_retry":
        return {"title": "Retries", "note": f"the next try starts after the retry delay, {left}"}
    if state.task_state == "failed":
        note = f"failed for good, {left}" if state.retries_left else "no retries are left"
        return {"title": "Does not retry", "note": note}
    return None


def _result(state: JobState) -> dict[str, Any] | None:
    returned = state.returned
    if not returned:
        return None
    metrics = {str(name): number(value) for name, value in mapping(returned.get("metrics")).items()}
    return {
        "json": returned.get("result"),
        "error": text(returned.get("result_error")),
        "metrics": metrics,
        "better": {row["name"]: row["better"] for row in metrics_of(state) if row["name"] in metrics},
        "versus": {},
    }


def _durations(state: JobState) -> list[dict[str, Any]]:
    # Not for an active job: the durations would change each response, and the page can compute them from the times.
    if not state.job or state.is_active:
        return []
    until = state.last_known
    queued = seconds_between(state.queued_at, state.started_at or until)
    ran = seconds_between(state.started_at, until)
    found = (("queued", queued), ("running", ran))
    return [{"kind": kind, "seconds": round(seconds)} for kind, seconds in found if seconds is not None]
