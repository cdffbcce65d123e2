"""How a job stands, from its main object and its pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from airflow_trainer_provider.job.diagnosis.causes import INIT, ON_THE_WAY, SIDECAR
from airflow_trainer_provider.job.diagnosis.last_words import is_result, last_words
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds.base import ControllerStatus, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.disrupted import cut_short, with_written
from airflow_trainer_provider.kinds.status.events import (
    is_deactivated,
    last_warning,
    let_go_at,
    queue_message,
    queued_by_kueue,
    without_workloads,
)
from airflow_trainer_provider.kinds.status.failure import DEADLINE, settle
from airflow_trainer_provider.kinds.status.pod_end import how_it_ended, parse_time
from airflow_trainer_provider.kinds.status.replicas import ReplicaState, read_replicas

#: The reason of a job that waits in a queue of Kueue.
_SUSPENDED_BY_KUEUE = "SuspendedByKueue"
#: The reason of a container that is to start again, and waits for longer each time.
_BACK_OFF = "CrashLoopBackOff"
#: Phases of a job that is to run.
_ON_ITS_WAY = (JobPhase.QUEUED, JobPhase.STARTING, JobPhase.RESTARTING)
#: The reason of a job whose Workload is deactivated.
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
    controller = kind.read(main, without_workloads(children))
    replicas = with_written(kind, main, controller, read_replicas(kind, main, pods, gone, groups, ranked))
    lost = cut_short(main, controller, replicas)
    phase, reason, message = _phase(main, controller, replicas, children, events, deleted, lost)
    blocking = _blocking(kind, main, pods, phase, replicas)
    if blocking:
        reason, message = _hindrance([blocking])
    status = JobStatus(
        phase=phase,
        reason=reason,
        message=message,
        queued_at=parse_time(main["metadata"]["creationTimestamp"]),
        started_at=_started_at(controller, replicas),
        restarts=controller.restarts,
        replicas=tuple(replica.status for replica in replicas),
        waiting_since=_waiting_since(main, phase, reason, replicas, children),
        blocked_by=blocking.status.name if blocking else None,
    )
    return _closed(status, main, controller, replicas, lost) if phase.ended else status


def _blocking(
    kind: Kind, main: Manifest, pods: Sequence[Manifest], phase: JobPhase, replicas: Sequence[ReplicaState]
) -> ReplicaState | None:
    """The replica whose failure keeps the job from starting."""
    if kind.blocked_by is None or phase not in _ON_ITS_WAY:
        return None
    ref = kind.blocked_by(main, pods)
    return next((replica for replica in replicas if ref and replica.status.name == ref.name), None)


def _phase(
    main: Manifest,
    controller: ControllerStatus,
    replicas: Sequence[ReplicaState],
    children: Sequence[Manifest],
    events: Sequence[Manifest],
    deleted: bool,
    lost: ReplicaState | None,
) -> tuple[JobPhase, str | None, str | None]:
    """Where the job is in its life, why, and more on that."""
    cancelled = _why_cancelled(main)
    if controller.phase is JobPhase.SUCCEEDED:
        return _phase_of_success(lost, cancelled)
    if controller.phase is JobPhase.FAILED:
        return controller.phase, controller.reason, controller.message
    suspended = controller.phase is JobPhase.SUSPENDED
    queued = _is_queued(main, controller)
    stopped = deleted or suspended or queued or "deletionTimestamp" in main["metadata"]
    if cancelled is not None and stopped and not any(_is_there(replica) for replica in replicas):
        return JobPhase.CANCELLED, "Cancelled", cancelled
    if queued:
        return _phase_in_queue(controller, children, events)
    if controller.phase is not None:
        return controller.phase, controller.reason, controller.message
    return _phase_of_pods(controller, replicas, events)


def _phase_of_success(lost: ReplicaState | None, cancelled: str | None) -> tuple[JobPhase, str | None, str | None]:
    """Of a job that its controller takes for complete. The replica that it has lost says why it has failed."""
    if lost is None:
        return JobPhase.SUCCEEDED, None, None
    return (JobPhase.FAILED, None, None) if cancelled is None else (JobPhase.CANCELLED, "Cancelled", cancelled)


def _why_cancelled(main: Manifest) -> str | None:
    reason: str | None = (main["metadata"].get("annotations") or {}).get(labels.CANCELLED)
    return reason


def _is_queued(main: Manifest, controller: ControllerStatus) -> bool:
    if controller.phase is JobPhase.SUSPENDED:
        return queued_by_kueue(main)
    return controller.phase is None and controller.reason == _QUEUED


def _phase_in_queue(
    controller: ControllerStatus, children: Sequence[Manifest], events: Sequence[Manifest]
) -> tuple[JobPhase, str | None, str | None]:
    deactivated = is_deactivated(children)
    held = (JobPhase.SUSPENDED, _DEACTIVATED) if deactivated else (JobPhase.QUEUED, _SUSPENDED_BY_KUEUE)
    return *held, queue_message(children, events) or controller.message


def _is_there(replica: ReplicaState) -> bool:
    """Whether its training may still run."""
    return replica.stage == "running" or (replica.stage == "waiting" and _has_node(replica))


def _phase_of_pods(
    controller: ControllerStatus, replicas: Sequence[ReplicaState], events: Sequence[Manifest]
) -> tuple[JobPhase, str | None, str | None]:
    waiting = _waiting(replicas)
    if not waiting:
        return JobPhase.RUNNING, None, None
    hindered = list(filter(_is_hindered, waiting))
    again = list(filter(_has_run, waiting))
    if again or controller.restarts:
        return JobPhase.RESTARTING, *(_hindrance(hindered) if hindered else _why_again(again or waiting))
    if hindered:
        phase = JobPhase.STARTING if all(map(_has_node, hindered)) else JobPhase.QUEUED
        return phase, *_hindrance(hindered)
    return _phase_unhindered(waiting, replicas, events)


def _phase_unhindered(
    waiting: Sequence[ReplicaState], replicas: Sequence[ReplicaState], events: Sequence[Manifest]
) -> tuple[JobPhase, str | None, str | None]:
    # A pod that the scheduler has not seen yet, between others that have a node, does not make the job wait for room.
    without_node = [replica for replica in waiting if not _has_node(replica)]
    phase = JobPhase.QUEUED if len(without_node) == len(replicas) else JobPhase.STARTING
    warning = last_warning(events) if any(replica.pod is None for replica in waiting) else None
    return phase, *(warning or (None, None))


def _waiting(replicas: Sequence[ReplicaState]) -> list[ReplicaState]:
    return [replica for replica in replicas if replica.stage == "waiting"]


def _has_node(replica: ReplicaState) -> bool:
    return replica.pod is not None and replica.pod.scheduled


def _has_run(replica: ReplicaState) -> bool:
    """Whether what waits is to run again."""
    return replica.last_end is not None or replica.status.restarts > 0 or replica.status.failed


def _hindrance(hindered: Sequence[ReplicaState]) -> tuple[str | None, str]:
    """What hinders the first replica, and which one that is. Without room nothing else counts."""
    worst = min(hindered, key=_has_node).status
    return worst.reason, ": ".join(filter(None, [worst.name, worst.message]))


def _is_hindered(replica: ReplicaState) -> bool:
    """Whether something keeps its pod from running; what was started again and waits for its turn only does that."""
    status = replica.status
    return replica.pod is not None and status.finished_at is None and status.reason not in (*ON_THE_WAY, _BACK_OFF)


def _why_again(again: Sequence[ReplicaState]) -> tuple[str | None, str | None]:
    """What the replica that was started again ended with."""
    replica = again[0]
    end = replica.last_end or replica.status
    if end.message and (end.reason or "").startswith((INIT, SIDECAR)):
        return end.reason, f"{end.name}: {end.message}"
    known = end.signal or end.exit_code is not None
    return end.reason, f"{end.name} {how_it_ended(end)}" if known else end.name


def _started_at(controller: ControllerStatus, replicas: Sequence[ReplicaState]) -> datetime | None:
    """When the first replica began to run. What earlier attempts are known by is the main object only."""
    starts = [replica.started_at for replica in replicas if replica.started_at]
    if controller.started_at and (controller.restarts or (controller.phase and controller.phase.ended and not starts)):
        return controller.started_at
    return min(starts, default=None)


def _waiting_since(
    main: Manifest, phase: JobPhase, reason: str | None, replicas: Sequence[ReplicaState], children: Sequence[Manifest]
) -> datetime | None:
    """Since when replicas could have started and have not."""
    waiting = _waiting(replicas)
    is_held = phase is JobPhase.SUSPENDED or reason == _SUSPENDED_BY_KUEUE
    if phase.ended or is_held or not waiting:
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


def _closed(
    status: JobStatus,
    main: Manifest,
    controller: ControllerStatus,
    replicas: Sequence[ReplicaState],
    lost: ReplicaState | None,
) -> JobStatus:
    """The last status of a job: which replica failed first, and how all of them ended."""
    codes = labels.exit_codes_of(main)
    failed = status.phase is JobPhase.FAILED and status.reason != DEADLINE
    culprit, rows = settle(replicas, failed=failed, codes=codes, lost=lost, elastic=labels.is_elastic(main))
    ends = [row.finished_at for row in rows if row.finished_at]
    deleted_at = main["metadata"].get("deletionTimestamp")
    finished_at = controller.finished_at or max(ends, default=parse_time(deleted_at) if deleted_at else None)
    update: dict[str, object] = {"replicas": rows, "finished_at": finished_at}
    if culprit:
        words = None if is_result(culprit) else last_words(culprit.message)
        update |= {"reason": culprit.reason, "message": words, "first_failed": culprit.name}
    if culprit and culprit.reason == DEADLINE:
        # The time of its pod was up, as that of all others was: nothing failed.
        update |= {"first_failed": None, "replicas": settle(replicas, failed=False)[1]}
    return status.model_copy(update=update)
