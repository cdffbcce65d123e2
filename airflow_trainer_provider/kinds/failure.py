"""Which replica of a failed job failed first, and which were only ended with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from airflow_trainer_provider.job.causes import ON_THE_WAY
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.kinds.replicas import ReplicaState

#: The reason of a job, or a pod, that was ended because its time was up: nothing failed.
DEADLINE = "DeadlineExceeded"
#: What a process says of itself that has lost another one.
_LOST_PEER = re.compile(
    r"Connection (closed by peer|reset by peer|refused)|Broken pipe|Socket closed|NCCL|ncclRemoteError|gloo"
    r"|heartbeat timeout|RendezvousConnectionError|UnavailableError|UNAVAILABLE:|CoordinationService",
    re.IGNORECASE,
)
#: The most characters of a message in a line, and in XCom.
_LINE = 300


def settle(replicas: Sequence[ReplicaState], *, failed: bool) -> tuple[ReplicaStatus | None, tuple[ReplicaStatus, ...]]:
    """How all replicas of an ended job ended.

    :param replicas: as their pods have them.
    :param failed: whether one of them may have failed by itself.
    :return: the one that failed first, where that is known, and all of them.
    """
    culprit = _first(replicas) if failed else None
    return culprit, tuple(
        culprit if culprit and culprit.name == replica.status.name else _as_it_ended(replica, culprit, failed)
        for replica in replicas
    )


def in_one_line(message: str | None) -> str | None:
    """The last line of a message, which in a log or a traceback is the one that counts."""
    lines = [line.strip() for line in (message or "").splitlines() if line.strip()]
    return lines[-1][:_LINE] if lines else None


def _first(replicas: Sequence[ReplicaState]) -> ReplicaStatus | None:
    ends = [replica.status for replica in replicas if replica.status.failed]
    if not ends:
        # They run again, or waited to, when the job was given up for what had happened before.
        before = [(replica.last_end, replica.status.restarts) for replica in replicas if replica.last_end]
        ends = [end.model_copy(update={"restarts": restarts}) for end, restarts in before if end.failed]
    return min(ends, key=_order) if ends else _taken_away(replicas)


def _order(end: ReplicaStatus) -> tuple[datetime, int]:
    # Times are in whole seconds, and those whose peer is gone fail within the same one.
    assert end.finished_at is not None
    if end.reason == "OOMKilled":
        likely = 0
    elif end.signal == "SIGTERM":
        likely = 3
    else:
        likely = 2 if _LOST_PEER.search(end.message or "") else 1
    return end.finished_at, likely


def _taken_away(replicas: Sequence[ReplicaState]) -> ReplicaStatus | None:
    """The replica whose pod somebody deleted before the others were."""
    stopped = [
        (replica.newest.asked_to_go_at, replica.status)
        for replica in replicas
        if replica.newest and replica.newest.asked_to_go_at and replica.status.reason == "Stopped"
    ]
    first = min((at for at, _ in stopped), default=None)
    of_first = [status for at, status in stopped if at == first]
    if len(of_first) != 1:
        return None
    return of_first[0].model_copy(update={"reason": "Deleted", "message": "somebody deleted its pod"})


def _as_it_ended(replica: ReplicaState, culprit: ReplicaStatus | None, failed: bool) -> ReplicaStatus:
    """A replica that did not fail first."""
    status, pod = replica.status, replica.newest
    if status.finished_at is None:
        under_way = status.reason in ON_THE_WAY and not (status.reason is None and pod is None)
        return _stopped(status) if under_way else status
    if status.reason == DEADLINE:
        return _stopped(status)
    if status.reason != "Error":
        return status
    after = culprit is not None and culprit.finished_at is not None and status.finished_at >= culprit.finished_at
    # Of a job in which nothing failed, one that was told to end may do so with any exit code.
    told = pod is not None and pod.asked_to_go_at is not None and not failed
    return _stopped(status) if told or (after and status.signal == "SIGTERM") else status


def _stopped(status: ReplicaStatus) -> ReplicaStatus:
    return status.model_copy(update={"reason": "Stopped", "message": None})
