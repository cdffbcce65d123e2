"""The state of a training task, from its records in Airflow's database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from airflow_trainer_provider.job.queue.place import QueuePlace
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.plugins.view.model.records import TaskRecords, TryRecord
from airflow_trainer_provider.plugins.view.model.values import mapping, mappings, moment, text, whole

#: States of a cleared task instance. Its new try gets its number only when it is scheduled.
_CLEARED = (None, "none")
#: States of a task instance whose try has not started, or is in progress.
_NOT_OVER = ("scheduled", "queued", "running", "deferred")
#: States of a task instance whose try has ended.
_OVER = ("success", "failed", "skipped", "removed", "upstream_failed", "up_for_retry", "restarting")
_WAITS = ("running", "deferred")
_PHASES = frozenset(phase.value for phase in JobPhase)
_ENDED = frozenset(phase.value for phase in JobPhase if phase.ended)
#: A worker and a triggerer send a heartbeat every few seconds; after this time without one they count as lost.
_SILENT = timedelta(seconds=60)


@dataclass(frozen=True)
class JobState:
    """The state of a task's training.

    :param is_training: whether the task has one of the provider's operators.
    :param task_state: Airflow's state of the task instance.
    :param phase: one of :class:`~airflow_trainer_provider.job.status.JobPhase`; None if it is unknown.
    :param is_earlier_try: whether this is a try before the latest one. Only Airflow's own record of it is left.
    :param is_released: whether the task has succeeded and the job continues without it.
    :param is_cut_off: whether the task ended before its job.
    :param is_between_tries: whether the task waits for its next try, which adopts the job if that still runs.
    :param job: the job's handle; empty if there is no job.
    :param request: what the task asks for: XCom ``request``.
    :param progress: the script's reports: XCom ``progress``.
    :param failure: the diagnosis of a failed job: XCom ``failure``.
    :param returned: the summary of a job that succeeded.
    :param replicas: the replicas with their states.
    :param place: the job's place in the queue that holds it; None if no queue holds it, or if the place is unknown.
    :param as_of: the time of the data.
    :param silent_since: when the worker or triggerer that waits for the job was lost; None if it is not lost.
    """

    is_training: bool = True
    task_state: str | None = None
    phase: str | None = None
    is_earlier_try: bool = False
    is_released: bool = False
    is_cut_off: bool = False
    is_between_tries: bool = False
    try_number: int = 1
    retries_left: int = 0
    reason: str | None = None
    message: str | None = None
    queued_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    restarts: int = 0
    first_failed: str | None = None
    replicas: list[Mapping[str, Any]] = field(default_factory=list)
    job: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    failure: Mapping[str, Any] = field(default_factory=dict)
    returned: Mapping[str, Any] = field(default_factory=dict)
    place: QueuePlace | None = None
    as_of: datetime | None = None
    waiter: str | None = None
    silent_since: datetime | None = None

    @property
    def is_active(self) -> bool:
        """Whether the job may still change."""
        return _is_going_on(self.phase) and not self.is_released

    @property
    def queue(self) -> str | None:
        """The queue that admits the job."""
        return text(self.request.get("queue"))

    @property
    def last_known(self) -> datetime | None:
        """The end of the job's known time: its end, or the time of the data."""
        return self.finished_at or self.as_of


def state_of(records: TaskRecords, number: int | None, now: datetime) -> JobState:
    """The state of a try of a task.

    :param records: the records of the task instance.
    :param number: the number of the try; None for the latest.
    :param now: the current time.
    """
    earlier = next((each for each in records.tries if each.number == number), None)
    if earlier is not None and earlier.number != records.try_number:
        return _of_earlier(records, earlier, now)
    return _of_latest(records, now)


def phase_of_try(record: TryRecord) -> str | None:
    """The phase of a try's job, derived from Airflow's state of the try; None if that does not determine it.

    :param record: the try.
    """
    return {"success": "succeeded", "failed": "failed", "up_for_retry": "failed"}.get(record.state or "")


def _of_earlier(records: TaskRecords, record: TryRecord, now: datetime) -> JobState:
    return JobState(
        is_training=records.is_training,
        task_state=record.state,
        phase=phase_of_try(record) or "failed",
        is_earlier_try=True,
        try_number=record.number,
        started_at=record.started_at,
        finished_at=record.ended_at,
        as_of=record.ended_at or now,
    )


