"""One run of a training task, as a row: its outcome, durations, cost and results."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from airflow_trainer_provider.plugins.view.dag.records import RunRecord
from airflow_trainer_provider.plugins.view.model.facts import gpu_hours
from airflow_trainer_provider.plugins.view.model.sentence import sentence_of
from airflow_trainer_provider.plugins.view.model.state import JobState, state_of
from airflow_trainer_provider.plugins.view.model.values import (
    iso,
    listing,
    mapping,
    mappings,
    moment,
    number,
    seconds_between,
    whole,
)

#: State of a task that has no job yet -> outcome.
_BEFORE_JOB = {"scheduled": "queued", "queued": "queued", "running": "starting", "deferred": "starting"}
#: Outcomes that need no reason.
_PLAIN = ("succeeded", "running")
ENDED = ("succeeded", "failed", "cancelled")
KINDS = ("queued", "starting", "running", "redone")


class Row(NamedTuple):
    """The data of a run in the view.

    :param record: the run.
    :param outcome: the phase of its job; None if it is unknown.
    :param metrics: the last values of a run that succeeded; empty for other runs.
    :param durations: kind of time -> seconds; unknown ones are left out.
    :param gpu_hours: None if the job requested no GPU, or if the value is unknown.
    """

    record: RunRecord
    outcome: str | None
    reason: str | None
    metrics: dict[str, float]
    durations: dict[str, float]
    gpu_hours: float | None

    @property
    def is_active(self) -> bool:
        """Whether the run is still in progress."""
        return self.outcome is not None and self.outcome not in ENDED

    @property
    def seconds(self) -> float:
        """The total duration."""
        return sum(self.durations.values())


def row_of(record: RunRecord, now: datetime) -> Row:
    """The data of a run in the view.

    :param record: the run.
    :param now: the current time.
    """
    state = state_of(record.task, None, now)
    outcome = state.phase or _BEFORE_JOB.get(state.task_state or "")
    return Row(
        record,
        outcome,
        None if outcome in _PLAIN and state.silent_since is None else sentence_of(state).summary,
        _metrics(state) if outcome == "succeeded" else {},
        _durations(state),
        _gpu_hours(state),
    )


def row_view(row: Row) -> dict[str, Any]:
    """A run, as JSON values.

    :param row: the run.
    """
    task = row.record.task
    return {
        "run_id": task.run_id,
        "map_index": task.map_index,
        "label": iso(row.record.at) or task.run_id,
        "map_label": row.record.map_label,
        "outcome": row.outcome,
        "is_active": row.is_active,
        "tries": task.try_number,
        "reason": row.reason,
        "gpu_hours": row.gpu_hours,
        "metrics": row.metrics,
        "durations": {kind: round(row.durations[kind]) if kind in row.durations else None for kind in KINDS},
    }


def _metrics(state: JobState) -> dict[str, float]:
    found = {str(name): number(value) for name, value in mapping(state.returned.get("metrics")).items()}
    return {name: value for name, value in found.items() if value is not None}


def _until(state: JobState) -> datetime | None:
    """The end of the job's known time. For an active job in whole minutes, as seconds would change each response."""
    until = state.last_known
    return until.replace(second=0, microsecond=0) if until and state.is_active else until


def _durations(state: JobState) -> dict[str, float]:
    if not state.job:
        return {}
    until, begins = _until(state), _begins_to_start(state)
    found = {
        "queued": seconds_between(state.queued_at, begins or state.started_at or until),
        "starting": seconds_between(begins, state.started_at or until),
        "running": seconds_between(state.started_at, until),
    }
    known = {kind: seconds for kind, seconds in found.items() if seconds is not None}
    redone = known.get("running", 0.0) * _repeated_share(state)
    return {**known, "running": known["running"] - redone, "redone": redone} if redone else known


def _begins_to_start(state: JobState) -> datetime | None:
    """When the first replica was placed on a node; None if that was not observed before the job's start."""
    segments = [each for row in state.replicas for each in listing(row.get("segments"))[:2]]
    begins = [
        each[1]
        for each in segments
        if isinstance(each, (list, tuple)) and len(each) == 3 and each[0] == "starting" and number(each[1]) is not None
    ]
    first = _at(min(begins)) if begins else None
    return first if first and (state.started_at is None or first < state.started_at) else None


def _at(seconds: float) -> datetime | None:
    try:
        return moment(datetime.fromtimestamp(seconds).astimezone())
    except (OverflowError, ValueError, OSError):
        return None


def _repeated_share(state: JobState) -> float:
    """The share of all steps that were lost in restarts and repeated by the next attempt."""
    progress = mapping(state.returned.get("progress"))
    lost = sum(whole(each.get("lost_steps")) or 0 for each in mappings(progress.get("restarts")))
    done = whole(progress.get("step")) or 0
    return lost / (done + lost) if lost > 0 and done >= 0 else 0.0


def _gpu_hours(state: JobState) -> float | None:
    """The GPU hours since the start of the job, as in the Training tab of the task."""
    gpus, seconds = whole(state.request.get("gpus")), seconds_between(state.started_at, _until(state))
    return gpu_hours(gpus, seconds) if gpus and seconds is not None else None
