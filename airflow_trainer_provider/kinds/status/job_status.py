"""Computes a job's status from its main object and its pods."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from airflow_trainer_provider.job.diagnosis.causes import DEADLINE, DELETED, INIT
from airflow_trainer_provider.job.diagnosis.last_words import is_result, last_words
from airflow_trainer_provider.job.status import JobPhase, JobStatus, first_message
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.deletion import held_by
from airflow_trainer_provider.kinds.status.disrupted import (
    cut_short,
    is_cut_short,
    lost_for_good,
    with_written,
)
from airflow_trainer_provider.kinds.status.events import (
    Warned,
    is_deactivated,
    pod_warnings,
    pulls,
    queue_message,
    queued_by_kueue,
    without_workloads,
)
from airflow_trainer_provider.kinds.status.failure import settle, taken_away
from airflow_trainer_provider.kinds.status.pod_end import parse_time
from airflow_trainer_provider.kinds.status.pod_status import never_ready
from airflow_trainer_provider.kinds.status.reading import Reading
from airflow_trainer_provider.kinds.status.replicas import (
    ReplicaState,
    read_replicas,
    with_pulls,
    with_warnings,
    without_part,
)
from airflow_trainer_provider.kinds.status.waiting import (
    SUSPENDED_BY_KUEUE,
    has_node,
    has_run,
    hindrance_of,
    is_hindered,
    phase_of_waiting,
    refusal_of,
    resumed_at,
    waiting_of,
    waiting_since_of,
    warned_of,
    what_waits,
    why_again,
    why_waiting,
)

#: Phases of a job that has yet to run.
_ON_ITS_WAY = (JobPhase.QUEUED, JobPhase.STARTING, JobPhase.RESTARTING)
#: Phases of a job that trains, or is about to.
_GOES_ON = (JobPhase.STARTING, JobPhase.RUNNING, JobPhase.RESTARTING)
#: The reason of a job whose Workload is deactivated.
_DEACTIVATED = "WorkloadDeactivated"
#: The reason that a kind reports where a queue holds parts of the job.
_QUEUED = "Queued"
#: A phase, its reason, and its message.
_Phase = tuple[JobPhase, str | None, str | None]


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
    """The status of a job.

    :param kind: of the main object.
    :param main: the main object, or its last version.
    :param pods: the job's pods.
    :param groups: how many replicas of each group, in the order of their ranks.
    :param ranked: whether each replica is one process, whose rank is the replica's.
    :param gone: the last versions of pods that were deleted meanwhile.
    :param children: the child objects that the kind reads, and the job's Kueue Workload.
    :param events: of the main object and its children, newest last.
    :param deleted: whether the main object no longer exists.
    """
    parts = without_workloads(children)
    controller, replicas = kind.read(main, parts), read_replicas(kind, main, pods, gone, groups, ranked)
    replicas = without_part(replicas, controller.without_part)
    job = with_written(Reading(kind, main, controller, replicas, pods, children, events, deleted))
    warned = warned_of(job)
    job = replace(job, replicas=with_pulls(with_warnings(job.replicas, pod_warnings(events)), pulls(events)))
    lost = cut_short(job)
    phase, reason, message = _blocked_by_finalizer(job) or _phase(job, lost, warned)
    blocking = _blocking(job, phase)
    if blocking:
        reason, message = hindrance_of([blocking])
        job = replace(job, replicas=[blocking if _is_same(each, blocking) else each for each in job.replicas])
    status = JobStatus(
        phase=phase,
        reason=reason,
        message=message,
        queued_at=parse_time(main["metadata"]["creationTimestamp"]),
        started_at=_started_at(job),
        restarts=controller.restarts + _uncounted(job.replicas).total(),
        replicas=tuple(replica.status for replica in job.replicas),
        waiting_since=waiting_since_of(job, phase, reason),
        deadline_at=kind.controller.deadline_at(main),
        blocked_by=blocking.status.name if blocking else None,
    )
    if not _goes_on(job):
        status = status.model_copy(update=refusal_of(job.replicas, warned, reason, message))
    if phase in _GOES_ON and (gone_for_good := lost_for_good(job, resumed_at(main, parts))):
        status = _without(status, gone_for_good)
    return _closed(status, job, lost) if phase.ended else status


def _without(status: JobStatus, lost: ReplicaState) -> JobStatus:
    """The status of a job that can only fail, because it has lost a replica."""
    end = taken_away(lost.status)
    rows = tuple(end if row.name == end.name else row for row in status.replicas)
    return status.model_copy(update={"replicas": rows, "lost": end.name})


def _uncounted(replicas: Sequence[ReplicaState]) -> Counter[str | None]:
    """Restarts that no controller counts. The count for a re-created object is the same for all of its replicas."""
    return functools.reduce(operator.or_, (replica.remade for replica in replicas), Counter())


def _goes_on(job: Reading) -> bool:
    """Whether an elastic job trains with the nodes that it has, or is about to."""
    return labels.is_elastic(job.main) and any(map(_is_under_way, job.replicas))


def _is_under_way(replica: ReplicaState) -> bool:
    return replica.stage == "running" or (replica.stage == "waiting" and has_node(replica) and not is_hindered(replica))


def _blocking(job: Reading, phase: JobPhase) -> ReplicaState | None:
    """The replica whose failure keeps the job from starting."""
    if phase not in _ON_ITS_WAY:
        return None
    ref = job.kind.controller.blocked_by(job.main, job.pods)
    replica = next((replica for replica in job.replicas if ref and replica.status.name == ref.name), None)
    pod = next((pod for pod in job.pods if replica and replica.pod and pod["metadata"]["uid"] == replica.pod.uid), None)
    return replace(replica, status=never_ready(replica.status, pod)) if replica and pod else replica


def _is_same(replica: ReplicaState, other: ReplicaState) -> bool:
    return replica.status.name == other.status.name


def _phase(job: Reading, lost: ReplicaState | None, warned: Warned | None) -> _Phase:
    """The phase of the job, its reason and its message."""
    cancelled, controller = _why_cancelled(job.main), job.controller
    if controller.phase is JobPhase.SUCCEEDED:
        return _phase_of_success(lost, cancelled)
    if controller.phase is JobPhase.FAILED:
        return controller.phase, controller.reason, controller.message
    suspended = controller.phase is JobPhase.SUSPENDED
    queued = _is_queued(job)
    stopped = job.deleted or suspended or queued or "deletionTimestamp" in job.main["metadata"]
    if cancelled is not None and stopped and not any(_is_there(replica) for replica in job.replicas):
        return JobPhase.CANCELLED, "Cancelled", cancelled
    if queued:
        return _phase_in_queue(job)
    if controller.phase is not None:
        return controller.phase, *_why_so(job)
    return _phase_of_pods(job, warned)


def _why_so(job: Reading) -> tuple[str | None, str | None]:
    """The reason and message of the controller's phase; for the restart of a job that has not run yet, those of a
    replica.
    """
    controller = job.controller
    again = list(filter(has_run, job.replicas)) if controller.phase is JobPhase.RESTARTING else []
    is_known = controller.reason and any(replica.started_at for replica in job.replicas)
    return why_again(again) if again and not is_known else (controller.reason, controller.message)


def _phase_of_success(lost: ReplicaState | None, cancelled: str | None) -> _Phase:
    """The phase of a job that its controller reports as complete. With a lost replica, the job has failed."""
    if lost is None:
        return JobPhase.SUCCEEDED, None, None
    return (JobPhase.FAILED, None, None) if cancelled is None else (JobPhase.CANCELLED, "Cancelled", cancelled)


def _why_cancelled(main: Manifest) -> str | None:
    reason: str | None = (main["metadata"].get("annotations") or {}).get(labels.CANCELLED)
    return reason


def _is_queued(job: Reading) -> bool:
    if job.controller.phase is JobPhase.SUSPENDED:
        return queued_by_kueue(job.main)
    return job.controller.phase is None and job.controller.reason == _QUEUED


def _may_run(replica: ReplicaState) -> bool:
    """Whether a replica's newest pod exists and has not ended."""
    return replica.pod is not None and replica.stage != "ended"


