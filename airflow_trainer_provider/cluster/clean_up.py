"""Deletes kept jobs that no task needs any more, and the objects that interrupted submits left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta, timezone

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.describe import job_statuses
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import annotation, identity_of, is_being_ended, is_unowned_part
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.job.backend import CleanedUp, CleanUp
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.kinds.base import Manifest, Resource
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.pod_end import parse_time

#: The longest time that a submit may take, whatever the cluster answers.
_SUBMIT = timedelta(hours=1)


async def clean_up(cluster: Cluster, kinds: Iterable[Kind], namespace: str, wanted: CleanUp) -> list[CleanedUp]:
    """Delete the jobs and objects that are wanted, or only find them.

    :param cluster: where they are.
    :param kinds: jobs of these kinds.
    :param namespace: where to look.
    :param wanted: which jobs and objects.
    :return: what was deleted, or would be.
    """
    served = await cluster.served(kinds)
    selector = ",".join(filter(None, (labels.OURS, wanted.selector)))
    found = []
    for job, status in await job_statuses(cluster, served, namespace, selector):
        # Where a job's pods are gone, the time of its end may be unknown.
        ended_at = status.finished_at or status.queued_at
        is_wanted = ended_at < wanted.before and wanted.is_of(identity_of(job.main))
        if is_wanted and _is_over(job, status) and (wanted.list_only or await _delete_job(cluster, job)):
            found.append(
                CleanedUp(job.kind.key, job.name, namespace, ended_at, status.phase, identity_of(job.main)),
            )
    async for resource, part in _leftovers(cluster, served, namespace, wanted, selector):
        metadata = part["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if wanted.list_only or await cluster.client.delete(resource, namespace, name, uid=uid):
            found.append(CleanedUp(resource.kind, name, namespace, _created_at(part)))
    return found


def _is_over(job: JobObject, status: JobStatus) -> bool:
    """Whether a job has ended, and no task waits for it."""
    is_safe = any(job.annotation(name) is not None for name in (labels.COLLECTED, labels.RELEASED))
    return status.phase.ended and is_safe and not is_being_ended(job.main)


async def _delete_job(cluster: Cluster, job: JobObject) -> bool:
    """Delete a job, unless it is gone or has changed since it was read."""
    version = job.main["metadata"]["resourceVersion"]
    try:
        return await cluster.client.delete(job.resource, job.namespace, job.name, uid=job.uid, resource_version=version)
    except ApiError as error:
        if not error.is_conflict:
            raise
        return False


async def _leftovers(
    cluster: Cluster, kinds: Iterable[Kind], namespace: str, wanted: CleanUp, selector: str
) -> AsyncIterator[tuple[Resource, Manifest]]:
    """The objects that were created before a main object which does not exist.

    Objects that are created after the main object have an owner from the start.
    """
    before = min(wanted.before, datetime.now(timezone.utc) - _SUBMIT)
    for kind in kinds:
        for resource in kind.creation.before:
            for part in (await cluster.client.list(resource, namespace, label_selector=selector)).items:
                job = part["metadata"]["labels"].get(labels.JOB)
                if not (job and _is_part(part, wanted.deployment) and _created_at(part) < before):
                    continue
                if await cluster.client.get_or_none(kind.resource, namespace, job) is None:
                    yield resource, part


def _is_part(part: Manifest, deployment: str) -> bool:
    """Whether an object is a part of a job of this Airflow, and not yet owned by the job's main object."""
    return is_unowned_part(part) and annotation(part, labels.DEPLOYMENT) == deployment


def _created_at(part: Manifest) -> datetime:
    return parse_time(part["metadata"]["creationTimestamp"])
