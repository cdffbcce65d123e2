"""The place of a job that waits in a queue, and what is known about its admission."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt, PositiveInt

_GIB = 2**30


class _Record(BaseModel):
    # The reader may have an earlier version than the writer.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Shortage(_Record):
    """A resource of which the queue has less free than the job needs. Amounts are in base units: cores, bytes, pieces.

    :param resource: its name in Kubernetes, e.g. ``nvidia.com/gpu``.
    :param flavor: the kind of nodes that provide it, by its name in Kueue; None where that is unknown.
    :param total: the quota; None where it may not be read.
    :param used: how much of the quota is reserved; None likewise.
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
        """The text for users, e.g. ``needs 4 GPU, 2 free in a100``."""
        unit, size = unit_of(self.resource)
        free = f", {amount(self.free / size)} free" if self.free is not None else ""
        flavor = f" in {self.flavor}" if self.flavor else ""
        return f"needs {amount(self.needed / size)} {unit}{free}{flavor}"


class Estimate(_Record):
    """When the queue admits a job, as a range.

    :param earliest: the beginning of the range, which may have passed.
    :param latest: the end of the range.
    :param basis: what the estimate is based on, as a sentence.
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
    :param missing: the resources of which the queue does not have enough; also empty where that is unknown.
    :param estimate: when the job is admitted; None where that is not known.
    :param estimate_why: why there is no estimate, as a sentence.
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
        """The position as text for users, e.g. ``position 3 of 7 in queue team-nlp``; None where it is not known."""
        if self.position is None:
            return None
        of = f" of {self.length:,}" if self.length is not None else ""
        return f"position {self.position:,}{of} in queue {self.name}"


def last_of(places: Iterable[QueuePlace]) -> QueuePlace | None:
    """Of the places of a job with several parts, the one that has to wait longest; None where there is none.

    :param places: of the parts. A part whose position is unknown waits longest.
    """
    return max(places, key=lambda place: (place.position is None, place.position or 0), default=None)


def unit_of(resource: str) -> tuple[str, int]:
    """The unit in which a resource is shown to users, and how many base units it has.

    :param resource: its name in Kubernetes.
    """
    if resource.endswith("/gpu"):
        return "GPU", 1
    return {"cpu": ("CPU", 1), "memory": ("GiB memory", _GIB)}.get(resource, (resource, 1))


def amount(value: float) -> str:
    """A number as text for users, with two decimals at most.

    :param value: of any unit.
    """
    return f"{round(value, 2):,g}" if abs(value) < 1e5 else f"{value:,.0f}"
