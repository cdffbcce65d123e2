"""What people want to see of the jobs on a cluster."""

from __future__ import annotations

from collections import defaultdict

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.kueue import all_workloads
from airflow_trainer_provider.cluster.manage import ClusterJob, jobs
from airflow_trainer_provider.cluster.objects import annotation, groups_of, identity_of
from airflow_trainer_provider.cluster.view import View, warnings_of
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis import Diagnosis
from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.job.verdict import verdict
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import PODS, Manifest, Resource


async def overviews(cluster: Cluster, namespace: str, backend: str | None = None) -> list[Overview]:
    """How all jobs of a namespace stand, the oldest first, with a few requests for all of them.

    Why a job has no pods is told by :func:`describe` only.

    :param backend: only jobs of this backend's kinds; None for all.
    """
    found = await jobs(cluster, namespace, backend)
    parts: dict[tuple[Resource, str], dict[str, list[Manifest]]] = {}
    for kind in {job.kind.key: job.kind for job in found}.values():
        for resource, label in ((PODS, kind.pod_label), *((child, labels.JOB) for child in kind.children)):
            if (resource, label) not in parts:
                parts[resource, label] = await _by_label(cluster, resource, namespace, label)
    workloads = await all_workloads(cluster, namespace) if found else {}
    shown = []
    for job in found:
        children = [child for resource in job.kind.children for child in parts[resource, labels.JOB].get(job.name, ())]
        pods = parts[PODS, job.kind.pod_label].get(job.name, ())
        queued = [each for part in (job.main, *children) for each in workloads.get(part["metadata"]["uid"], ())]
        view = View(job.kind, job.main, pods, children=children, workloads=queued)
        shown.append(_overview(job, view.status()))
    return shown


async def describe(cluster: Cluster, job: ClusterJob) -> Description:
    """All that is known of a job, and why it failed where it has.

    :param job: as it was found.
    """
    view = await View.read(cluster, job.kind, job.main)
    status = view.status()
    return Description(
        overview=_overview(job, status),
        conditions=tuple((job.main.get("status") or {}).get("conditions") or ()),
        warnings=tuple([_warning(event) for event in await warnings_of(cluster, job.main)]),
        diagnosis=await _diagnosis(cluster, job, status),
    )


async def _by_label(cluster: Cluster, resource: Resource, namespace: str, label: str) -> dict[str, list[Manifest]]:
    """The objects that carry a label, by its value."""
    found: dict[str, list[Manifest]] = defaultdict(list)
    for item in (await cluster.client.list(resource, namespace, label_selector=label)).items:
        found[item["metadata"]["labels"][label]].append(item)
    return found


def _overview(job: ClusterJob, status: JobStatus) -> Overview:
    return Overview(
        name=job.name,
        kind=job.kind.key,
        backend=job.backend,
        location=job.namespace,
        framework=annotation(job.main, labels.FRAMEWORK) or _only(job.kind.frameworks),
        status=status,
        replicas=sum(groups_of(job.kind, job.main).values()),
        identity=identity_of(job.main) if annotation(job.main, labels.IDENTITY) else None,
    )


async def _diagnosis(cluster: Cluster, job: ClusterJob, status: JobStatus) -> Diagnosis | None:
    framework = annotation(job.main, labels.FRAMEWORK) or _only(job.kind.frameworks) or ""
    backend = ClusterBackend(job.backend, cluster, job.namespace)
    return await verdict(backend, job.handle(cluster.connection.id), get_framework(framework), status)


def _only(names: frozenset[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def _warning(event: Manifest) -> tuple[str, str]:
    at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    involved, times = event["involvedObject"], event.get("count") or 1
    again = f" ({times} times)" if times > 1 else ""
    text = f"{involved.get('kind')} {involved.get('name')}: {event.get('reason')}: {event.get('message')}{again}"
    return str(at), " ".join(text.split())
