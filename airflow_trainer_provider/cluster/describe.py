"""Overviews and descriptions of the jobs on a cluster, for users."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.find import jobs
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.kueue import all_workloads
from airflow_trainer_provider.cluster.state.objects import identity_of
from airflow_trainer_provider.cluster.state.own_pods import own_pods
from airflow_trainer_provider.cluster.state.snapshot import Snapshot, events_of
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.diagnosis.readable import message
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.job.verdict import verdict
from airflow_trainer_provider.kinds.base import PODS, Manifest, Resource
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.events import WARNINGS
from airflow_trainer_provider.text.mask import Mask


async def overviews(cluster: Cluster, kinds: Iterable[Kind], namespace: str) -> list[Overview]:
    """Overviews of all jobs of a namespace, the oldest first, read with a few requests.

    Only :func:`describe` shows why a job has no pods.

    :param cluster: where they are.
    :param kinds: of these kinds.
    :param namespace: where to look.
    """
    return sorted(
        (_overview(job, status) for job, status in await job_statuses(cluster, kinds, namespace)),
        key=lambda overview: overview.status.queued_at,
    )


async def job_statuses(
    cluster: Cluster, kinds: Iterable[Kind], namespace: str, selector: str = ""
) -> list[tuple[JobObject, JobStatus]]:
    """All jobs of a namespace with their statuses, read with a few requests.

    :param cluster: where they are.
    :param kinds: of these kinds.
    :param namespace: where to look.
    :param selector: a label selector of their main objects; empty for all.
    """
    found = await jobs(cluster, kinds, namespace, selector)
    parts = await _parts(cluster, namespace, {job.kind.key: job.kind for job in found}.values())
    workloads = await all_workloads(cluster, namespace) if found else {}
    shown = []
    for job in found:
        children = [child for resource in job.kind.children for child in parts[resource, labels.JOB].get(job.name, ())]
        pods = own_pods(job, parts[PODS, job.kind.pod_label].get(job.name, ()))
        queued = [each for part in (job.main, *children) for each in workloads.get(part["metadata"]["uid"], ())]
        snapshot = Snapshot(job, pods, children=children, workloads=queued)
        shown.append((job, snapshot.status()))
    return shown


async def _parts(
    cluster: Cluster, namespace: str, kinds: Iterable[Kind]
) -> dict[tuple[Resource, str], dict[str, list[Manifest]]]:
    """Pods and children of all jobs of some kinds: by resource and label, and then by job."""
    parts: dict[tuple[Resource, str], dict[str, list[Manifest]]] = {}
    for kind in kinds:
        for resource, label in ((PODS, kind.pod_label), *((child, labels.JOB) for child in kind.children)):
            if (resource, label) not in parts:
                parts[resource, label] = await _by_label(cluster, resource, namespace, label)
    return parts


async def describe(backend: Backend, cluster: Cluster, handle: JobHandle, job: JobObject) -> Description:
    """All that is known of a job, and why it failed where it has.

    :param backend: which reads its last lines.
    :param cluster: where it is.
    :param handle: of the job.
    :param job: as it was read.
    """
    snapshot = await Snapshot.read(cluster, job, why=True)
    status, mask = snapshot.status(), snapshot.mask()
    conditions: list[Manifest] = (job.main.get("status") or {}).get("conditions") or []
    return Description(
        overview=_overview(job, status),
        conditions=tuple(_condition(each, mask) for each in conditions),
        warnings=tuple([_warning(event, mask) for event in await events_of(cluster, job, [WARNINGS])]),
        diagnosis=await verdict(backend, handle, get_framework(job.framework or ""), status),
    )


async def _by_label(cluster: Cluster, resource: Resource, namespace: str, label: str) -> dict[str, list[Manifest]]:
    """The objects that carry a label, by its value."""
    found: dict[str, list[Manifest]] = defaultdict(list)
    for item in (await cluster.client.list(resource, namespace, label_selector=label)).items:
        found[item["metadata"]["labels"][label]].append(item)
    return found


def _overview(job: JobObject, status: JobStatus) -> Overview:
    return Overview(
        name=job.name,
        kind=job.kind.key,
        backend=job.backend,
        location=job.namespace,
        framework=job.framework,
        status=status,
        replicas=sum(job.groups.values()),
        identity=identity_of(job.main),
    )


def _condition(condition: Manifest, mask: Mask) -> Manifest:
    return {name: mask.text(message(value)) if isinstance(value, str) else value for name, value in condition.items()}


def _warning(event: Manifest, mask: Mask) -> tuple[str, str]:
    at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    involved, times = event["involvedObject"], event.get("count") or 1
    again = f" ({times} times)" if times > 1 else ""
    text = f"{involved.get('kind')} {involved.get('name')}: {event.get('reason')}: {event.get('message')}{again}"
    return str(at), mask.text(" ".join(message(text).split()))