def _blocked_by_finalizer(job: Reading) -> _Phase | None:
    """The final phase of a job whose deletion is blocked by finalizers, and which its controller no longer reconciles.

    :return: None while its leader may still run, and for any other job.
    """
    finalizers = held_by(job.main) if job.kind.controller.leaves_deleted else ()
    is_known = (job.controller.phase and job.controller.phase.ended) or _why_cancelled(job.main) is not None
    if not finalizers or is_known or any(map(_may_run, job.replicas[:1])):
        return None
    # Workers may continue to run: no controller ends the workers of a launcher that is complete.
    is_complete = any(each.stage == "ended" and not is_cut_short(each) for each in job.replicas[:1])
    if is_complete and not any(each.status.failed for each in job.replicas):
        return JobPhase.SUCCEEDED, None, None
    what = f"{job.kind.resource.kind} {job.main['metadata']['name']}"
    return JobPhase.FAILED, DELETED, f"{what} is being deleted, and is held by its finalizers: {', '.join(finalizers)}"


def _phase_in_queue(job: Reading) -> _Phase:
    deactivated = is_deactivated(job.children)
    held = (JobPhase.SUSPENDED, _DEACTIVATED) if deactivated else (JobPhase.QUEUED, SUSPENDED_BY_KUEUE)
    return *held, queue_message(job.children, job.events) or job.controller.message