def _of_latest(records: TaskRecords, now: datetime) -> JobState:
    xcoms = {key: mapping(value) for key, value in _of_this_try(records).items()}
    job, failure, status, progress = (xcoms.get(key, {}) for key in ("job", "failure", "status", "progress"))
    returned = _summary(xcoms.get("return_value", {}))
    reported = _reported_phase(status, failure, returned)
    known = reported or _phase_of_task(records, bool(job))
    is_between_tries = _is_between_tries(records, bool(job), known)
    is_over, waits = records.state in _OVER and not is_between_tries, records.state in _WAITS
    is_cut_off = is_over and _is_going_on(reported)
    return JobState(
        is_training=records.is_training,
        task_state=records.state,
        phase="cancelled" if is_cut_off else known,
        is_released=bool(job) and records.state == "success" and reported is None,
        is_cut_off=is_cut_off,
        is_between_tries=is_between_tries,
        try_number=records.try_number,
        retries_left=max(0, records.max_tries - records.try_number + 1),
        replicas=_replicas(status, returned),
        place=_place(status),
        job=job,
        request=xcoms.get("request", {}),
        progress=progress,
        failure=failure,
        returned=returned,
        as_of=_as_of(records, status, progress, now),
        waiter=records.waiter if waits else None,
        silent_since=_silent_since(records, status, is_between_tries, now) if job else None,
        **_reported({**status, **returned}, failure, _ended_at(records) if is_over else None),
    )


def _is_between_tries(records: TaskRecords, has_job: bool, phase: str | None) -> bool:
    # The job of a worker that was lost, or had no contact, continues.
    return records.state == "up_for_retry" and has_job and _is_going_on(phase)


def _is_going_on(phase: str | None) -> bool:
    return phase is not None and phase not in _ENDED


def _summary(returned: Mapping[str, Any]) -> Mapping[str, Any]:
    """The summary of a job that succeeded. A task that does not wait returns the handle, which has no phase."""
    return returned if text(returned.get("phase")) in _PHASES else {}


def _reported(known: Mapping[str, Any], failure: Mapping[str, Any], ended_at: datetime | None) -> dict[str, Any]:
    """The values of the job's status, as fields of :class:`JobState`."""
    return {
        "reason": text(known.get("reason")),
        "message": text(known.get("message")),
        "queued_at": moment(known.get("queued_at")),
        "started_at": moment(known.get("started_at")),
        "finished_at": moment(known.get("finished_at")) or ended_at,
        "restarts": whole(known.get("restarts")) or 0,
        "first_failed": text(known.get("first_failed")) or text(failure.get("replica")),
    }


def _of_this_try(records: TaskRecords) -> Mapping[str, Any]:
    """The XComs of the current try. Airflow clears those of an earlier try only when the next try runs."""
    if records.state in _CLEARED:
        return {}
    owner = mapping(records.xcoms.get("job")).get("owner")
    if records.state in _NOT_OVER and owner != records.try_number:
        return {}
    return records.xcoms


def _reported_phase(status: Mapping[str, Any], failure: Mapping[str, Any], returned: Mapping[str, Any]) -> str | None:
    for source in (failure, returned, status):
        phase = text(source.get("phase"))
        if phase in _PHASES:
            return phase
    return None


def _phase_of_task(records: TaskRecords, has_job: bool) -> str | None:
    """The phase of a task whose job has not been reported yet."""
    if has_job and records.state in (*_WAITS, "up_for_retry"):
        return "starting"
    return "failed" if records.state in ("failed", "up_for_retry") else None


def _replicas(status: Mapping[str, Any], returned: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    # The rows of the status have nodes and segments; the rows of the summary have the end of each replica.
    rows = _by_name(mappings(status.get("replicas")))
    ended = _by_name(mappings(returned.get("replicas")))
    return [{**row, **ended.get(name, {}), "name": name} for name, row in (rows or ended).items()]


def _place(status: Mapping[str, Any]) -> QueuePlace | None:
    if status.get("phase") != JobPhase.QUEUED.value:
        return None
    try:
        return QueuePlace.model_validate(status.get("queue"))
    except ValueError:
        # There is no place, or a task has written another value.
        return None


def _by_name(rows: list[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {text(row.get("name")) or f"{row.get('group')}-{row.get('index')}": row for row in rows}


def _ended_at(records: TaskRecords) -> datetime | None:
    return records.tries[-1].ended_at if records.tries else None


def _as_of(records: TaskRecords, status: Mapping[str, Any], progress: Mapping[str, Any], now: datetime) -> datetime:
    if records.state in _WAITS:
        # The worker or triggerer writes only changes: as long as it sends heartbeats, its last values are current.
        times = (moment(status.get("as_of")), moment(progress.get("reported_at")), records.waiter_seen_at)
        return max((time for time in times if time), default=now)
    return _ended_at(records) or now


def _silent_since(
    records: TaskRecords, status: Mapping[str, Any], is_between_tries: bool, now: datetime
) -> datetime | None:
    if is_between_tries:
        return _ended_at(records) or now
    if records.state not in _WAITS:
        return None
    seen = max(filter(None, (records.waiter_seen_at, moment(status.get("as_of")))), default=None)
    return seen if seen and now - seen > _SILENT else None
