"""The state of a queue at one moment, and of each job that waits there. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_trainer_provider.cluster.queues.kueue import (
    is_pending,
    pending_since,
    priority_of,
    queued_at,
    reserved_at,
)
from airflow_trainer_provider.cluster.queues.pending import MOST, PendingJobs
from airflow_trainer_provider.cluster.queues.quota import Quotas, can_never_start, shortages
from airflow_trainer_provider.job.queue.admissions import MOST as MOST_ADMISSIONS
from airflow_trainer_provider.job.queue.admissions import Admissions
from airflow_trainer_provider.job.queue.place import Estimate, QueuePlace
from airflow_trainer_provider.kinds.base import Manifest

_RESERVED = "The queue has reserved quota for the job; it starts once the queue's admission checks have passed."
_NOT_LISTED = "Kueue does not list the job among those that wait in the queue."
_TOO_MANY = f"The job is not among the first {MOST:,} in the queue."
_NEVER = "The job needs more than all of the queue's quota, so the queue never admits it."
_PASSED = "Jobs that came later were admitted first, as they need less or something else."


#: The key by which a queue orders its jobs: the smallest comes first.
_Order = tuple[int, float]


class Position(NamedTuple):
    """Where a job is in its queue, and in the ClusterQueue behind that, both from 1."""

    local: int
    cluster: int


class Positions(NamedTuple):
    """The positions of the jobs that wait in a queue.

    :param by_uid: the first position that each object has, by its uid.
    :param length: how many wait; None where not all of them are known.
    """

    by_uid: Mapping[str, Position]
    length: int | None


def positions_of(pending: PendingJobs, workloads: Mapping[str, Manifest]) -> Positions:
    """The positions of the jobs that wait: those that were admitted or suspended after the list was made are left out.

    :param pending: the list. Each of its items counts, also one for no object, or for one that has several.
    :param workloads: the newest known Workloads, by the uid of the object that each is for.
    """
    found: dict[str, Position] = {}
    waiting = gone = 0
    for uid, cluster_position in pending.jobs:
        workload = workloads.get(uid) if uid else None
        if workload is not None and not is_pending(workload):
            gone += 1
            continue
        waiting += 1
        if uid:
            found.setdefault(uid, Position(waiting, cluster_position - gone))
    return Positions(found, waiting if pending.is_whole else None)


@dataclass
class QueueState:
    """The state of a queue.

    :param name: of the LocalQueue.
    :param admissions: the admissions that were seen.
    :param cluster_queue: the name of the ClusterQueue; None where it is not known.
    :param positions: of the jobs that wait.
    :param why_unknown: why no positions are known; None where they are.
    :param quotas: of the ClusterQueue; empty where they are not known.
    """

    name: str
    admissions: Admissions = field(default_factory=Admissions)
    cluster_queue: str | None = None
    positions: Positions = field(default_factory=lambda: Positions({}, 0))
    why_unknown: str | None = None
    quotas: Quotas = field(default_factory=dict)
    # Of the jobs that were admitted last: the key by which they were ordered, and when they were admitted.
    _admitted: deque[tuple[_Order, float]] = field(default_factory=lambda: deque(maxlen=MOST_ADMISSIONS))

    def note_admission(self, workload: Manifest, ahead: float) -> None:
        """Process a Workload, which may have been admitted. The same Workload may come several times.

        :param workload: of the queue.
        :param ahead: by how many seconds the cluster's clock is ahead of this machine's.
        """
        at = reserved_at(workload)
        if at is None:
            return
        uid = str(workload["metadata"]["uid"])
        if self.admissions.note(uid, queued_at(workload) - ahead, at - ahead):
            self._admitted.append((_order(workload), at))

    def place(self, uid: str, workload: Manifest, now: float) -> QueuePlace:
        """A job's place.

        :param uid: of the object that is queued.
        :param workload: the Workload for that object.
        :param now: the time, in seconds since 1970.
        """
        position = self.positions.by_uid.get(uid)
        if position is None:
            return self._of_unknown(self._why_no_position(workload))
        estimate = self._estimate(workload, position.local, now)
        return QueuePlace(
            name=self.name,
            cluster_queue=self.cluster_queue,
            position=position.local,
            length=self.positions.length,
            cluster_position=position.cluster,
            missing=shortages(workload, self.quotas),
            estimate=estimate if isinstance(estimate, Estimate) else None,
            estimate_why=None if isinstance(estimate, Estimate) else estimate,
        )

    def _of_unknown(self, why: str) -> QueuePlace:
        return QueuePlace(name=self.name, cluster_queue=self.cluster_queue, estimate_why=why)

    def _why_no_position(self, workload: Manifest) -> str:
        if reserved_at(workload) is not None:
            return _RESERVED
        if self.why_unknown is not None:
            return self.why_unknown
        return _TOO_MANY if self.positions.length is None else _NOT_LISTED

    def _estimate(self, workload: Manifest, position: int, now: float) -> Estimate | str:
        if can_never_start(workload):
            return _NEVER
        if self._was_passed_over(workload):
            return _PASSED
        return self.admissions.estimate(position, now)

    def _was_passed_over(self, workload: Manifest) -> bool:
        """Whether a job that comes after this one in the order was admitted while this one waited."""
        order, since = _order(workload), pending_since(workload)
        return any(order < other and since < at for other, at in self._admitted)


def _order(workload: Manifest) -> _Order:
    return -priority_of(workload), queued_at(workload)
