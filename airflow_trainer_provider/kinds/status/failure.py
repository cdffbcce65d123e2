"""Which replica of a failed job failed first, and which were only ended with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from airflow_trainer_provider.job.diagnosis.causes import ON_THE_WAY, OUT_OF_MEMORY
from airflow_trainer_provider.job.diagnosis.exit_code import judged_by_exit_code
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.kinds.status.replicas import ReplicaState
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes

#: The reason of a job, or a pod, that was ended because its time was up: nothing failed.
DEADLINE = "DeadlineExceeded"
#: What a process says of itself that has lost another one.
_LOST_PEER = re.compile(
    r"Connection (closed by peer|reset by peer|refused)|Broken pipe|Socket closed|NCCL|ncclRemoteError|gloo"
    r"|heartbeat timeout|RendezvousConnectionError|UnavailableError|UNAVAILABLE:|CoordinationService",
    re.IGNORECASE,
)


def settle(
    replicas: Sequence[ReplicaState], *, failed: bool, codes: ExitCodes | None = None
) -> tuple[ReplicaStatus | None, tuple[ReplicaStatus, ...]]:
    """How all replicas of an ended job ended.

    :param replicas: as their pods have them.
    :param failed: whether one of them may have failed by itself.
    :param codes: what the job's spec says of exit codes.
    :return: the one that failed first, where that is known, and all of them.
    """
    culprit = _first(replicas) if failed else None
    culprit = culprit and judged_by_exit_code(culprit, codes)
    return culprit, tuple(
        culprit if culprit and culprit.name == replica.status.name else _as_it_ended(replica, culprit, failed)
        for replica in replicas
    )


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
    if end.reason == OUT_OF_MEMORY:
        likely = 0
    elif end.signal == "SIGTERM":
        likely = 3
    else:
        likely = 2 if _LOST_PEER.search(end.message or "") else 1
    return end.finished_at, likely


def _taken_away(replicas: Sequence[ReplicaState]) -> ReplicaStatus | None:
    """The replica whose pod was deleted before the others were."""
    stopped = [
        (replica.newest.asked_to_go_at, replica.status)
        for replica in replicas
        if replica.newest and replica.newest.asked_to_go_at and replica.status.reason == "Stopped"
    ]
    first = min((at for at, _ in stopped), default=None)
    of_first = [status for at, status in stopped if at == first]
    if len(of_first) != 1:
        return None
    return of_first[0].model_copy(update={"reason": "Deleted", "message": "its pod was deleted"})


def _as_it_ended(replica: ReplicaState, culprit: ReplicaStatus | None, failed: bool) -> ReplicaStatus:
    """A replica that did not fail first."""
    status = replica.status
    if status.finished_at is None:
        was_stopped = _was_under_way(replica)
    elif status.reason == "Error":
        # Of a job in which nothing failed, one that was asked to end may do so with any exit code.
        was_stopped = (not failed and _was_asked_to_end(replica)) or _was_ended_after(status, culprit)
    else:
        was_stopped = status.reason == DEADLINE
    return _stopped(status) if was_stopped else status


def _was_under_way(replica: ReplicaState) -> bool:
    """Whether it ran, or would have with more time."""
    reason = replica.status.reason
    return reason in ON_THE_WAY and not (reason is None and replica.newest is None)


def _was_asked_to_end(replica: ReplicaState) -> bool:
    return replica.newest is not None and replica.newest.asked_to_go_at is not None


def _was_ended_after(status: ReplicaStatus, culprit: ReplicaStatus | None) -> bool:
    """Whether it was ended because another one had failed."""
    if culprit is None or culprit.finished_at is None or status.finished_at is None:
        return False
    return status.signal == "SIGTERM" and status.finished_at >= culprit.finished_at


def _stopped(status: ReplicaStatus) -> ReplicaStatus:
    return status.model_copy(update={"reason": "Stopped", "message": None})
