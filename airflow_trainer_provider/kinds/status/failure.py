"""Which replica of a failed job failed first, and which were only ended with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from airflow_trainer_provider.job.diagnosis.causes import DEADLINE, DELETED, ON_THE_WAY, OUT_OF_MEMORY
from airflow_trainer_provider.job.diagnosis.exit_code import judged_by_exit_code
from airflow_trainer_provider.job.diagnosis.last_words import is_result
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.kinds.status.disrupted import is_cut_short
from airflow_trainer_provider.kinds.status.pod_status import PodState
from airflow_trainer_provider.kinds.status.replicas import ReplicaState
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes

_STOPPED = "Stopped"
#: How much the clocks of nodes and of the API server may differ.
_SKEW = timedelta(seconds=1)
#: The time within which a process that has lost a peer fails, if its message does not show the loss.
_NOTICED_WITHIN = timedelta(minutes=1)
#: The time within which a process gives up waiting for a peer: the longest default timeout of PyTorch's process groups.
_GIVES_UP_WITHIN = timedelta(minutes=30)
#: The time within which a controller deletes a pod that it has created while it was already letting the job fail.
_BRIEF = timedelta(seconds=10)
#: Messages of a process that has lost a peer.
_LOST_PEER = re.compile(
    r"Connection (closed by peer|reset by peer|refused)|Broken pipe|Socket closed|NCCL|ncclRemoteError|gloo"
    r"|heartbeat timeout|RendezvousConnectionError|UnavailableError|UNAVAILABLE:|CoordinationService"
    # Open MPI, and ssh, by which mpirun starts the ranks.
    r"|lost communication with a remote daemon|closed by remote host",
    re.IGNORECASE,
)


def settle(
    replicas: Sequence[ReplicaState],
    *,
    failed: bool,
    codes: ExitCodes | None = None,
    lost: ReplicaState | None = None,
    elastic: bool = False,
) -> tuple[ReplicaStatus | None, tuple[ReplicaStatus, ...]]:
    """Determine how all replicas of an ended job ended.

    :param replicas: as they were read from their pods.
    :param failed: whether one of them may have failed by itself.
    :param codes: the exit codes of the job's spec.
    :param lost: the replica without which the job has failed, where that is known.
    :param elastic: whether the job continues without a replica that is deleted.
    :return: the replica that failed first, where that is known, and all replicas.
    """
    culprit = None
    if failed:
        culprit = taken_away(lost.status) if lost else _first(replicas, elastic)
    culprit = culprit and judged_by_exit_code(culprit, codes)
    return culprit, tuple(
        culprit if culprit and culprit.name == replica.status.name else _as_it_ended(replica, culprit, failed)
        for replica in replicas
    )


def _first(replicas: Sequence[ReplicaState], elastic: bool) -> ReplicaStatus | None:
    failures = [replica for replica in replicas if replica.status.failed]
    first = min(failures, key=lambda replica: (is_cut_short(replica), _order(replica)), default=None)
    if first is None:
        return _failed_before(replicas) or _deleted_alone(replicas)
    # A replica that exited with 0 when it was disrupted need not be the reason why another replica has failed.
    return (None if elastic else _taken_before(first, replicas)) or first.status


def _failed_before(replicas: Sequence[ReplicaState]) -> ReplicaStatus | None:
    """The earlier failure of a replica that was to be restarted."""
    # These replicas ran again, or waited to run again, when the controller failed the job because of an earlier
    # failure.
    before = [(replica.last_end, replica.status.restarts) for replica in replicas if replica.last_end]
    ends = [end.model_copy(update={"restarts": restarts}) for end, restarts in before if end.failed]
    return min(ends, key=_by_itself, default=None)


def _order(replica: ReplicaState) -> tuple[datetime, int]:
    if replica.disrupted_at:
        return _taken_at(replica), 2
    return _by_itself(replica.status)


def _taken_at(taken: ReplicaState | PodState) -> datetime:
    """When the disruption of a replica began. The replica may have ended later, but its peers may have lost it since
    then.
    """
    assert taken.disrupted_at is not None
    return min(taken.disrupted_at, _finished_at(taken.status))


def _by_itself(end: ReplicaStatus) -> tuple[datetime, int]:
    # Times are in whole seconds, and replicas that have lost a peer fail within the same second.
    return _finished_at(end), _likely(end)


def _likely(end: ReplicaStatus) -> int:
    if end.reason == OUT_OF_MEMORY:
        return 0
    if end.signal == "SIGTERM":
        return 4
    return 3 if _has_lost_peer(end) else 1


def _has_lost_peer(end: ReplicaStatus) -> bool:
    return not is_result(end) and _LOST_PEER.search(end.message or "") is not None


def _finished_at(end: ReplicaStatus) -> datetime:
    assert end.finished_at is not None
    return end.finished_at


def _taken_before(failure: ReplicaState, replicas: Sequence[ReplicaState]) -> ReplicaStatus | None:
    """The replica that was disrupted before another replica failed, if the other one failed because it had lost its
    peer.
    """
    pods = [pod for replica in replicas if (pod := _taken(replica, failure))]
    taken = min(pods, key=_taken_at, default=None)
    if taken is None:
        return None
    taken_at, failed_at = _taken_at(taken), _order(failure)[0]
    if _has_lost_peer(failure.status):
        return taken_away(taken.status) if taken_at <= failed_at else None
    soon = _finished_at(taken.status) + _NOTICED_WITHIN
    return taken_away(taken.status) if taken_at + _SKEW < failed_at <= soon else None


def _taken(replica: ReplicaState, failure: ReplicaState) -> ReplicaState | PodState | None:
    """The disrupted part of a replica: the whole replica, if it has ended for good, or the pod before its newest one.

    :param failure: a peer that has failed, and may have lost the replica.
    """
    replaced = _replaced(replica, failure.status)
    if replica.disrupted_at is None or not (replica.status.reason == _STOPPED or is_cut_short(replica)):
        return replaced
    # The newest pod may have been ended with the job.
    return replica if replaced is None or _taken_at(replica) < _order(failure)[0] else replaced


def _replaced(replica: ReplicaState, failure: ReplicaStatus) -> PodState | None:
    """The disrupted pod before the newest one of a replica, if a peer that had started with it may have failed since.

    :param failure: the failure of the peer.
    """
    pod, began = replica.before, failure.started_at
    if pod is None or pod.disrupted_at is None or began is None or began > pod.disrupted_at:
        return None
    # The peers may have recovered with the newer pod.
    has_given_up = _finished_at(failure) <= _finished_at(pod.status) + _GIVES_UP_WITHIN
    return replace(pod, status=_counted(pod.status, replica)) if has_given_up else None


def _counted(end: ReplicaStatus, replica: ReplicaState) -> ReplicaStatus:
    """The end of an earlier pod, with the number of restarts of its replica."""
    return end.model_copy(update={"restarts": replica.status.restarts})


def _deleted_alone(replicas: Sequence[ReplicaState]) -> ReplicaStatus | None:
    """The replica whose pod was deleted before the pods of the others."""
    deletions = [deletion for replica in replicas if (deletion := _deletion(replica))]
    first = min((when for when, _ in deletions), default=None)
    of_first = [status for when, status in deletions if when == first]
    return taken_away(of_first[0]) if len(of_first) == 1 else None


def _deletion(replica: ReplicaState) -> tuple[tuple[datetime, int], ReplicaStatus] | None:
    """When the deletion of a stopped replica's pod was requested, if that is known, and how the replica ended."""
    pod, status = replica.newest, replica.status
    if pod and replica.before and _was_brief(pod):
        # The controller has replaced the pod, but has let the job fail nevertheless.
        pod = replica.before
        status = _counted(pod.status, replica)
    at = pod.asked_to_go_at if pod else replica.disrupted_at
    if at is None or status.reason != _STOPPED:
        return None
    return (at, pod.deletion_order if pod else 0), status


