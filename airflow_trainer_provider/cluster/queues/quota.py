"""The resources that a queue has not enough quota of for a job."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from airflow_trainer_provider.cluster.queues.kueue import why_pending
from airflow_trainer_provider.job.queue.place import Shortage
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.policies.amounts import amount

#: The messages of Kueue: ``insufficient unused quota for cpu in flavor default, 500m more needed``, and ``insufficient
#: quota for cpu in flavor default, request > maximum capacity (3 > 500m)``.
_MORE = re.compile(
    r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), (?P<more>\S+) more needed"
)
_CAPACITY = re.compile(
    r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), "
    r"request > maximum capacity \((?P<needed>\S+) > (?P<most>\S+)\)"
)


class Quota(NamedTuple):
    """The quota of a ClusterQueue for one resource in one flavor, in base units."""

    total: float
    used: float
    is_shared: bool

    @property
    def free(self) -> float:
        """How much is not reserved."""
        return max(0.0, self.total - self.used)


#: By resource and flavor.
Quotas = Mapping[tuple[str, str], Quota]


def quotas_of(cluster_queue: Manifest | None) -> Quotas:
    """The quotas of a ClusterQueue.

    :param cluster_queue: as the API has it; None where it may not be read.
    """
    spec, status = ((cluster_queue or {}).get(part) or {} for part in ("spec", "status"))
    used = _by_resource(status.get("flavorsReservation"), "total")
    # In a cohort other queues may lend or borrow: the free quota of this queue alone does not decide.
    is_shared = bool(spec.get("cohort") or spec.get("cohortName"))
    totals: dict[tuple[str, str], float] = {}
    for group in spec.get("resourceGroups") or ():
        totals |= _by_resource(group.get("flavors"), "nominalQuota")
    return {key: Quota(total, used.get(key, 0.0), is_shared) for key, total in totals.items()}


def _by_resource(flavors: Any, quantity: str) -> dict[tuple[str, str], float]:
    """A quantity of each resource in each flavor."""
    return {
        (each["name"], flavor["name"]): _number(each.get(quantity))
        for flavor in flavors or ()
        for each in flavor.get("resources") or ()
    }


def shortages(workload: Manifest, quotas: Quotas) -> tuple[Shortage, ...]:
    """The resources that the queue has not enough quota of for a Workload: from Kueue's message, or else by the
    numbers.

    :param workload: a Workload that waits.
    :param quotas: of its ClusterQueue; empty where they may not be read.
    """
    needed = _needed(workload)
    said = list(_said(why_pending(workload), needed))
    if said:
        found = (_with_quota(each, quotas.get((each.resource, each.flavor or ""))) for each in said)
        return tuple(each for each in found if each.free is None or each.free < each.needed)
    return tuple(_counted(needed, quotas))


def can_never_start(workload: Manifest) -> bool:
    """Whether a Workload needs more than all of the quota that its queue can ever have."""
    message = why_pending(workload)
    return bool(_CAPACITY.search(message)) and not _MORE.search(message)


def _needed(workload: Manifest) -> dict[str, float]:
    """What all pods of a Workload need together; empty before Kueue has considered it."""
    found: dict[str, float] = defaultdict(float)
    for pods in (workload.get("status") or {}).get("resourceRequests") or ():
        for resource, quantity in (pods.get("resources") or {}).items():
            found[resource] += _number(quantity)
    return found


def _said(message: str, needed: Mapping[str, float]) -> Iterator[Shortage]:
    for found in _MORE.finditer(message):
        resource, more = found["resource"], _number(found["more"])
        whole = needed.get(resource)
        free = None if whole is None else max(0.0, whole - more)
        yield Shortage(resource=resource, flavor=found["flavor"], needed=more if whole is None else whole, free=free)
    for found in _CAPACITY.finditer(message):
        total = _number(found["most"])
        yield Shortage(resource=found["resource"], flavor=found["flavor"], needed=_number(found["needed"]), total=total)


def _with_quota(shortage: Shortage, quota: Quota | None) -> Shortage:
    if quota is None:
        return shortage
    free = shortage.free if quota.is_shared else quota.free
    return shortage.model_copy(update={"total": quota.total, "used": quota.used, "free": free})


def _counted(needed: Mapping[str, float], quotas: Quotas) -> Iterator[Shortage]:
    """The resources of which no flavor has enough, each with the flavor that has the most of it."""
    for resource, amount_needed in needed.items():
        found = {flavor: quota for (name, flavor), quota in quotas.items() if name == resource}
        if not found or any(quota.is_shared or quota.free >= amount_needed for quota in found.values()):
            continue
        flavor, quota = max(found.items(), key=lambda each: each[1].free)
        yield _with_quota(Shortage(resource=resource, flavor=flavor, needed=amount_needed), quota)


def _number(quantity: object) -> float:
    return float(amount(quantity) or 0)
