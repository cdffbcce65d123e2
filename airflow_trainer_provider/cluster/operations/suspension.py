"""Suspends jobs, and resumes them."""

from __future__ import annotations

import asyncio
import time

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.wait import Remaining, has_ended, names_of, pods_of, wait_until_gone
from airflow_trainer_provider.cluster.queues.kueue import WORKLOADS, is_active
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.kueue import workloads_of
from airflow_trainer_provider.errors import ManageError
from airflow_trainer_provider.kinds.base import Manifest, Resource
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.events import queued_by_kueue

#: How long Kueue may take to make a new job's Workload, in seconds.
_WORKLOAD_SECONDS = 10.0
_LOOK_SECONDS = 0.5


async def suspend(cluster: Cluster, job: JobObject) -> None:
    """Stop a job's pods and keep the job.

    Kueue starts an admitted job again when another client suspends it. So where an object carries the name of a queue,
    its Workload is deactivated instead, and Kueue suspends the job itself.

    :param cluster: where the job is.
    :param job: the job.
    :raises ManageError: Kueue has no Workload for the job.
    """
    await _set_suspended(cluster, job, suspended=True)


async def resume(cluster: Cluster, job: JobObject) -> None:
    """Resume a suspended job once the pods of its previous run are gone.

    :param cluster: where the job is.
    :param job: the job.
    :raises ManageError: Kueue has no Workload for the job, or its pods are not gone in time.
    """
    # A controller counts a terminating pod from the previous run as failed.
    await wait_until_stopped(cluster, job)
    await _set_suspended(cluster, job, suspended=False)


async def is_suspended(cluster: Cluster, job: JobObject) -> bool:
    """Whether the job is suspended by request, in whole or in part. A queue that holds a job does not count."""
    for _, each in await _parts(cluster, job):
        workloads = await workloads_of(cluster, [each])
        held = any(not is_active(workload) for workload in workloads)
        if held or (not workloads and _has(each, job.kind.suspension.patch(True))):
            return True
    return False


async def wait_until_stopped(cluster: Cluster, job: JobObject) -> None:
    """Wait until a job is suspended, and none of its pods is running or terminating.

    :raises ManageError: its pods have not gone in time.
    """

    async def look() -> Remaining | None:
        parts = await _parts(cluster, job)
        pods = [pod for pod in await pods_of(cluster, job) if _is_there(pod)]
        if pods:
            return Remaining(f"pods {names_of(pods)} are still there", pods)
        if all(_has(each, job.kind.suspension.patch(True)) for _, each in parts):
            return None
        return Remaining("its controller has not taken it up")

    if left := await wait_until_gone(look):
        raise ManageError(f"Training job {job.name} in namespace {job.namespace} has not stopped: {left}.")


async def _set_suspended(cluster: Cluster, job: JobObject, *, suspended: bool) -> None:
    for resource, each in await _parts(cluster, job):
        if queued_by_kueue(each) and await cluster.serves(WORKLOADS):
            await _activate(cluster, each, not suspended)
        else:
            patch = job.kind.suspension.patch(suspended)
            await cluster.client.patch(resource, job.namespace, each["metadata"]["name"], patch)


async def _parts(cluster: Cluster, job: JobObject) -> list[tuple[Resource, Manifest]]:
    """The objects that have to be suspended to suspend the job, as they are now."""
    if not job.kind.suspension.of_children:
        main = await cluster.client.get_or_none(job.resource, job.namespace, job.name)
        return [] if main is None else [(job.resource, main)]
    selector = f"{labels.JOB}={job.name}"
    return [
        (resource, child)
        for resource in job.kind.children
        for child in (await cluster.client.list(resource, job.namespace, label_selector=selector)).items
        if not _finished(child)
    ]


async def _activate(cluster: Cluster, managed: Manifest, active: bool) -> None:
    deadline = time.monotonic() + _WORKLOAD_SECONDS
    while not (workloads := await workloads_of(cluster, [managed])):
        if time.monotonic() > deadline:
            raise ManageError(
                f"{managed['kind']} {managed['metadata']['name']} carries the name of a queue, and Kueue has no "
                "Workload for it: see whether Kueue runs, and manages its kind."
            )
        await asyncio.sleep(_LOOK_SECONDS)
    for workload in workloads:
        metadata = workload["metadata"]
        await cluster.client.patch(WORKLOADS, metadata["namespace"], metadata["name"], {"spec": {"active": active}})


def _is_there(pod: Manifest) -> bool:
    return not has_ended(pod) or "deletionTimestamp" in pod["metadata"]


def _has(value: Manifest, patch: Manifest) -> bool:
    """Whether a merge patch would change nothing."""
    return all(
        _has(value.get(name) or {}, wanted) if isinstance(wanted, dict) else value.get(name) == wanted
        for name, wanted in patch.items()
    )


def _finished(child: Manifest) -> bool:
    conditions = child.get("status", {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
