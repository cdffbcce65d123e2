"""What people and tasks do with jobs that are there: find, suspend, resume and delete them, and look at them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.find import Wanted, find
from airflow_trainer_provider.cluster.groups import with_groups
from airflow_trainer_provider.cluster.objects import annotation, handle_of, is_ours, location_of
from airflow_trainer_provider.cluster.suspension import is_suspended, until_stopped
from airflow_trainer_provider.cluster.suspension import suspend as suspend_pods
from airflow_trainer_provider.cluster.view import View
from airflow_trainer_provider.errors import ApiError, JobLost, ManageError
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import PODS, Kind, Manifest
from airflow_trainer_provider.kinds.registry import BACKENDS, KINDS

_NOT_FOUND = 404
_CONFLICT = 409
#: How long a deleted job's pods may take beyond their grace period, in seconds.
_GONE_SECONDS = 60.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class ClusterJob:
    """A job on a cluster, whoever made it.

    :param backend: the backend of its kind.
    :param kind: of its main object.
    :param main: its main object, as it was last seen.
    """

    backend: str
    kind: Kind
    main: Manifest

    @property
    def name(self) -> str:
        """Its name, which another job of another kind may have as well."""
        return str(self.main["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Where it is."""
        return str(self.main["metadata"]["namespace"])

    def __str__(self) -> str:
        return f"{self.kind.key} {self.name} in namespace {self.namespace}"

    def handle(self, connection_id: str) -> JobHandle:
        """What a backend finds it by.

        :param connection_id: of the connection by which it is reached.
        """
        return handle_of(self.backend, self.kind, self.main, connection_id)


async def jobs(cluster: Cluster, namespace: str, backend: str | None = None) -> list[ClusterJob]:
    """All jobs of a namespace, the oldest first: also those that something else made.

    :param cluster: which is asked.
    :param namespace: where to look.
    :param backend: only jobs of this backend's kinds; None for all. Kinds that the cluster does not have are left out.
    """
    found = []
    for name in [backend] if backend else BACKENDS:
        for kind in BACKENDS[name]:
            if await cluster.serves(kind.resource):
                # Whether a Job that something else made trains anything, nobody knows.
                selector = "" if kind.resource.crd else labels.OURS
                listing = await cluster.client.list(kind.resource, namespace, label_selector=selector)
                found += [ClusterJob(name, kind, main) for main in listing.items if _stands_for_a_job(kind, main)]
    return sorted(found, key=lambda job: str(job.main["metadata"]["creationTimestamp"]))


async def get(
    cluster: Cluster, namespace: str, name: str, *, backend: str | None = None, kind: str | None = None
) -> ClusterJob:
    """The job of a name.

    :param backend: of the job; None for any.
    :param kind: of the job, as Kubernetes calls it or by its key; None for any.
    :raises SpecError: there is no such kind.
    :raises JobLost: there is no such job.
    :raises ManageError: there are several, of different kinds.
    """
    wanted = Wanted(name=name, kind=kind, every=True)
    found = [each for each in await find(cluster, namespace, wanted) if backend in (None, each.backend)]
    if not found:
        which = f" of backend {backend}" if backend else ""
        raise JobLost(f"There is no {wanted}{which} in namespace {namespace}.")
    if len(found) > 1:
        several = ", ".join(location_of(handle)[0] for handle in found)
        message = f"There are {len(found)} jobs called {name} in namespace {namespace}: say which kind, of {several}."
        raise ManageError(message, retryable=False)
    return await of_handle(cluster, found[0])


async def of_handle(cluster: Cluster, handle: JobHandle) -> ClusterJob:
    """The job that a handle names.

    :raises JobLost: it is gone.
    """
    key, namespace, _ = location_of(handle)
    main = await _read(cluster, KINDS[key], namespace, handle.name)
    if main is None or main["metadata"]["uid"] != handle.uid:
        who = "another job has its name now" if main else f"namespace {namespace} has no {key} of its name"
        raise JobLost(f"Training job {handle.name} is gone: {who}.")
    return ClusterJob(handle.backend, KINDS[key], await with_groups(cluster, KINDS[key], main))


async def suspend(cluster: Cluster, job: ClusterJob, *, wait: bool = True) -> bool:
    """Stop the job's pods and keep the job. Whoever waits for it goes on waiting.

    :param wait: until the pods are gone.
    :return: False where it was suspended already.
    :raises ManageError: it has ended, or its pods do not go.
    """
    already = await is_suspended(cluster, job.kind, job.main)
    if not already:
        await _refuse_ended(cluster, job, "suspended")
        await suspend_pods(cluster, job.kind, job.main, True)
    if wait:
        await until_stopped(cluster, job.kind, job.main)
    return not already


