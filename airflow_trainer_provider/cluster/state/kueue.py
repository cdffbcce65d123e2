"""The Workloads of a job, and of a namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.informer.watch import Watch
from airflow_trainer_provider.cluster.queues.kueue import JOB_UID, WORKLOADS, workload_keys
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.events import queued_by_kueue


async def workloads_of(cluster: Cluster, objects: Iterable[Manifest]) -> list[Manifest]:
    """The Workloads of those objects that carry the name of a queue; none where the cluster has no Kueue.

    :param objects: those of a job.
    """
    queued = [each["metadata"] for each in objects if queued_by_kueue(each)]
    if not queued or not await cluster.serves(WORKLOADS):
        return []
    found = []
    for metadata in queued:
        label = f"{JOB_UID}={metadata['uid']}"
        found += (await cluster.client.list(WORKLOADS, metadata["namespace"], label_selector=label)).items
    return found


async def workloads_watch(cluster: Cluster, namespace: str) -> Watch | None:
    """The watch of a namespace's Workloads; None without Kueue.

    The watch finds a Workload by the uid of the object that it is for, and by its queue.
    """
    if not await cluster.serves(WORKLOADS):
        return None
    return cluster.watches.of(WORKLOADS, namespace, JOB_UID, workload_keys)


async def all_workloads(cluster: Cluster, namespace: str) -> Mapping[str, Sequence[Manifest]]:
    """The Workloads of a namespace, by the uid of the object that each is for.

    :param namespace: where to look.
    """
    found: dict[str, list[Manifest]] = defaultdict(list)
    if await cluster.serves(WORKLOADS):
        for workload in (await cluster.client.list(WORKLOADS, namespace, label_selector=JOB_UID)).items:
            found[workload["metadata"]["labels"][JOB_UID]].append(workload)
    return found
