"""Replicas that were taken away, and ended with exit code 0 then: their controllers take them for complete.

A training that saves its state when it is asked to end, and exits politely, is cut short all the same. Its pod may be
gone when the job ends, hours later: what was seen of it is kept on the main object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import BaseModel, TypeAdapter, ValidationError

from airflow_trainer_provider.job.status import JobPhase, ReplicaStatus
from airflow_trainer_provider.kinds.base import ControllerStatus, Manifest
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.replicas import ReplicaState

#: How much the clocks of nodes and controllers may differ.
_SKEW = timedelta(seconds=5)
#: One that is lost fails the job: more of them say no more. Annotations are bounded.
_MOST_WRITTEN = 20


class _Written(BaseModel):
    """A replica that was disrupted.

    :param at: since when its pod was to go.
    :param restarts: how often the whole job had been started again by then.
    :param status: how it ended.
    """

    at: datetime
    restarts: int
    status: ReplicaStatus


_WRITTEN = TypeAdapter(dict[str, _Written])


def with_written(
    main: Manifest, controller: ControllerStatus, replicas: Sequence[ReplicaState]
) -> Sequence[ReplicaState]:
    """The replicas, with what is written on the main object of those whose pods are gone.

    :param main: the main object.
    :param controller: what its controller says.
    :param replicas: as the pods have them.
    """
    written = _written(main)
    if not written:
        return replicas
    return [_from_written(replica, written.get(replica.status.name), controller) for replica in replicas]


def to_write(main: Manifest, controller: ControllerStatus, replicas: Sequence[ReplicaState]) -> Manifest | None:
    """The merge patch that writes down who was disrupted, and has not been started again; None where that stands there.

    :param main: the main object.
    :param controller: what its controller says.
    :param replicas: as the pods have them.
    """
    written = _written(main)
    seen = {replica.status.name: replica for replica in replicas}
    wanted = {name: each for name, each in written.items() if name in seen and _is_end_of(each, seen[name])}
    for name, replica in seen.items():
        if _is_disrupted(replica) and len(wanted) < _MOST_WRITTEN:
            entry = _Written(at=_disrupted_at(replica), restarts=controller.restarts, status=replica.status)
            wanted.setdefault(name, entry)
    if wanted.keys() == written.keys():
        return None
    text = _WRITTEN.dump_json(wanted, exclude_none=True).decode() if wanted else None
    return {"metadata": {"annotations": {labels.DISRUPTED: text}}}


def cut_short(main: Manifest, controller: ControllerStatus, replicas: Sequence[ReplicaState]) -> ReplicaState | None:
    """The replica without which a job cannot have succeeded, though its controller says so.

    :param main: the main object.
    :param controller: what its controller says.
    :param replicas: as the pods have them.
    """
    if controller.phase is not JobPhase.SUCCEEDED:
        return None
    needed = [replica for replica in _needed(main, replicas) if _is_disrupted(replica)]
    lost = [replica for replica in needed if replica is replicas[0] or _before_the_end(replica, controller)]
    return min(lost, key=_disrupted_at, default=None)


def _needed(main: Manifest, replicas: Sequence[ReplicaState]) -> Sequence[ReplicaState]:
    """The replicas that have to complete: of a job that was not rendered here, only the leader is known to."""
    optional = labels.optional_groups(main)
    if optional is None or labels.is_elastic(main):
        return replicas[:1]
    return [replica for at, replica in enumerate(replicas) if at == 0 or replica.status.group not in optional]


def _before_the_end(replica: ReplicaState, controller: ControllerStatus) -> bool:
    """Whether it was not taken away because the job had ended: controllers clean up then."""
    return controller.finished_at is None or _disrupted_at(replica) + _SKEW < controller.finished_at


def _is_disrupted(replica: ReplicaState) -> bool:
    return replica.disrupted_at is not None and replica.status.exit_code == 0


def _disrupted_at(replica: ReplicaState) -> datetime:
    assert replica.disrupted_at is not None
    return replica.disrupted_at


def _written(main: Manifest) -> dict[str, _Written]:
    text = (main["metadata"].get("annotations") or {}).get(labels.DISRUPTED)
    try:
        return _WRITTEN.validate_json(text) if text else {}
    except ValidationError:
        return {}


def _from_written(replica: ReplicaState, written: _Written | None, controller: ControllerStatus) -> ReplicaState:
    if written is None or not _is_end_of(written, replica) or written.restarts != controller.restarts:
        return replica
    return replace(replica, status=written.status, stage="ended", disrupted_at=written.at)


def _is_end_of(written: _Written, replica: ReplicaState) -> bool:
    """Whether it is how the replica's newest pod ended; another one starts the replica again."""
    if replica.newest is None:
        return True
    return replica.status.exit_code == 0 and replica.status.finished_at == written.status.finished_at