def _was_brief(pod: PodState) -> bool:
    """Whether a pod had hardly any time to run."""
    asked = pod.asked_to_go_at
    return asked - pod.created_at <= _BRIEF if asked else pod.status.started_at is None


def taken_away(status: ReplicaStatus) -> ReplicaStatus:
    """The status of a replica that was not stopped together with its job.

    :param status: as it was read from its pods.
    """
    if status.reason != _STOPPED:
        return status
    return status.model_copy(update={"reason": DELETED, "message": "its pod was deleted"})


def _as_it_ended(replica: ReplicaState, culprit: ReplicaStatus | None, failed: bool) -> ReplicaStatus:
    """The status of a replica that did not fail first."""
    status = replica.status
    if not failed and status.exit_code == 0 and replica.disrupted_at is None:
        # If the training has succeeded, the way in which the other containers ended does not matter.
        return status.model_copy(update={"reason": "Completed", "message": None})
    if status.finished_at is None:
        was_stopped = _was_under_way(replica)
    elif status.reason == "Error":
        # In a job in which nothing failed, a replica that was asked to end may end with any exit code.
        was_stopped = (not failed and _was_asked_to_end(replica)) or _was_ended_after(status, culprit)
    else:
        was_stopped = status.reason == DEADLINE
    return _stopped(status) if was_stopped else status


def _was_under_way(replica: ReplicaState) -> bool:
    """Whether a replica ran, or would have run with more time."""
    reason = replica.status.reason
    return reason in ON_THE_WAY and not (reason is None and replica.newest is None)


def _was_asked_to_end(replica: ReplicaState) -> bool:
    return replica.newest is not None and replica.newest.asked_to_go_at is not None


def _was_ended_after(status: ReplicaStatus, culprit: ReplicaStatus | None) -> bool:
    """Whether a replica was ended because another one had failed."""
    if culprit is None or culprit.finished_at is None or status.finished_at is None:
        return False
    return status.signal == "SIGTERM" and status.finished_at >= culprit.finished_at


def _stopped(status: ReplicaStatus) -> ReplicaStatus:
    return status.model_copy(update={"reason": _STOPPED, "message": None})
