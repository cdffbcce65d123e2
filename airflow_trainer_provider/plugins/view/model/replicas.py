"""The replicas over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_trainer_provider.plugins.view.model.state import JobState
from airflow_trainer_provider.plugins.view.model.values import moment, number, text, whole

#: The maximum number of rows in a response. Few jobs have more replicas, and browsers cannot draw more.
MOST_ROWS = 2000
_SEGMENTS = ("queued", "starting", "running", "stuck")
_STOPPED = ("Stopped",)
_DONE = ("Completed",)


def replicas_of(state: JobState) -> dict[str, Any]:
    """All replicas of a job.

    :param state: the job's state.
    """
    rows = [_row(row, state) for row in state.replicas[:MOST_ROWS]]
    return {"total": len(state.replicas), "step_seconds": None, "rows": rows}


def _row(row: Mapping[str, Any], state: JobState) -> dict[str, Any]:
    rank = whole(row.get("rank"))
    return {
        "name": row["name"],
        "ranks": None if rank is None else str(rank),
        "node": text(row.get("node")),
        "state": _state(row, state),
        "reason": text(row.get("reason")),
        "message": text(row.get("message")),
        "exit_code": whole(row.get("exit_code")),
        "signal": text(row.get("signal")),
        "restarts": whole(row.get("restarts")) or 0,
        "peak_memory_bytes": whole(row.get("peak_memory_bytes")),
        "step_seconds": None,
        "segments": _segments(row, state),
        "events": _events(row, state),
    }


def _state(row: Mapping[str, Any], state: JobState) -> str:
    reason = row.get("reason")
    if row.get("finished_at"):
        if reason in _DONE:
            return "succeeded"
        return "stopped" if reason in _STOPPED else "failed"
    if state.phase == "suspended":
        return "suspended"
    if not state.is_active:
        # The replica's end was not observed: the job was ended, or its pods were deleted.
        return "succeeded" if state.phase == "succeeded" else "stopped"
    segments = _known_segments(row)
    if segments:
        return str(segments[-1][0])
    return "running" if row.get("started_at") else "queued"


def _known_segments(row: Mapping[str, Any]) -> list[Sequence[Any]]:
    found = row.get("segments")
    if not isinstance(found, (list, tuple)):
        return []
    return [
        each
        for each in found
        if isinstance(each, (list, tuple)) and len(each) == 3 and each[0] in _SEGMENTS and number(each[1]) is not None
    ]


def _segments(row: Mapping[str, Any], state: JobState) -> list[list[Any]]:
    """When the replica was queued, starting and running; without recorded segments, derived from its start and end."""
    known = _known_segments(row)
    if known:
        return [[name, number(since), number(until)] for name, since, until in known]
    start, end = moment(row.get("started_at")), moment(row.get("finished_at"))
    parts: list[list[Any]] = []
    if state.queued_at and (start is None or start > state.queued_at):
        until = start or (None if state.is_active else state.last_known)
        parts.append(["queued", state.queued_at.timestamp(), until.timestamp() if until else None])
    if start:
        parts.append(["running", start.timestamp(), end.timestamp() if end else None])
    return parts


def _events(row: Mapping[str, Any], state: JobState) -> list[dict[str, Any]]:
    """The events of the replica: its restarts and its end."""
    events = []
    runs = [each for each in _known_segments(row) if each[0] == "running"]
    events += [{"at": number(each[1]), "kind": "restart", "text": "Restarted"} for each in runs[1:]]
    end = moment(row.get("finished_at"))
    if end:
        kind = {"succeeded": "done", "stopped": "stopped"}.get(_state(row, state), "failed")
        events.append({"at": end.timestamp(), "kind": kind, "text": _end_text(row)})
    return events


def _end_text(row: Mapping[str, Any]) -> str:
    signal, code = text(row.get("signal")), whole(row.get("exit_code"))
    how = signal or (f"exit code {code}" if code else None)
    reason = text(row.get("reason")) or "Ended"
    return f"{reason} ({how})" if how else reason
