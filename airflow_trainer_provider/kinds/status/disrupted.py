"""Replicas that were disrupted and then ended with exit code 0: their controllers consider them complete.

A training that saves its state when it is asked to end, and exits with 0, is cut short nevertheless. When the job ends,
hours later, its pod may no longer exist: what was seen of the pod is recorded on the main object.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError

from airflow_trainer_provider.job.status import JobPhase, ReplicaStatus
from airflow_trainer_provider.kinds.base import ControllerStatus, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.reading import Reading
from airflow_trainer_provider.kinds.status.replicas import ReplicaState

#: How much the clocks of nodes and controllers may differ.
_SKEW = timedelta(seconds=5)
#: The time within which a controller notices the end of the last pod.
_SEEN_WITHIN = timedelta(minutes=1)
#: The maximum number of recorded replicas. One lost replica fails the job, so more of them add no information, and the
#: size of annotations is limited.
_MOST_WRITTEN = 20


class _End(ReplicaStatus):
    finished_at: AwareDatetime


class _Written(BaseModel):
    """The record of a replica that was disrupted.

    :param at: when the disruption of its pod began.
    :param job_set: the UID of the JobSet that the replica belongs to, if any.
    :param attempt: the attempt of that JobSet.
    :param end: how it ended.
    :param succeeded: whether all containers of its pod exited with 0.
    """

    at: AwareDatetime
    job_set: str | None = None
    attempt: int | None = None
    end: _End
    succeeded: bool = False


_WRITTEN = TypeAdapter(dict[str, _Written])


def with_written(job: Reading) -> Reading:
    """A job that has ended, completed with the records on its main object about replicas whose pods no longer exist.

    :param job: as it was read. A job that has not ended is not changed.
    """
    return _completed(job) if job.controller.phase and job.controller.phase.ended else job


def _completed(job: Reading) -> Reading:
    written = _written(job.main)
    replicas = [
        _from_written(replica, entry)
        if (entry := written.get(replica.status.name)) and _holds(entry, job.kind, job.controller, replica)
        else replica
        for replica in job.replicas
    ]
    return replace(job, replicas=replicas)


def to_write(job: Reading, first_failed: str | None) -> Manifest | None:
    """The merge patch that records the replicas that were disrupted and not restarted; None where the record is up to
    date.

    :param job: as it was read.
    :param first_failed: the replica that failed first, for a job that has failed: the others were ended with it.
    """
    written = _written(job.main)
    known = {replica.status.name: replica for replica in job.replicas}
    wanted = {name: each for name, each in written.items() if name in known and _is_end_of(each, known[name])}
    for replica in _lost(job):
        is_of_interest = job.controller.phase is not JobPhase.FAILED or replica.status.name == first_failed
        known_end = wanted.get(replica.status.name)
        is_news = len(wanted) < _MOST_WRITTEN if known_end is None else replica.has_succeeded > known_end.succeeded
        if is_of_interest and is_news:
            wanted[replica.status.name] = _entry(replica)
    if wanted == written:
        return None
    text = _WRITTEN.dump_json(wanted, exclude_none=True).decode() if wanted else None
    return {"metadata": {"uid": job.main["metadata"]["uid"], "annotations": {labels.DISRUPTED: text}}}


def _entry(replica: ReplicaState) -> _Written:
    end = _End.model_validate(replica.status.model_dump())
    return _Written(
        at=_disrupted_at(replica),
        job_set=replica.job_set,
        attempt=replica.attempt,
        end=end,
        succeeded=replica.has_succeeded,
    )


def cut_short(job: Reading) -> ReplicaState | None:
    """The replica without which a job cannot have succeeded, although its controller reports success.

    :param job: as it was read.
    """
    if job.controller.phase is not JobPhase.SUCCEEDED or not job.replicas:
        return None
    if _was_to_be_suspended(job.main) and job.replicas[0].newest is None:
        # A pod that had completed would have outlived the suspension.
        return job.replicas[0]
    return min(_lost(job), key=_disrupted_at, default=None)


def lost_for_good(job: Reading, resumed_at: datetime | None) -> ReplicaState | None:
    """The replica without which a job that has not ended can only fail: it was cut short, and no controller restarts
    it.

    :param job: as it was read.
    :param resumed_at: when the job was resumed; None where it was not suspended.
    """
    if not job.controller.keeps_complete or _is_ending(job):
        return None
    lost = [
        replica
        for replica in _lost(_completed(job))
        if _is_final(replica, job.controller, resumed_at) and not _ended_with(replica, job.replicas[0])
    ]
    return min(lost, key=_disrupted_at, default=None)


def _is_ending(job: Reading) -> bool:
    """Whether the job ends for another reason: it is asked to, or a replica has failed by itself."""
    metadata = job.main["metadata"]
    is_asked = "deletionTimestamp" in metadata or labels.CANCELLED in (metadata.get("annotations") or {})
    return is_asked or any(replica.status.failed and replica.disrupted_at is None for replica in job.replicas)


def _is_final(replica: ReplicaState, controller: ControllerStatus, resumed_at: datetime | None) -> bool:
    """Whether no controller restarts a replica that was cut short. A replica that a suspension ended, for example, is
    restarted.
    """
    is_of_attempt = replica.job_set in (None, controller.job_set) and replica.attempt in (None, controller.restarts)
    return replica.has_succeeded and is_of_attempt and (resumed_at is None or _disrupted_at(replica) > resumed_at)


def _lost(job: Reading) -> list[ReplicaState]:
    """The replicas that were disrupted and without which the job cannot succeed."""
    optional, replicas = labels.optional_groups(job.main), job.replicas
    if optional is None or labels.is_elastic(job.main):
        needed = replicas[:1]
    else:
        needed = [replica for at, replica in enumerate(replicas) if at == 0 or replica.status.group not in optional]
    lost = filter(is_cut_short, needed)
    is_ours = optional is not None
    return [replica for replica in lost if _came_before_the_end(replica, replicas[0], job.controller, is_ours=is_ours)]


def _came_before_the_end(
    replica: ReplicaState, leader: ReplicaState, controller: ControllerStatus, *, is_ours: bool
) -> bool:
    """Whether a replica was disrupted before its job was complete, and not by the cleanup afterwards."""
    if controller.finished_at is None or controller.phase is not JobPhase.SUCCEEDED:
        return True
    if replica is leader:
        at = _disrupted_at(replica)
        # Jobs of other clients may be complete without their first replica.
        return at <= controller.finished_at if is_ours else at < controller.finished_at
    return _disrupted_at(replica) + _SKEW < controller.finished_at and not _ended_with(replica, leader)


def _ended_with(replica: ReplicaState, leader: ReplicaState) -> bool:
    """Whether a disrupted replica ran until the leader ended: it has done its work nevertheless."""
    ends = leader.status.finished_at, replica.status.finished_at
    return not is_cut_short(leader) and ends[0] is not None and ends[1] is not None and ends[1] + _SKEW >= ends[0]


def is_cut_short(replica: ReplicaState) -> bool:
    """Whether a replica was disrupted, and a controller may consider it complete.

    :param replica: as it was read from its pods.
    """
    status = replica.status
    # The exit code of a pod that disappeared before its end was seen is unknown.
    return replica.disrupted_at is not None and not status.exit_code and status.signal is None


def _disrupted_at(replica: ReplicaState) -> datetime:
    assert replica.disrupted_at is not None
    return replica.disrupted_at


def _was_to_be_suspended(main: Manifest) -> bool:
    annotations = main["metadata"].get("annotations") or {}
    return labels.CANCELLED in annotations and annotations.get(labels.ON_KILL) == "suspend"


def _written(main: Manifest) -> dict[str, _Written]:
    text = (main["metadata"].get("annotations") or {}).get(labels.DISRUPTED)
    try:
        return _WRITTEN.validate_json(text) if text else {}
    except ValidationError:
        return {}


def _from_written(replica: ReplicaState, written: _Written) -> ReplicaState:
    end = {name: getattr(written.end, name) for name in ("exit_code", "signal", "reason", "message", "started_at")}
    status = replica.status.model_copy(update={**end, "finished_at": written.end.finished_at})
    return replace(replica, status=status, stage="ended", disrupted_at=written.at, has_succeeded=written.succeeded)


def _holds(written: _Written, kind: Kind, controller: ControllerStatus, replica: ReplicaState) -> bool:
    """Whether a record describes how the replica finally ended."""
    if not _is_end_of(written, replica):
        return False
    if written.attempt is not None:
        # A re-created JobSet counts from 0.
        is_same = None in (written.job_set, controller.job_set) or written.job_set == controller.job_set
        return is_same and written.attempt == controller.restarts
    if replica.newest is None and kind.controller.replaces_pods:
        # The replica may have had another pod since, unless the job ended with this one.
        return _ended_by(written.end.finished_at + _SEEN_WITHIN, controller)
    return True


def _ended_by(time: datetime, controller: ControllerStatus) -> bool:
    # Controllers do not record when a job has failed.
    return controller.phase is JobPhase.FAILED if controller.finished_at is None else controller.finished_at < time


def _is_end_of(written: _Written, replica: ReplicaState) -> bool:
    """Whether a record describes the end of the replica's newest pod. A newer pod means that the replica was
    restarted.
    """
    if replica.newest is None:
        return True
    if None not in (written.job_set, replica.job_set) and written.job_set != replica.job_set:
        return False
    status = replica.status
    was_not_seen = replica.stage == "ended" and status.exit_code is None and status.signal is None
    return was_not_seen or (status.exit_code == 0 and status.finished_at == written.end.finished_at)
