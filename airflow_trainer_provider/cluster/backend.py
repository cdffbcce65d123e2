"""The cluster backends: jobs as objects of Kubernetes. One class for all; what differs is in the kinds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from dataclasses import replace

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.end import end, finish
from airflow_trainer_provider.cluster.follow_logs import JobLogs
from airflow_trainer_provider.cluster.groups import carried_over, with_groups
from airflow_trainer_provider.cluster.live import LiveView, live_view
from airflow_trainer_provider.cluster.log_place import LogPlace
from airflow_trainer_provider.cluster.logs import lines_of
from airflow_trainer_provider.cluster.objects import (
    handle_of,
    is_being_ended,
    is_ours,
    is_rendered,
    location_of,
    owner_of,
)
from airflow_trainer_provider.cluster.order import Order, manifest_order, order_of
from airflow_trainer_provider.cluster.render import render
from airflow_trainer_provider.cluster.submit import Submitter, jobs_of
from airflow_trainer_provider.cluster.suspension import suspend
from airflow_trainer_provider.cluster.view import View, lost, parts_of, was_cancelled
from airflow_trainer_provider.errors import ApiError, BackendUnavailable, JobLost, Problem, UnsupportedField
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.backend import LogLine, Submission
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.result import read_result
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Facts, Kind, Manifest
from airflow_trainer_provider.kinds.manifest import ManifestJob
from airflow_trainer_provider.kinds.pod import check_pod_template
from airflow_trainer_provider.kinds.registry import BACKENDS, KINDS, kind_for
from airflow_trainer_provider.kinds.trimmed import trimmed

_NOT_FOUND = 404
#: The version of objects that an API server need not ask its database for.
_IN_MEMORY = "0"
#: How long the survivors of an ended job are waited for beyond their grace period, in seconds.
_SURVIVE_SECONDS = 15.0


class ClusterBackend:
    """Jobs as objects of Kubernetes.

    :param name: one of :data:`~airflow_trainer_provider.kinds.registry.BACKENDS`.
    :param cluster: where they run; None only checks and renders.
    :param namespace: in which namespace new ones are made.
    """

    def __init__(self, name: str, cluster: Cluster | None, namespace: str) -> None:
        self.name = name
        self._cluster = cluster
        self._namespace = namespace
        # An ended job's pods may go at any time; what was seen of them at its end stays.
        self._ended: dict[str, View] = {}
        # What its runtime says of a job's replicas is asked for once.
        self._known: dict[str, Manifest] = {}
        self._logs: dict[str, JobLogs] = {}
        self._places: dict[tuple[str, str], LogPlace] = {}

    def check(self, job: Job | ManifestJob) -> None:
        """Refuse what the kind of the job's framework cannot express; a manifest says itself what it can."""
        kind = kind_for(self.name, job)
        if isinstance(job, Job):
            check_pod_template(job)
            kind.check(job)
        ttl = job.spec.run_policy.ttl_seconds_after_finished
        if ttl is not None and (kind.ttl is None or job.spec.on_finish_action == "delete"):
            allowed = "no value, unless the job is kept and its kind has such a time"
            fix = "Drop it: on_finish_action decides what becomes of the job."
            if kind.ttl:
                fix = "Set on_finish_action to 'keep' or 'delete_succeeded' as well."
            field = "run_policy.ttl_seconds_after_finished"
            raise UnsupportedField(self.name, Problem(field, ttl, allowed, fix))

    def render(self, job: Job | ManifestJob, identity: Identity) -> str:
        """The job's objects as YAML. Creates nothing, and asks no cluster."""
        order = self._order(job, identity)
        return render(order.render(order.name, Facts()), self._namespace)

    async def submit(self, job: Job | ManifestJob, identity: Identity) -> Submission:
        """Start the job, or adopt what an earlier try of this task left."""
        order = self._order(job, identity)
        await self._ensure_served(order.kind)
        cluster = self._connected()
        kind, main, adopted = await Submitter(cluster, self._namespace, order).submit()
        return Submission(handle_of(self.name, kind, main, cluster.connection.id), adopted)

    async def find(self, identity: Identity) -> list[JobHandle]:
        """The jobs of this task that have not ended, and that no later try owns."""
        cluster = self._connected()
        kinds = [kind for kind in BACKENDS[self.name] if await cluster.serves(kind.resource)]
        handles = []
        for kind, main in await jobs_of(cluster, kinds, self._namespace, identity):
            ended = is_being_ended(main) or (await View.read(cluster, kind, main)).status().phase.ended
            if not ended and owner_of(main) <= identity.try_number:
                handles.append(handle_of(self.name, kind, main, cluster.connection.id))
        return handles

    async def status(self, handle: JobHandle) -> JobStatus:
        """How the job stands now."""
        return (await self._view(handle)).status()

    async def watch(self, handle: JobHandle) -> AsyncIterator[JobStatus]:
        """The job's status now and after each change, up to its end."""
        last = None
        with closing(await self._live(handle)) as live:
            while True:
                view = live.view()
                status = view.status()
                if live.is_gone or status.phase.ended:
                    yield await self._end(handle, live, view, status)
                    return
                if status != last:
                    last = status
                    yield status
                # Not kept while it waits: there may be thousands that do.
                del view, status
                await live.changed()

    async def logs(self, handle: JobHandle, reader: str, ended: asyncio.Event) -> AsyncIterator[LogLine]:
        """All lines of all replicas from where this reader left off, up to the job's end."""
        try:
            kind, main = await self._main(handle)
        except JobLost:
            # It went when it was ended; its pods may still be there.
            if handle.uid not in self._ended:
                raise
            kind, main = self._ended[handle.uid].kind, self._ended[handle.uid].main
        # On what is not ours nothing is written down: there, the place is kept here.
        place = None if is_ours(main) else self._places.setdefault((handle.uid, reader), LogPlace())
        logs = self._logs[handle.uid] = JobLogs(self._connected(), kind, main, reader, place=place)
        async with aclosing(lines_of(logs.blocks(ended))) as lines:
            async for line in lines:
                yield line

    async def log_tail(self, handle: JobHandle, replica: str, lines: int) -> list[str]:
        """The last lines of one replica."""
        view = await self._view(handle)
        cluster = self._connected()
        logs = self._logs.get(handle.uid) or JobLogs(cluster, view.kind, view.main, reader="")
        return await logs.tail(view, replica, lines)

    async def result(self, handle: JobHandle) -> bytes | None:
        """What rank 0 wrote, which Kubernetes keeps in the status of its pod."""
        view = await self._view(handle)
        # Rank 0 need not be in the first replica: the rendezvous of an elastic job gives the ranks out anew.
        for replica in view.status().replicas:
            for pod in reversed(view.pods_of(replica.name)):
                message = (_termination_message(pod) or "").encode()
                # What is somebody else's script may leave there, a result or not, is its own business.
                if message and (is_rendered(view.main) or read_result(message)[1] is None):
                    return message
        return None

    async def collected(self, handle: JobHandle) -> None:
        """Note that the outcome has reached XCom, and do what ``on_finish_action`` says."""
        cluster = self._connected()
        try:
            view = await self._view(handle)
            if not is_ours(view.main):
                return
            patch = {"metadata": {"annotations": {labels.COLLECTED: "true"}}}
            await cluster.client.patch(view.kind.resource, location_of(handle)[1], handle.name, patch)
            await finish(cluster, view.kind, view.main, succeeded=view.status().phase is JobPhase.SUCCEEDED)
        except (ApiError, JobLost) as error:
            # It is gone already, as after the end of a cancelled job.
            if not isinstance(error, JobLost) and error.status != _NOT_FOUND:
                raise

    async def cancel(self, handle: JobHandle, reason: str) -> bool:
        """Delete the job, or suspend it, unless a later try owns it by now."""
        cluster = self._connected()
        try:
            kind, main = await self._main(handle)
        except JobLost:
            return True
        if not is_ours(main):
            return False
        if (await View.read(cluster, kind, main)).status().phase.ended:
            return owner_of(main) == handle.owner
        return await end(cluster, kind, main, reason, handle.owner)

    def _order(self, job: Job | ManifestJob, identity: Identity) -> Order:
        kind = kind_for(self.name, job)
        if isinstance(job, Job):
            return order_of(kind, self._namespace, job, identity)
        return manifest_order(job, self._namespace, identity)

    async def _end(self, handle: JobHandle, live: LiveView, view: View, status: JobStatus) -> JobStatus:
        """The last status: of a job that has ended, and none of whose pods runs any more."""
        if live.is_gone and not status.phase.ended and not was_cancelled(view.main):
            raise lost(view.main)
        cluster = self._connected()
        if view.kind.suspend_children and not live.is_gone:
            await suspend(cluster, view.kind, view.main, True)
        patience = time.monotonic() + _SURVIVE_SECONDS + _grace(view)
        while any(_runs(pod) for pod in live.view().pods) and (left := patience - time.monotonic()) > 0:
            await live.wait(left)
        last = live.view()
        if not live.is_gone:
            # The watch of the pods may lag behind that of the job. What the API server has in its memory is enough
            # where it agrees that all have ended.
            pods, children = await parts_of(cluster, view.kind, last.main, not_older_than=_IN_MEMORY)
            if any(_runs(pod) for pod in pods) or len(pods) < len(last.pods):
                pods, children = await parts_of(cluster, view.kind, last.main)
            there = {pod["metadata"]["uid"] for pod in pods}
            gone = [*last.gone, *(pod for pod in last.pods if pod["metadata"]["uid"] not in there)]
            last = replace(last, pods=pods, gone=gone, children=children)
        self._ended[handle.uid] = last
        return last.status()

    async def _live(self, handle: JobHandle) -> LiveView:
        key, namespace, _ = location_of(handle)

        async def read() -> Manifest:
            return trimmed((await self._main(handle))[1])

        # What is somebody else's no try owns.
        ours = handle.owner > 0
        return await live_view(self._connected(), KINDS[key], namespace, handle.name, handle.uid, ours=ours, read=read)

    async def _view(self, handle: JobHandle) -> View:
        if handle.uid in self._ended:
            return self._ended[handle.uid]
        kind, main = await self._main(handle)
        return await View.read(self._connected(), kind, main)

    async def _main(self, handle: JobHandle) -> tuple[Kind, Manifest]:
        key, namespace, _ = location_of(handle)
        kind = KINDS[key]
        try:
            main = await self._connected().client.get(kind.resource, namespace, handle.name)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            message = (
                f"Training job {handle.name} is gone: namespace {namespace} has no {kind.resource.kind} of its name."
            )
            raise JobLost(message) from error
        if main["metadata"]["uid"] != handle.uid:
            raise JobLost(f"Training job {handle.name} is gone: another job has its name now.")
        known = self._known.get(handle.uid)
        main = carried_over(known, main) if known else await with_groups(self._connected(), kind, main)
        self._known[handle.uid] = trimmed(main)
        return kind, main

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


def _grace(view: View) -> float:
    return max((float(pod["spec"].get("terminationGracePeriodSeconds") or 0) for pod in view.pods), default=0.0)


def _runs(pod: Manifest) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _termination_message(pod: Manifest) -> str | None:
    """What the training's container wrote to its result, where it succeeded."""
    container = pod["spec"]["containers"][0]["name"]
    for status in pod.get("status", {}).get("containerStatuses") or ():
        terminated = status.get("state", {}).get("terminated") or {}
        if status["name"] == container and terminated.get("exitCode") == 0:
            return terminated.get("message") or None
    return None
