"""What is known of a job that waits in a queue."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt, PositiveInt

_GIB = 2**30


class _Record(BaseModel):
    # Who reads it may be of an earlier version than who has written it.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Shortage(_Record):
    """A resource of which the queue has less free than the job needs. Amounts are in base units: cores, bytes, pieces.

    :param resource: as Kubernetes calls it, e.g. ``nvidia.com/gpu``.
    :param flavor: the kind of nodes that it is of, as Kueue calls it; None where that is not known.
    :param total: the quota; None where it may not be read.
    :param used: how much of it is reserved; None likewise.
    :param free: how much the job could have now; None where that is not known.
    :param needed: by all replicas of the job together.
    """

    resource: str
    flavor: str | None = None
    total: FiniteFloat | None = None
    used: FiniteFloat | None = None
    free: FiniteFloat | None = None
    needed: FiniteFloat

    def text(self) -> str:
        """For people, e.g. ``needs 4 GPU, 2 free in a100``."""
        unit, size = unit_of(self.resource)
        free = f", {amount(self.free / size)} free" if self.free is not None else ""
        flavor = f" in {self.flavor}" if self.flavor else ""
        return f"needs {amount(self.needed / size)} {unit}{free}{flavor}"


class Estimate(_Record):
    """When the queue admits a job, as a range.

    :param earliest: its begin, which may have passed.
    :param latest: its end.
    :param basis: what it follows from, as a sentence.
    """

    earliest: datetime
    latest: datetime
    basis: str


class QueuePlace(_Record):
    """A job's place in its queue.

    :param name: of the queue: Kueue's LocalQueue.
    :param cluster_queue: the ClusterQueue behind it; None where it may not be read.
    :param position: among the jobs that wait in the queue, from 1; None where it is not known.
    :param length: how many wait in the queue; None where that is not known.
    :param cluster_position: among the jobs that wait for the ClusterQueue, from 1.
    :param missing: what the queue has not enough of; empty where that is not known as well.
    :param estimate: when the job is admitted; None where that is not known.
    :param estimate_why: why it is not, as a sentence.
    """

    name: str
    cluster_queue: str | None = None
    position: PositiveInt | None = None
    length: NonNegativeInt | None = None
    cluster_position: PositiveInt | None = None
    missing: tuple[Shortage, ...] = ()
    estimate: Estimate | None = None
    estimate_why: str | None = None

    def where(self) -> str | None:
        """The position for people, e.g. ``position 3 of 7 in queue team-nlp``; None where it is not known."""
        if self.position is None:
            return None
        of = f" of {self.length:,}" if self.length is not None else ""
        return f"position {self.position:,}{of} in queue {self.name}"


def last_of(places: Iterable[QueuePlace]) -> QueuePlace | None:
    """The place that a job of several parts waits for the longest; None where there is none.

    :param places: of the parts. One that is not known comes last.
    """
    return max(places, key=lambda place: (place.position is None, place.position or 0), default=None)


def unit_of(resource: str) -> tuple[str, int]:
    """What people call a resource, and how many of its base units are one of theirs.

    :param resource: as Kubernetes calls it.
    """
    if resource.endswith("/gpu"):
        return "GPU", 1
    return {"cpu": ("CPU", 1), "memory": ("GiB memory", _GIB)}.get(resource, (resource, 1))


def amount(value: float) -> str:
    """A number for people: with two decimals at most.

    :param value: of any unit.
    """
    return f"{round(value, 2):,g}" if abs(value) < 1e5 else f"{value:,.0f}"
