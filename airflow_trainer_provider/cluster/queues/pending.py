"""The jobs that wait in a queue, in their order, from Kueue's visibility API."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.kinds.base import Manifest, Resource

#: The resource whose pending Workloads are requested. Kueue serves it, and the API server passes requests on.
_QUEUES = Resource("visibility.kueue.x-k8s.io/v1beta1", "LocalQueue", "localqueues")
#: The most Workloads that one answer lists.
MOST = 1000


class Pending(NamedTuple):
    """A job that waits.

    :param uid: of the object that the queue admits; None where Kueue names none.
    :param cluster_position: among the jobs that wait for the ClusterQueue, from 1.
    """

    uid: str | None
    cluster_position: int


class PendingJobs(NamedTuple):
    """The jobs that wait in a queue.

    :param jobs: the next one first.
    :param is_whole: whether these are all.
    """

    jobs: tuple[Pending, ...]
    is_whole: bool


async def pending_jobs(client: Client, namespace: str, queue: str) -> PendingJobs:
    """Ask for the jobs that wait in a queue.

    :param client: of the cluster.
    :param namespace: of the queue.
    :param queue: the name of the LocalQueue.
    """
    path = f"{_QUEUES.path(namespace, queue)}/pendingworkloads"
    found = (await client.get_once(path, limit=str(MOST))).get("items") or []
    # Kueue 0.14 also lists the Workloads of queues of the same name in other namespaces.
    here = [each for each in found if each["metadata"].get("namespace") == namespace]
    return PendingJobs(tuple(map(_pending, _in_order(here))), is_whole=len(found) < MOST)


def _in_order(items: list[Manifest]) -> list[Manifest]:
    """The items, with a fixed order of those that Kueue considers equal and lists in a different order each time."""
    ordered = []
    for _, equal in groupby(items, key=lambda each: (each.get("priority"), each["metadata"].get("creationTimestamp"))):
        group = list(equal)
        places = sorted(each["positionInClusterQueue"] for each in group)
        names = sorted(group, key=lambda each: str(each["metadata"]["name"]))
        ordered += [{**each, "positionInClusterQueue": at} for each, at in zip(names, places, strict=True)]
    return ordered


def _pending(item: Manifest) -> Pending:
    owners = item["metadata"].get("ownerReferences") or [{}]
    return Pending(owners[0].get("uid"), item["positionInClusterQueue"] + 1)
