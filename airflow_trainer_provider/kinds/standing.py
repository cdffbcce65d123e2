"""How a job stands, from its main object and its pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from airflow_trainer_provider.job.causes import ON_THE_WAY
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Kind, Manifest, Standing
from airflow_trainer_provider.kinds.events import (
    is_deactivated,
    last_warning,
    let_go_at,
    queue_message,
    queued_by_kueue,
    without_workloads,
)
from airflow_trainer_provider.kinds.failure import DEADLINE, in_one_line, settle
from airflow_trainer_provider.kinds.pod_end import parse_time
from airflow_trainer_provider.kinds.replicas import ReplicaState, read_replicas

#: The reason of a job that waits in a queue of Kueue.
_SUSPENDED_BY_KUEUE = "SuspendedByKueue"
#: The reason of a container that is to start again, and waits for longer each time.
_BACK_OFF = "CrashLoopBackOff"
#: The reason of a job that somebody keeps from its queue.
_DEACTIVATED = "WorkloadDeactivated"
#: The reason that a kind gives where a queue holds parts of the job.
_QUEUED = "Queued"


def job_status(
    kind: Kind,
    main: Manifest,
    pods: Sequence[Manifest],
    *,
    groups: Mapping[str, int],
    ranked: bool,
    gone: Sequence[Manifest] = (),
    children: Sequence[Manifest] = (),
    events: Sequence[Manifest] = (),
    deleted: bool = False,
) -> JobStatus:
    """How a job stands.

    :param kind: of the main object.
    :param main: the main object, or its last version.
    :param pods: the job's pods.
    :param groups: how many replicas of each group, in the order of their ranks.
    :param ranked: whether each replica is one process, whose rank is the replica's.
    :param gone: the last versions of pods that were deleted meanwhile.
    :param children: the objects that the kind reads beside the main one, and the job's Kueue Workload.
    :param events: of the main object and its children, newest last.
    :param deleted: whether the main object is gone.
    """
    standing = kind.read(main, without_workloads(children))
    replicas = read_replicas(kind, main, pods, gone, groups, ranked)
    phase, reason, message = _phase(main, standing, replicas, children, events, deleted)
    status = JobStatus(
        phase=phase,
        reason=reason,
        message=message,
        queued_at=parse_time(main["metadata"]["creationTimestamp"]),
        started_at=_started_at(standing, replicas),
        restarts=standing.restarts,
        replicas=tuple(replica.status for replica in replicas),
        waiting_since=_waiting_since(main, phase, reason, replicas, children),
    )
    return _closed(status, main, standing, replicas) if phase.ended else status


def _phase(
    main: Manifest,
    standing: Standing,
    replicas: Sequence[ReplicaState],
    children: Sequence[Manifest],
    events: Sequence[Manifest],
    deleted: bool,
) -> tuple[JobPhase, str | None, str | None]:
    """Where the job is in its life, why, and more on that."""
    if standing.phase is JobPhase.SUCCEEDED:
        return standing.phase, None, None
    if standing.phase is JobPhase.FAILED:
        return standing.phase, standing.reason, standing.message
    suspended = standing.phase is JobPhase.SUSPENDED
    cancelled = (main["metadata"].get("annotations") or {}).get(labels.CANCELLED)
    queued = (suspended and queued_by_kueue(main)) or (standing.phase is None and standing.reason == _QUEUED)
    stopped = deleted or suspended or queued or "deletionTimestamp" in main["metadata"]
    if cancelled is not None and stopped and not any(_is_there(replica) for replica in replicas):
        return JobPhase.CANCELLED, "Cancelled", cancelled
    if queued:
        deactivated = is_deactivated(children)
        held = (JobPhase.SUSPENDED, _DEACTIVATED) if deactivated else (JobPhase.QUEUED, _SUSPENDED_BY_KUEUE)
        return *held, queue_message(children, events) or standing.message
    if standing.phase is not None:
        return standing.phase, standing.reason, standing.message
    return _phase_of_pods(standing, replicas, events)


def _is_there(replica: ReplicaState) -> bool:
    """Whether its training may still run."""
    return replica.stage == "running" or (replica.stage == "waiting" and bool(replica.pod and replica.pod.scheduled))


def _phase_of_pods(
    standing: Standing, replicas: Sequence[ReplicaState], events: Sequence[Manifest]
) -> tuple[JobPhase, str | None, str | None]:
    waiting = [replica for replica in replicas if replica.stage == "waiting"]
    if not waiting:
        return JobPhase.RUNNING, None, None
    hindered = [replica for replica in waiting if _is_hindered(replica)]
    # Without room nothing else counts.
    without_room = [replica for replica in hindered if replica.pod and not replica.pod.scheduled]
    worst = next((replica.status for replica in (*without_room, *hindered)), None)
    why = (worst.reason, ": ".join(filter(None, [worst.name, worst.message]))) if worst else None
    again = [each for each in waiting if each.last_end or each.status.restarts or each.status.failed]
    if again or standing.restarts:
        return JobPhase.RESTARTING, *(why or _why_again(again or waiting))
    if why:
        return JobPhase.QUEUED if without_room else JobPhase.STARTING, *why
    without_node = [replica for replica in waiting if not (replica.pod and replica.pod.scheduled)]
    # A pod that nobody has looked at yet, between others that have a node, does not make the job wait for room.
    phase = JobPhase.QUEUED if len(without_node) == len(replicas) else JobPhase.STARTING
    missing = any(replica.pod is None for replica in waiting)
    return phase, *((missing and last_warning(events)) or (None, None))


def _is_hindered(replica: ReplicaState) -> bool:
    """Whether something keeps its pod from running; what was started again and waits for its turn only does that."""
    status = replica.status
    return replica.pod is not None and status.finished_at is None and status.reason not in (*ON_THE_WAY, _BACK_OFF)


def _why_again(again: Sequence[ReplicaState]) -> tuple[str | None, str | None]:
    """What the replica that was started again ended with."""
    replica = again[0]
    end = replica.last_end or replica.status
    how = f"was ended by {end.signal}" if end.signal else f"ended with exit code {end.exit_code}"
    known = end.signal or end.exit_code is not None
    return end.reason, f"{end.name} {how}" if known else end.name


def _started_at(standing: Standing, replicas: Sequence[ReplicaState]) -> datetime | None:
    """When the first replica began to run. What earlier attempts are known by is the main object only."""
    starts = [replica.started_at for replica in replicas if replica.started_at]
    if standing.started_at and (standing.restarts or (standing.phase and standing.phase.ended and not starts)):
        return standing.started_at
    return min(starts, default=None)


def _waiting_since(
    main: Manifest, phase: JobPhase, reason: str | None, replicas: Sequence[ReplicaState], children: Sequence[Manifest]
) -> datetime | None:
    """Since when replicas could have started and have not."""
    waiting = [replica for replica in replicas if replica.stage == "waiting"]
    if phase.ended or phase is JobPhase.SUSPENDED or reason == _SUSPENDED_BY_KUEUE or not waiting:
        return None
    made = [replica.pod.created_at for replica in waiting if replica.pod]
    if len(made) == len(waiting):
        return min(made)
    # Without a pod, a replica waits since the controller made the others, or could have.
    others = [replica.pod.created_at for replica in replicas if replica.pod]
    return min([*made, max(others)]) if others else _could_start_at(main, children)


def _could_start_at(main: Manifest, children: Sequence[Manifest]) -> datetime | None:
    if queued_by_kueue(main):
        return let_go_at(children)
    return parse_time(main["metadata"]["creationTimestamp"])


def _closed(status: JobStatus, main: Manifest, standing: Standing, replicas: Sequence[ReplicaState]) -> JobStatus:
    """The last status of a job: which replica failed first, and how all of them ended."""
    culprit, rows = settle(replicas, failed=status.phase is JobPhase.FAILED and status.reason != DEADLINE)
    ends = [row.finished_at for row in rows if row.finished_at]
    deleted_at = main["metadata"].get("deletionTimestamp")
    finished_at = standing.finished_at or max(ends, default=parse_time(deleted_at) if deleted_at else None)
    update: dict[str, object] = {"replicas": rows, "finished_at": finished_at}
    if culprit:
        update |= {"reason": culprit.reason, "message": in_one_line(culprit.message), "first_failed": culprit.name}
    if culprit and culprit.reason == DEADLINE:
        # The time of its pod was up, as that of all others was: nothing failed.
        update |= {"first_failed": None, "replicas": settle(replicas, failed=False)[1]}
    return status.model_copy(update=update)
