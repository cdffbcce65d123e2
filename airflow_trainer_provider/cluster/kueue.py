"""Kueue's Workloads: by them it decides when a job runs."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.kinds.base import Manifest, Resource
from airflow_trainer_provider.kinds.events import queued_by_kueue

WORKLOADS = Resource("kueue.x-k8s.io/v1beta1", "Workload", "workloads")


async def workloads_of(cluster: Cluster, objects: Iterable[Manifest]) -> list[Manifest]:
    """The Workloads of those objects that carry the name of a queue; none where the cluster has no Kueue.

    :param objects: a job's.
    """
    queued = [each["metadata"] for each in objects if queued_by_kueue(each)]
    if not queued or not await cluster.serves(WORKLOADS):
        return []
    found = []
    for metadata in queued:
        label = f"kueue.x-k8s.io/job-uid={metadata['uid']}"
        found += (await cluster.client.list(WORKLOADS, metadata["namespace"], label_selector=label)).items
    return found