async def resume(cluster: Cluster, job: ClusterJob) -> bool:
    """Let a suspended job go on, once its pods of before are gone. Its pods are new ones, which begin anew.

    A job that was suspended because its task was killed goes on as well; the task's next try adopts it.

    :return: False where it is not suspended.
    :raises ManageError: it has ended, or its pods do not go.
    """
    if not await is_suspended(cluster, job.kind, job.main):
        await _refuse_ended(cluster, job, "resumed")
        return False
    await until_stopped(cluster, job.kind, job.main)
    if annotation(job.main, labels.CANCELLED) is not None:
        # Only now: until its pods are gone it was cancelled, and whoever waits for it has to see that.
        patch = {"metadata": {"uid": job.main["metadata"]["uid"], "annotations": {labels.CANCELLED: None}}}
        await cluster.client.patch(job.kind.resource, job.namespace, job.name, patch)
    await suspend_pods(cluster, job.kind, job.main, False)
    return True


async def until_running(cluster: Cluster, job: ClusterJob) -> JobStatus:
    """Wait until all replicas run, or the job has ended.

    :return: how it stands then.
    :raises JobLost: it is gone.
    """
    backend = ClusterBackend(job.backend, cluster, job.namespace)
    statuses = cast("AsyncGenerator[JobStatus, None]", backend.watch(job.handle(cluster.connection.id)))
    async with aclosing(statuses):
        async for status in statuses:
            if status.phase is JobPhase.RUNNING or status.phase.ended:
                return status
    raise JobLost(f"Training job {job.name} is gone.")


async def delete(cluster: Cluster, job: ClusterJob, reason: str, *, wait: bool = False) -> bool:
    """Delete the job with all that belongs to it.

    :param reason: what whoever waits for it is told.
    :param wait: until its pods are gone.
    :return: False where it is gone already, or another job has its name.
    :raises ManageError: its pods do not go.
    """
    uid = job.main["metadata"]["uid"]
    if is_ours(job.main) and annotation(job.main, labels.CANCELLED) is None:
        patch = {"metadata": {"uid": uid, "annotations": {labels.CANCELLED: reason}}}
        try:
            await cluster.client.patch(job.kind.resource, job.namespace, job.name, patch)
        except ApiError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise
            return False
    # In the background: a controller that sees its job's parts go before the job would make them again.
    deleted = await cluster.client.delete(job.kind.resource, job.namespace, job.name, uid=uid)
    if deleted and wait:
        await _until_gone(cluster, job)
    return deleted


def _stands_for_a_job(kind: Kind, main: Manifest) -> bool:
    return bool(kind.resource.crd) or annotation(main, labels.IDENTITY) is not None


async def _read(cluster: Cluster, kind: Kind, namespace: str, name: str) -> Manifest | None:
    try:
        return await cluster.client.get(kind.resource, namespace, name)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return None
        raise


async def _refuse_ended(cluster: Cluster, job: ClusterJob, what: str) -> None:
    status = (await View.read(cluster, job.kind, job.main)).status()
    if status.phase.ended:
        message = f"Training job {job.name} has ended ({status.phase.value}): it cannot be {what}."
        raise ManageError(message, retryable=False)


async def _until_gone(cluster: Cluster, job: ClusterJob) -> None:
    uid, patience = job.main["metadata"]["uid"], None
    while True:
        main = await _read(cluster, job.kind, job.namespace, job.name)
        there = main is not None and main["metadata"]["uid"] == uid
        selector = f"{job.kind.pod_label}={job.name}"
        pods = (await cluster.client.list(PODS, job.namespace, label_selector=selector)).items
        if not there and not pods:
            return
        if patience is None:
            grace = max((float(pod["spec"].get("terminationGracePeriodSeconds") or 0) for pod in pods), default=0.0)
            patience = time.monotonic() + grace + _GONE_SECONDS
        if time.monotonic() > patience:
            left = [pod["metadata"]["name"] for pod in pods] or [str(job)]
            raise ManageError(f"Training job {job.name} is deleted, and not gone yet: {', '.join(left)}.")
        await asyncio.sleep(_LOOK_SECONDS)
