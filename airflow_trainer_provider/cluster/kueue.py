"""Kueue's Workloads: by them it decides when a job runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.store import by_label
from airflow_trainer_provider.cluster.watch import Watch
from airflow_trainer_provider.kinds.base import Manifest, Resource
from airflow_trainer_provider.kinds.events import queued_by_kueue

WORKLOADS = Resource("kueue.x-k8s.io/v1beta1", "Workload", "workloads")
_JOB_UID = "kueue.x-k8s.io/job-uid"


async def workloads_of(cluster: Cluster, objects: Iterable[Manifest]) -> list[Manifest]:
    """The Workloads of those objects that carry the name of a queue; none where the cluster has no Kueue.

    :param objects: a job's.
    """
    queued = [each["metadata"] for each in objects if queued_by_kueue(each)]
    if not queued or not await cluster.serves(WORKLOADS):
        return []
    found = []
    for metadata in queued:
        label = f"{_JOB_UID}={metadata['uid']}"
        found += (await cluster.client.list(WORKLOADS, metadata["namespace"], label_selector=label)).items
    return found


async def workloads_watch(cluster: Cluster, namespace: str) -> Watch | None:
    """The watch of a namespace's Workloads, found by the uid of the object that each is for; None without Kueue."""
    if not await cluster.serves(WORKLOADS):
        return None
    return cluster.watches.of(WORKLOADS, namespace, _JOB_UID, by_label(_JOB_UID))


async def all_workloads(cluster: Cluster, namespace: str) -> Mapping[str, Sequence[Manifest]]:
    """The Workloads of a namespace, by the uid of the object that each is for.

    :param namespace: where to look.
    """
    found: dict[str, list[Manifest]] = defaultdict(list)
    if await cluster.serves(WORKLOADS):
        for workload in (await cluster.client.list(WORKLOADS, namespace, label_selector=_JOB_UID)).items:
            found[workload["metadata"]["labels"][_JOB_UID]].append(workload)
    return found