def _is_there(replica: ReplicaState) -> bool:
    """Whether a replica's training may still run."""
    return replica.stage == "running" or (replica.stage == "waiting" and has_node(replica))


def _phase_of_pods(job: Reading, warned: Warned | None) -> _Phase:
    waiting = waiting_of(job.replicas)
    if not waiting:
        return _phase_without_waiting(job)
    phase = phase_of_waiting(what_waits(job))
    why = why_waiting(list(filter(is_hindered, waiting)), warned)
    if why is None and phase is JobPhase.RESTARTING:
        why = why_again(list(filter(has_run, waiting)) or waiting)
    if why is None and phase is JobPhase.STARTING:
        why = None, first_message(replica.status for replica in waiting)
    return phase, *(why or (None, None))


def _phase_without_waiting(job: Reading) -> _Phase:
    """The phase of a job whose replicas run, or have ended."""
    failed = [each for each in job.replicas if each.status.failed and (each.status.reason or "").startswith(INIT)]
    if not failed or any(replica.started_at for replica in job.replicas):
        return JobPhase.RUNNING, None, None
    # No replica has run its training, and the controller has not decided yet how to proceed.
    has_failed_before = job.controller.restarts or any(
        replica.last_end or replica.status.restarts for replica in failed
    )
    return JobPhase.RESTARTING if has_failed_before else JobPhase.STARTING, *why_again(failed)


def _never_ran(replica: ReplicaState) -> bool:
    """Whether a replica's pods have failed before its training could run."""
    last = replica.last_end or replica.status
    return (last.reason or "").startswith(INIT)


def _started_at(job: Reading) -> datetime | None:
    """When the first replica began to run. Only the main object records earlier attempts."""
    controller, replicas = job.controller, job.replicas
    starts = [replica.started_at for replica in replicas if replica.started_at]
    if not starts and any(_never_ran(replica) for replica in replicas):
        return None
    if controller.started_at and (controller.restarts or (controller.phase and controller.phase.ended and not starts)):
        return controller.started_at
    return min(starts, default=None)


def _closed(status: JobStatus, job: Reading, lost: ReplicaState | None) -> JobStatus:
    """The final status of a job: which replica failed first, and how all replicas ended."""
    main, replicas = job.main, job.replicas
    codes = labels.exit_codes_of(main)
    failed = status.phase is JobPhase.FAILED and status.reason != DEADLINE
    culprit, rows = settle(replicas, failed=failed, codes=codes, lost=lost, elastic=labels.is_elastic(main))
    ends = [row.finished_at for row in rows if row.finished_at]
    deleted_at = main["metadata"].get("deletionTimestamp")
    finished_at = job.controller.finished_at or max(ends, default=parse_time(deleted_at) if deleted_at else None)
    update: dict[str, object] = {"replicas": rows, "finished_at": finished_at}
    if culprit:
        words = None if is_result(culprit) else last_words(culprit.message)
        update |= {"reason": culprit.reason, "message": words, "first_failed": culprit.name}
    if culprit and culprit.reason == DEADLINE:
        # The deadline of its pod passed, like those of all other pods: nothing failed.
        update |= {"first_failed": None, "replicas": settle(replicas, failed=False)[1]}
    return status.model_copy(update=update)
