"""The cluster backends: jobs as objects of Kubernetes. One class serves all backends; the kinds differ."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing, suppress
from functools import partial

from airflow_trainer_provider.cluster.clean_up import clean_up
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.describe import describe, overviews
from airflow_trainer_provider.cluster.logs.cursor import LogCursor
from airflow_trainer_provider.cluster.logs.follow import JobLogs
from airflow_trainer_provider.cluster.logs.job_logs import lines_of
from airflow_trainer_provider.cluster.logs.replay import Replayed
from airflow_trainer_provider.cluster.operations import manage
from airflow_trainer_provider.cluster.operations.end import end, finish
from airflow_trainer_provider.cluster.operations.find import find
from airflow_trainer_provider.cluster.operations.last_status import is_confirmed, read_last
from airflow_trainer_provider.cluster.operations.order import Order, manifest_order, order_of
from airflow_trainer_provider.cluster.operations.render import render
from airflow_trainer_provider.cluster.operations.submit import Submitter
from airflow_trainer_provider.cluster.operations.task_jobs import end_earlier, is_later, jobs_of
from airflow_trainer_provider.cluster.result import result_of
from airflow_trainer_provider.cluster.show_logs import show_logs
from airflow_trainer_provider.cluster.state.groups import job_object
from airflow_trainer_provider.cluster.state.job_object import ClusterLocation, JobObject
from airflow_trainer_provider.cluster.state.objects import (
    annotated,
    identity_of,
    is_being_deleted,
    is_cancelled,
    is_ours,
    is_rendered,
    is_suspended_on_kill,
    owner_of,
)
from airflow_trainer_provider.cluster.state.snapshot import Snapshot, expired, lost
from airflow_trainer_provider.cluster.state.watcher import JobWatcher, watch_job
from airflow_trainer_provider.errors import ApiError, BackendUnavailable, JobLost
from airflow_trainer_provider.functions.frames import Frames
from airflow_trainer_provider.job.backend import (
    Admit,
    CleanedUp,
    CleanUp,
    LogBlock,
    LogLine,
    LogSelection,
    MainObject,
    Submission,
    Support,
    Tracked,
    Wanted,
)
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.job.plan.plan import JobPlan, Plan
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds.base import Facts, Manifest
from airflow_trainer_provider.kinds.kept import check_kept
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.objects.pod_check import check_pod_template
from airflow_trainer_provider.kinds.registry import BACKENDS, kind_for, kinds_called
from airflow_trainer_provider.kinds.trimmed import trimmed

log = logging.getLogger(__name__)

#: Stands for the task of a job that is only checked.
_UNKNOWN_TASK = Identity(dag_id="dag", run_id="run", task_id="task")


class ClusterBackend:
    """Jobs as objects of Kubernetes.

    :param name: one of :data:`~airflow_trainer_provider.kinds.registry.BACKENDS`.
    :param cluster: where they run; None only checks and renders.
    :param namespace: in which new jobs are created.
    """

    # Slots save memory: each waiting job has a backend.
    __slots__ = ("_cluster", "_cursors", "_ended", "_known", "_logs", "name", "namespace")

    can_suspend = True

    def __init__(self, name: str, cluster: Cluster | None, namespace: str) -> None:
        self.name = name
        self._cluster = cluster
        self.namespace = namespace
        # By uid, the snapshots of ended jobs at their end: the pods may be deleted at any time.
        self._ended: dict[str, Snapshot] = {}
        # By uid, the jobs that were read: the number of replicas in a job's runtime is read only once.
        self._known: dict[str, JobObject] = {}
        self._logs: dict[str, JobLogs] = {}
        self._cursors: dict[tuple[str, str], LogCursor] = {}

    def check(self, job: Plan) -> None:
        """Refuse fields that the kind of the job's framework cannot express, and objects that no cluster accepts."""
        kind = kind_for(self.name, job)
        if isinstance(job, JobPlan):
            check_pod_template(job)
            assert kind.renderer is not None, "a kind that carries a framework has a renderer"
            kind.renderer.check(job)
        check_kept(self.name, kind, job)
        # Some mistakes only show in the rendered objects, above all their size.
        order = self._order(job, _UNKNOWN_TASK)
        order.render(order.name, Facts())

    def render(self, job: Plan, identity: Identity) -> str:
        """The job's objects as YAML. Creates nothing, and asks no cluster."""
        order = self._order(job, identity)
        return render(order.render(order.name, Facts()), self.namespace)

    async def support(self, job: Plan) -> Support:
        """Whether the kind of the job's framework is installed."""
        resource = kind_for(self.name, job).resource
        if await self._connected().serves(resource):
            return Support(True, f"{resource.kind} is installed")
        # MPIJob has one CRD in two versions, of different controllers.
        version = resource.api_version.rpartition("/")[2]
        return Support(False, f"CRD {resource.crd} is not installed in version {version}")

    async def submit(self, job: Plan, identity: Identity, *, start: int = 1, admit: Admit | None = None) -> Submission:
        """Start the job, or adopt what an earlier try of this task left."""
        order = self._order(job, identity, admit)
        await self._ensure_served(order.kind)
        cluster = self._connected()
        found, adopted = await Submitter(cluster, self.namespace, order, start).submit()
        return Submission(found.handle(cluster.connection.id), adopted)

    async def end_earlier(self, identity: Identity) -> None:
        """End the jobs of earlier tries in the namespace, of all kinds."""
        await end_earlier(self._connected(), self.namespace, identity)

    async def find(self, identity: Identity) -> list[JobHandle]:
        """The jobs of this task that have not ended, and that no later try owns; half-cancelled ones too."""
        cluster = self._connected()
        kinds = await cluster.served(BACKENDS[self.name])
        handles = []
        for job in await jobs_of(cluster, kinds, self.namespace, identity):
            if is_later(job, identity) or is_being_deleted(job.main):
                continue
            if _is_half_cancelled(job) or not (await Snapshot.read(cluster, job)).status().phase.ended:
                handles.append(job.handle(cluster.connection.id))
        return handles

    async def task_of(self, handle: JobHandle) -> Identity | None:
        """The task that the main object's annotation names."""
        return identity_of((await self._job(handle)).main)

    async def status(self, handle: JobHandle) -> JobStatus:
        """The job's status now."""
        snapshot = await self._snapshot(handle, why=True)
        return self._connected().client.clock.here(snapshot.status())

    async def watch(self, handle: JobHandle) -> AsyncIterator[JobStatus]:
        """The job's status now and after each change, up to its end."""
        last = None
        with closing(await self._watcher(handle)) as watcher:
            while True:
                snapshot = watcher.snapshot()
                status = self._connected().client.clock.here(snapshot.status())
                if watcher.is_gone or status.phase.ended:
                    if await is_confirmed(self._connected(), watcher, snapshot):
                        ended = self._ended[handle.uid] = await read_last(self._connected(), watcher, snapshot)
                        await self._write_disruption(ended)
                        yield ended.status()
                        return
                elif status != last:
                    last = status
                    yield status
                await self._bound_restarts(snapshot)
                await self._write_disruption(snapshot)
                # Free the memory during the wait: thousands of jobs may wait.
                del snapshot, status
                await watcher.changed()

    async def logs(
        self, handle: JobHandle, reader: str, ended: asyncio.Event, tracked: Tracked | None = None
    ) -> AsyncIterator[LogLine]:
        """All lines of all replicas from where this reader left off, up to the job's end."""
        try:
            job = await self._job(handle)
        except JobLost:
            # The main object was deleted when the job was ended; its pods may still exist.
            if handle.uid not in self._ended:
                raise
            job = self._ended[handle.uid].job
        # Nothing is written to jobs that this provider did not create: their cursors are kept here.
        cursor = None if is_ours(job.main) else self._cursors.setdefault((handle.uid, reader), LogCursor())
        progress = Replayed(handle.leader, tracked.since) if tracked else None
        frames = self._frames_of(handle)
        logs = JobLogs(self._connected(), job, reader, cursor=cursor, tracked=progress, frames=frames)
        self._logs[handle.uid] = logs
        async with aclosing(lines_of(logs.blocks(ended))) as lines:
            async for line in lines:
                yield line

    async def log_tail(self, handle: JobHandle, replica: str, lines: int) -> list[str]:
        """The last lines of one replica."""
        snapshot = await self._snapshot(handle)
        cluster = self._connected()
        logs = self._logs.get(handle.uid) or JobLogs(cluster, snapshot.job, reader="")
        return await logs.tail(snapshot, replica, lines)

    async def result(self, handle: JobHandle) -> bytes | None:
        """The result that rank 0 wrote: from the status of its pod, or, for a function's large value, from its log."""
        return await result_of(self._connected().client, await self._snapshot(handle), self._frames_of(handle))

    async def acknowledge(self, handle: JobHandle) -> None:
        """Note that the outcome has reached XCom, and do what ``on_finish_action`` says."""
        try:
            snapshot = await self._snapshot(handle)
            if _is_suspended_for_next_try(snapshot.job, snapshot.status().phase):
                return
            job = await self._note(handle, labels.COLLECTED)
            if job is not None:
                succeeded = snapshot.status().phase is JobPhase.SUCCEEDED
                await finish(self._connected(), job, succeeded=succeeded)
        except (ApiError, JobLost) as error:
            # The job is gone already, as a cancelled one is after its end.
            if not isinstance(error, JobLost) and not error.is_not_found:
                raise

    async def _note(self, handle: JobHandle, name: str) -> JobObject | None:
        """Set an annotation of the main object, unless another try owns the job: that try decides what happens to it.

        :return: the job; None where another try owns it.
        :raises JobLost: it is gone.
        """
        while True:
            job = await self._job(handle)
            # A try that has lost contact with Airflow runs on for a while, and a later one may adopt the job at any
            # moment.
            if not is_ours(job.main) or owner_of(job.main) != handle.owner:
                return None
            patch = annotated(job.main, {name: "true"})
            try:
                await self._connected().client.patch(job.resource, job.namespace, job.name, patch)
                return job
            except ApiError as error:
                if not (error.is_conflict or error.is_not_found):
                    raise

    async def release(self, handle: JobHandle) -> None:
        """Note that the job outlives its task."""
        await self._note(handle, labels.RELEASED)

    async def is_released(self, handle: JobHandle) -> bool:
        """Whether the job outlives its task."""
        try:
            job = await self._job(handle)
        except JobLost:
            return False
        return job.annotation(labels.RELEASED) is not None

    async def cancel(self, handle: JobHandle, reason: str, *, resumable: bool = True) -> bool:
        """Delete the job, or suspend it, unless a later try owns it by now.

        A job that has failed meanwhile, e.g. by its own deadline, is finished as ``on_finish_action`` says. A job that
        has succeeded is kept: its result may still be collected. A job that is suspended for the next try stays
        suspended, unless ``resumable`` is False.
        """
        cluster = self._connected()
        try:
            job = await self._job(handle)
        except JobLost:
            return True
        if not is_ours(job.main):
            return False
        if _is_half_cancelled(job):
            return await end(cluster, job, reason, handle.owner, resumable=resumable)
        phase = (await Snapshot.read(cluster, job)).status().phase
        is_suspended = _is_suspended_for_next_try(job, phase)
        if not phase.ended or (is_suspended and not resumable):
            return await end(cluster, job, reason, handle.owner, resumable=resumable)
        if owner_of(job.main) > handle.owner:
            return False
        if not is_suspended and phase is not JobPhase.SUCCEEDED and job.annotation(labels.COLLECTED) is None:
            await finish(cluster, job, succeeded=False)
            # The last step, so that an interrupted end is done again. From then on no task collects the outcome.
            with suppress(JobLost):
                await self._note(handle, labels.COLLECTED)
        return True

    def title(self, handle: JobHandle) -> str:
        """Kind, name and namespace."""
        kind, namespace, _ = ClusterLocation.of(handle)
        return f"{kind.key} {handle.name} in namespace {namespace}"

    def main_object(self, handle: JobHandle) -> MainObject:
        """The main object, as the handle has it."""
        kind, namespace, conn_id = ClusterLocation.of(handle)
        return MainObject(conn_id, namespace, kind.resource.kind, kind.resource.full_name, handle.name)

    def where(self) -> str:
        """The namespace."""
        return f"in namespace {self.namespace}"

    async def search(self, wanted: Wanted) -> list[JobHandle]:
        """The jobs of this backend's kinds that match a search."""
        cluster, meant = self._connected(), kinds_called(wanted.kind)
        kinds = [kind for kind in BACKENDS[self.name] if kind in meant]
        return [job.handle(cluster.connection.id) for job in await find(cluster, kinds, self.namespace, wanted)]

    async def overviews(self) -> list[Overview]:
        """Overviews of all jobs of this backend's kinds, read with a few requests."""
        return await overviews(self._connected(), BACKENDS[self.name], self.namespace)

    async def describe(self, handle: JobHandle) -> Description:
        """All that is known of a job."""
        return await describe(self, self._connected(), handle, await self._job(handle))

    async def show_logs(self, handle: JobHandle, selection: LogSelection) -> AsyncGenerator[LogBlock, None]:
        """A job's log lines, for a user."""
        blocks = show_logs(self, self._connected(), handle, await self._job(handle), selection)
        async with aclosing(blocks):
            async for block in blocks:
                yield block

    async def suspend(self, handle: JobHandle, *, wait: bool = True) -> str:
        """Stop the job's pods and keep the job."""
        changed = await manage.suspend(self._connected(), await self._job(handle), wait=wait)
        return f"Suspended {self.title(handle)}." if changed else f"The {self.title(handle)} was suspended already."

    async def resume(self, handle: JobHandle) -> str:
        """Resume a suspended job, with new pods."""
        changed = await manage.resume(self._connected(), await self._job(handle))
        return f"Resumed {self.title(handle)}." if changed else f"The {self.title(handle)} is not suspended."

    async def delete(self, handle: JobHandle, reason: str, *, wait: bool = True) -> str:
        """Delete a job with all that belongs to it."""
        deleted = await manage.delete(self._connected(), await self._job(handle), reason, wait=wait)
        return f"Deleted {self.title(handle)}." if deleted else f"The {self.title(handle)} is gone already."

    async def clean_up(self, wanted: CleanUp) -> list[CleanedUp]:
        """Delete jobs of this backend's kinds that no task needs any more, and the objects that interrupted submits
        left.
        """
        return await clean_up(self._connected(), BACKENDS[self.name], self.namespace, wanted)

    async def close(self) -> None:
        """Close the connections to the cluster. Other backends on it share them."""
        if self._cluster is not None:
            await self._cluster.close()

    def _order(self, job: Plan, identity: Identity, admit: Admit | None = None) -> Order:
        kind = kind_for(self.name, job)
        if isinstance(job, JobPlan):
            return order_of(kind, self.namespace, job, identity, admit)
        return manifest_order(job, self.namespace, identity)

    def _frames_of(self, handle: JobHandle) -> Frames:
        """The lines of the function's value that were seen in the job's logs."""
        return self._logs[handle.uid].frames if handle.uid in self._logs else Frames()

    async def _bound_restarts(self, snapshot: Snapshot) -> None:
        """Make a controller fail a job whose restarts are used up, where it would first restart the job once more."""
        job = snapshot.job
        patch = job.kind.controller.without_restart(job.main, snapshot.pods) if is_rendered(job.main) else None
        if patch:
            # Without the patch the controller ends that restart by itself, a little later.
            await self._refused_patch(job, patch)

    async def _write_disruption(self, snapshot: Snapshot) -> None:
        """Record on the main object which replicas were disrupted, for readers of the job once the pods are gone."""
        job = snapshot.job
        patch = snapshot.disruption() if is_ours(job.main) and not snapshot.deleted else None
        refused = await self._refused_patch(job, patch) if patch else None
        if refused and not refused.is_not_found:
            log.warning("That a pod of training job %s was taken away cannot be written on it: %s", job.name, refused)

    async def _refused_patch(self, job: JobObject, patch: Manifest) -> ApiError | None:
        """Patch a main object, and return the error where the patch is refused."""
        try:
            await self._connected().client.patch(job.resource, job.namespace, job.name, patch)
        except ApiError as error:
            return error
        return None

    async def _watcher(self, handle: JobHandle) -> JobWatcher:
        kind, namespace, _ = ClusterLocation.of(handle)
        read = partial(self._trimmed_job, handle)
        # Jobs created outside Airflow have no owning try.
        ours = handle.owner > 0
        return await watch_job(self._connected(), kind, namespace, handle.name, handle.uid, ours=ours, read=read)

    async def _snapshot(self, handle: JobHandle, *, why: bool = False) -> Snapshot:
        if handle.uid in self._ended:
            return self._ended[handle.uid]
        return await Snapshot.read(self._connected(), await self._job(handle), why=why)

    async def _trimmed_job(self, handle: JobHandle) -> JobObject:
        job = await self._job(handle)
        return job.at(trimmed(job.main))

    async def _job(self, handle: JobHandle) -> JobObject:
        """The job as it is now.

        :raises JobLost: it is gone.
        """
        kind, namespace, _ = ClusterLocation.of(handle)
        known = self._known.get(handle.uid)
        main = await self._connected().client.get_or_none(kind.resource, namespace, handle.name)
        if main is None:
            if known:
                raise lost(known)
            if handle.expires:
                raise expired(handle.name, kind, namespace)
            raise JobLost(
                f"Training job {handle.name} is gone: namespace {namespace} has no {kind.resource.kind} of its name."
            )
        if main["metadata"]["uid"] != handle.uid:
            raise JobLost(f"Training job {handle.name} is gone: another job has its name now.")
        job = known.at(main) if known else await job_object(self._connected(), kind, main)
        self._known[handle.uid] = job.at(trimmed(main))
        return job

    async def _ensure_served(self, kind: Kind) -> None:
        if await self._connected().serves(kind.resource):
            return
        installed = ", ".join(await self._connected().installed())
        raise BackendUnavailable(
            f"Backend {self.name!r} needs {kind.resource.kind} ({kind.resource.api_version}), and the cluster does not "
            f"have it: install the controller that brings the CRD {kind.resource.crd}, or use a backend that is there: "
            f"{installed}."
        )

    def _connected(self) -> Cluster:
        assert self._cluster is not None, "a backend without a cluster only checks and renders"
        return self._cluster


def _is_half_cancelled(job: JobObject) -> bool:
    """Whether the client that cancelled the job was interrupted before it deleted it."""
    return not is_suspended_on_kill(job.main) and is_cancelled(job.main) and not is_being_deleted(job.main)


def _is_suspended_for_next_try(job: JobObject, phase: JobPhase) -> bool:
    """Whether the job is kept for the next try of its task, which resumes it. The wait for it is over, but the job is
    not.
    """
    return phase is JobPhase.CANCELLED and is_suspended_on_kill(job.main) and not is_being_deleted(job.main)
