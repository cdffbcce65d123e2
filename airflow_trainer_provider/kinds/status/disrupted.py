"""Replicas that were taken away, and ended with exit code 0 then: their controllers take them for complete.

A training that saves its state when it is asked to end, and exits politely, is cut short all the same. Its pod may be
gone when the job ends, hours later: what was seen of it is kept on the main object.
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
#: How soon a controller has seen the end of the last pod.
_SEEN_WITHIN = timedelta(minutes=1)
#: One that is lost fails the job: more of them say no more. Annotations are bounded.
_MOST_WRITTEN = 20


class _End(ReplicaStatus):
    finished_at: AwareDatetime


class _Written(BaseModel):
    """A replica that was disrupted.

    :param at: since when its pod was to go.
    :param job_set: the uid of the JobSet, where it is a part of one.
    :param attempt: of that.
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
    """A job that has ended, with what is written on its main object of the replicas whose pods are gone.

    :param job: as it was read. One that goes on is not changed.
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
    """The merge patch that writes down who was disrupted, and has not been started again; None where that stands there.

    :param job: as it was read.
    :param first_failed: the replica that failed first, of a job that has failed: the others went with it.
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
    """The replica without which a job cannot have succeeded, though its controller says so.

    :param job: as it was read.
    """
    if job.controller.phase is not JobPhase.SUCCEEDED or not job.replicas:
        return None
    if _was_to_be_suspended(job.main) and job.replicas[0].newest is None:
        # A pod that had completed would have outlived the suspension.
        return job.replicas[0]
    return min(_lost(job), key=_disrupted_at, default=None)


def lost_for_good(job: Reading, resumed_at: datetime | None) -> ReplicaState | None:
    """The replica without which a job that goes on can only fail: it was cut short, and nothing starts it again.

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
    """Whether no controller starts a replica again that was cut short: not what its suspension ended, for example."""
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
    """Whether it was taken away before its job was complete, and not to clean up after that."""
    if controller.finished_at is None or controller.phase is not JobPhase.SUCCEEDED:
        return True
    if replica is leader:
        at = _disrupted_at(replica)
        # What other clients make may be complete without it.
        return at <= controller.finished_at if is_ours else at < controller.finished_at
    return _disrupted_at(replica) + _SKEW < controller.finished_at and not _ended_with(replica, leader)


def _ended_with(replica: ReplicaState, leader: ReplicaState) -> bool:
    """Whether it went on to the leader's own end: it has done its work, though it was to go."""
    ends = leader.status.finished_at, replica.status.finished_at
    return not is_cut_short(leader) and ends[0] is not None and ends[1] is not None and ends[1] + _SKEW >= ends[0]


def is_cut_short(replica: ReplicaState) -> bool:
    """Whether it was taken away, and a controller may take it for complete.

    :param replica: as its pods have it.
    """
    status = replica.status
    # The exit code of a pod that was gone before its end was seen is not known.
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
    """Whether what is written is how the replica ended for good."""
    if not _is_end_of(written, replica):
        return False
    if written.attempt is not None:
        # One that is created again counts from 0.
        is_same = None in (written.job_set, controller.job_set) or written.job_set == controller.job_set
        return is_same and written.attempt == controller.restarts
    if replica.newest is None and kind.controller.replaces_pods:
        # Its next pod may have come and gone, unless the job ended with this one.
        return _ended_by(written.end.finished_at + _SEEN_WITHIN, controller)
    return True


def _ended_by(time: datetime, controller: ControllerStatus) -> bool:
    # Controllers do not note when a job has failed.
    return controller.phase is JobPhase.FAILED if controller.finished_at is None else controller.finished_at < time


def _is_end_of(written: _Written, replica: ReplicaState) -> bool:
    """Whether it is how the replica's newest pod ended; another one starts the replica again."""
    if replica.newest is None:
        return True
    if None not in (written.job_set, replica.job_set) and written.job_set != replica.job_set:
        return False
    status = replica.status
    was_not_seen = replica.stage == "ended" and status.exit_code is None and status.signal is None
    return was_not_seen or (status.exit_code == 0 and status.finished_at == written.end.finished_at)
