"""Records the stages of a job's replicas over time. Sans-IO: statuses and times in, a snapshot for views out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

#: The maximum number of segments of a replica; the earliest are dropped first.
_MOST_SEGMENTS = 50
_QUEUED, _STARTING, _RUNNING = "queued", "starting", "running"
#: Phases in which no replica has room.
_WITHOUT_ROOM = frozenset({JobPhase.QUEUED, JobPhase.SUSPENDED})

#: A state, its begin and its end, in seconds since 1970; the end is None while the state lasts.
_Segment = list[Any]


class Stages:
    """The stages of one job's replicas.

    :param earlier: the snapshot of an earlier process, from which to continue; None for none.
    """

    def __init__(self, earlier: Mapping[str, Any] | None = None) -> None:
        self._segments: dict[str, list[_Segment]] = _segments_of(earlier)
        self._status: JobStatus | None = None
        #: How often something has changed.
        self.version = 0

    def observe(self, status: JobStatus, now: float) -> None:
        """Process a status of the job.

        :param status: of the job; it may be the same as before.
        :param now: the time, in seconds since 1970.
        """
        if status == self._status:
            return
        self._status = status
        self.version += 1
        for replica in status.replicas:
            _extend(self._segments.setdefault(replica.name, []), status, replica, now)

    def snapshot(self, now: datetime) -> dict[str, Any] | None:
        """The job's status, as JSON values; None before the first status.

        :param now: the time.
        """
        status = self._status
        if status is None:
            return None
        values = status.model_dump(mode="json", exclude={"replicas"})
        replicas = [
            {
                **replica.model_dump(mode="json"),
                "name": replica.name,
                "node": replica.node,
                "segments": [list(each) for each in self._segments.get(replica.name, ())],
            }
            for replica in status.replicas
        ]
        queue = status.queue.model_dump(mode="json") if status.queue else None
        return {"as_of": now.isoformat(), **values, "queue": queue, "replicas": replicas}


def _extend(segments: list[_Segment], status: JobStatus, replica: ReplicaStatus, now: float) -> None:
    state, begin = _stage(status, replica, now)
    if state is None:
        _end(segments, status, replica, now)
    elif not _goes_on(segments, state, begin):
        _add(segments, state, begin, None)
    del segments[:-_MOST_SEGMENTS]


def _goes_on(segments: list[_Segment], state: str, begin: float) -> bool:
    """Whether the last segment is the present one. Each start of a replica begins a new segment."""
    if not segments or segments[-1][2] is not None or segments[-1][0] != state:
        return False
    return state != _RUNNING or _is_of_run(segments[-1], begin)


def _is_of_run(segment: _Segment, started: float) -> bool:
    """Whether a segment belongs to the run that started at a time, or to a later run.

    A start is in whole seconds by the node's clock. The segment begins later if the previous segment was seen later.
    """
    return bool(segment[0] == _RUNNING and segment[1] >= started)


def _end(segments: list[_Segment], status: JobStatus, replica: ReplicaStatus, now: float) -> None:
    started = _seconds(replica.started_at)
    end = min(now, _seconds(replica.finished_at) or _seconds(status.finished_at) or now)
    if started is None or any(_is_of_run(each, started) for each in segments):
        _close(segments, end)
    else:
        # It ran and ended between two statuses.
        _add(segments, _RUNNING, started, end)


def _stage(status: JobStatus, replica: ReplicaStatus, now: float) -> tuple[str | None, float]:
    """The stage of a replica, and since when; None where the replica has ended."""
    if status.phase.ended or replica.is_over:
        return None, now
    if status.phase in _WITHOUT_ROOM:
        return _QUEUED, status.queued_at.timestamp() if status.started_at is None else now
    if replica.started_at is not None:
        return _RUNNING, replica.started_at.timestamp()
    return _STARTING, now


def _add(segments: list[_Segment], state: str, begin: float, end: float | None) -> None:
    # A stage that began while nothing was watched began after the last known one.
    begin = max(begin, segments[-1][1]) if segments else begin
    _close(segments, begin)
    segments.append([state, begin, None if end is None else max(end, begin)])


def _close(segments: list[_Segment], end: float) -> None:
    if segments and segments[-1][2] is None:
        segments[-1][2] = max(end, segments[-1][1])


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.astimezone(timezone.utc).timestamp()


def _segments_of(earlier: Mapping[str, Any] | None) -> dict[str, list[_Segment]]:
    # Anything may write to XCom: a value in another format is not a snapshot.
    try:
        return {
            replica["name"]: [[str(state), float(begin), end] for state, begin, end in replica["segments"]]
            for replica in (earlier or {}).get("replicas", ())
        }
    except Exception:
        return {}
