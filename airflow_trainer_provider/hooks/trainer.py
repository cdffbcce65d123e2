"""The hook: selects the backend by Airflow's configuration and connections, and calls it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_trainer_provider.errors import (
    BackendUnavailable,
    ConnectionUnreadable,
    JobLost,
    JobTimeout,
    Problem,
    SpecError,
)
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.hooks.backends import (
    AUTO,
    CLUSTER_BACKENDS,
    DEFAULT_CONNECTION,
    LOCAL,
    JobPlace,
    check_backend,
    make_registered,
)
from airflow_trainer_provider.hooks.connection import aget_cluster_connection, choose_namespace, reread
from airflow_trainer_provider.hooks.jobs import Located, choose, clean_up, get, overviews, search, where
from airflow_trainer_provider.hooks.loop import at_end
from airflow_trainer_provider.hooks.masking import masked
from airflow_trainer_provider.hooks.reports import Reports
from airflow_trainer_provider.hooks.settings import Settings, load_settings
from airflow_trainer_provider.job.backend import Backend, CleanedUp, CleanUp, MainObject, Wanted
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.job.overview import Overview
from airflow_trainer_provider.job.plan.plan import Plan
from airflow_trainer_provider.job.progress.tracker import Tracker
from airflow_trainer_provider.job.result import failed_figures, summarize
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec import parse_field
from airflow_trainer_provider.spec.values.names import Namespace
from airflow_trainer_provider.spec.values.words import Text

if TYPE_CHECKING:
    # The modules for clusters are imported where they are used: the local backend does not need them.
    from airflow_trainer_provider.cluster.access.connection import ClusterConnection
    from airflow_trainer_provider.cluster.cluster import Cluster

#: How many of the last log lines are searched for the traceback of a failure.
_SEARCHED_LINES = 400
#: Seconds for which a connection may be unreadable before a call that needs it fails.
_UNREADABLE_SECONDS = 300.0
#: Seconds between two attempts to read a connection, at first and at most.
_READ_FIRST = 1.0
_READ_MOST = 30.0


@dataclass(frozen=True)
class Choice:
    """The backend for a job.

    :param backend: the backend that runs the job.
    :param why: the reason for the choice; None if the user named the backend.
    """

    backend: Backend
    why: str | None = None


class TrainerHook(BaseHook):
    """Gives access to training backends, as configured in this Airflow. Await its coroutines in one event loop.

    :param backend: one of :data:`~airflow_trainer_provider.hooks.backends.BACKENDS`, a backend that another package has
        registered, or ``auto``; None uses ``[trainer] backend``.
    :param kubernetes_conn_id: the connection to the cluster.
    :param namespace: the namespace for new jobs. None uses the connection's, else ``[trainer] namespace``.
    :param read_connection: reads a connection in this process.
    :raises SpecError: a parameter has an invalid value.
    """

    def __init__(
        self,
        backend: str | None = None,
        kubernetes_conn_id: str | None = DEFAULT_CONNECTION,
        namespace: str | None = None,
        read_connection: Callable[[str], Awaitable[ClusterConnection]] = aget_cluster_connection,
    ) -> None:
        super().__init__()
        self._name = parse_field("backend", Text, backend)
        self._kubernetes_conn_id = parse_field("kubernetes_conn_id", Text, kubernetes_conn_id) or DEFAULT_CONNECTION
        self._namespace = parse_field("namespace", Namespace, namespace)
        self._read_connection = read_connection
        # One object for each backend, since a backend remembers the last state of an ended job.
        self._backends: dict[tuple[str, str, str | None], Backend] = {}

    @classmethod
    def for_job(cls, handle: JobHandle) -> TrainerHook:
        """The hook for the backend that a job runs on.

        :param handle: the job's handle, which also has the job's location.
        """
        return cls(_backend_name(handle))

    @cached_property
    def settings(self) -> Settings:
        """The options of ``[trainer]``."""
        return load_settings()

    @cached_property
    def name(self) -> str:
        """The backend's name, or ``auto``.

        :raises SpecError: there is no backend with this name.
        """
        name = self._name or self.settings.backend
        check_backend("backend", name)
        return name

    async def namespace(self) -> str | None:
        """The namespace in which a new job would be created; None if it would run on this machine."""
        return None if self.name == LOCAL else self._namespace or await self._usual_namespace()

    def place(self, backend: Backend) -> JobPlace:
        """The place of a backend's jobs, independent of later changes to the settings.

        :param backend: one of this hook's backends.
        """
        if backend.name == LOCAL:
            return JobPlace(LOCAL, None, None)
        # The namespace that the connection named when the backend was created takes precedence.
        namespace = backend.namespace or self._namespace
        return JobPlace(backend.name, self._kubernetes_conn_id, namespace)

    async def choose(self, job: Plan) -> Choice:
        """The backend for a job; ``auto`` asks the cluster.

        :param job: the job to run.
        :raises SpecError: there is no backend with this name.
        :raises BackendUnavailable: there is no connection to a cluster, or the cluster has no backend for the job.
        """
        backends = await self.backends()
        return Choice(*await choose(backends, job)) if self.name == AUTO else Choice(backends[0])

    async def backends(self) -> list[Backend]:
        """The backends that may have this hook's jobs, in order of preference; for ``auto`` all backends of a cluster.

        :raises BackendUnavailable: there is no connection to a cluster.
        """
        names = CLUSTER_BACKENDS if self.name == AUTO else (self.name,)
        return [await self._backend(name, self._kubernetes_conn_id, self._namespace) for name in names]

    async def search(self, wanted: Wanted) -> list[JobHandle]:
        """The existing jobs that match; see :func:`~airflow_trainer_provider.hooks.jobs.search`.

        :param wanted: which jobs to find.
        """
        return await search(await self.backends(), wanted)

    async def get(self, name: str, kind: str | None = None) -> Located:
        """The job with a name; see :func:`~airflow_trainer_provider.hooks.jobs.get`.

        :param name: the job's name.
        :param kind: the job's kind; None for any kind.
        """
        return await get(await self.backends(), name, kind)

    async def overviews(self) -> list[Overview]:
        """The statuses of all jobs, the oldest first."""
        return await overviews(await self.backends())

    async def clean_up(
        self, older_than: timedelta, selector: str | None = None, *, list_only: bool = False
    ) -> list[CleanedUp]:
        """Delete this Airflow's jobs that no task needs any more, and the objects of its interrupted submits.

        :param older_than: the minimum time since a job's end, or since an object's creation.
        :param selector: a Kubernetes label selector; None for all jobs.
        :param list_only: only list the jobs and objects, and delete nothing.
        :raises SpecError: neither ``[trainer] deployment`` nor ``[api] base_url`` identifies this Airflow.
        """
        # Airflows without an identifier that share a namespace would delete each other's jobs.
        if not self.settings.deployment and self.name != LOCAL:
            fix = "Set it, or [api] base_url: not to localhost, which any Airflow may have."
            raise SpecError([Problem("[trainer] deployment", "", "a name of this Airflow", fix)])
        before = datetime.now(timezone.utc) - older_than
        return await clean_up(await self.backends(), CleanUp(self.settings.deployment, before, selector, list_only))

    async def where(self) -> str:
        """The searched places, as messages name them."""
        return where(await self.backends())

    async def render(self, job: Plan, identity: Identity) -> str:
        """The whole job as text. Only backend ``auto`` sends requests to the cluster.

        :param job: the job to render.
        :param identity: the task that the job would belong to.
        """
        if self.name not in CLUSTER_BACKENDS:
            return (await self.choose(job)).backend.render(job, identity)
        await _import_cluster()
        namespace = self._namespace or await self._usual_namespace()
        return self._unconnected(self.name, namespace).render(job, identity)

    def main_object(self, handle: JobHandle) -> MainObject | None:
        """The Kubernetes object that represents a job, as the job's handle identifies it; None if there is none.

        :param handle: the job.
        """
        return self._unconnected(_backend_name(handle), "").main_object(handle)

    async def backend_of(self, handle: JobHandle, *, timeout: float = _UNREADABLE_SECONDS) -> Backend:
        """The backend that a job runs on, regardless of this hook's own parameters.

        The job was submitted over a connection that existed: if it cannot be read, it is read again for a while.

        :param handle: the job.
        :param timeout: how many seconds to wait for the connection.
        :raises ConnectionUnreadable: the connection could not be read in time.
        """
        name = _backend_name(handle)
        if name not in CLUSTER_BACKENDS:
            return await self._backend(name, "", None)
        await _import_cluster()
        from airflow_trainer_provider.cluster.state.job_object import ClusterLocation

        _, namespace, conn_id = ClusterLocation.of(handle)
        if (name, conn_id, namespace) not in self._backends:
            await self._connection(conn_id, has_existed=True, timeout=timeout)
        return await self._backend(name, conn_id, namespace)

    async def wait(
        self,
        handle: JobHandle,
        *,
        emit: Callable[[str], None],
        reader: str | None,
        deadline: datetime | None,
        startup_timeout: float | None = None,
        only_until: Collection[JobPhase] | None = None,
        reports: Reports | None = None,
    ) -> JobOutcome:
        """Wait for a job's end; see :func:`~airflow_trainer_provider.job.follow.follow`.

        ``[trainer] log_replicas`` selects the replicas whose lines are emitted.

        :param only_until: the phases in which the wait for a job created outside Airflow succeeds; None for a job of
            this provider, which has to succeed.
        :param reports: writes the job's progress during the wait; None writes nothing.
        :return: the complete outcome, since the job's objects may be deleted soon.
        """
        wanted = self.settings.log_replicas
        backend = await self._backend_by(deadline, handle)
        reporter = reports.reporter(handle) if reports else None
        status = await follow(
            backend,
            handle,
            emit=emit,
            reader=None if wanted == "none" else reader,
            deadline=deadline,
            startup_timeout=startup_timeout,
            leader_only=wanted == "leader",
            only_until=only_until,
            reporter=reporter,
        )
        good = (JobPhase.SUCCEEDED,) if only_until is None else only_until
        tracker = reporter.tracker if reporter else None
        return (await self.outcome(handle, status, good, tracker)).masked(masked)

    async def _backend_by(self, deadline: datetime | None, handle: JobHandle) -> Backend:
        """Call :meth:`backend_of`, which may take as long as the wait itself."""
        left = math.inf if deadline is None else (deadline - datetime.now(timezone.utc)).total_seconds()
        try:
            return await self.backend_of(handle, timeout=left)
        except ConnectionUnreadable as error:
            raise JobTimeout(f"Training job {handle.name} had not ended by {deadline}: {error}") from error

    async def outcome(
        self,
        handle: JobHandle,
        status: JobStatus,
        good: Collection[JobPhase] = (JobPhase.SUCCEEDED,),
        tracker: Tracker | None = None,
    ) -> JobOutcome:
        """The outcome of a job.

        :param handle: the job.
        :param status: its last status.
        :param good: the phases that are not a failure.
        :param tracker: the tracker of the job's progress; None if the progress was not followed.
        """
        if status.phase not in good:
            if status.phase is JobPhase.SUCCEEDED:
                wanted = ", ".join(sorted(phase.value for phase in good))
                message = f"it succeeded, but the wait was for the phase {wanted}"
                status = status.model_copy(update={"reason": "Succeeded", "message": message})
            figures = failed_figures(status, tracker)
            return JobOutcome(failure=await self._diagnosis(handle, status), failed_figures=figures)
        result = await (await self.backend_of(handle)).result(handle)
        return JobOutcome(summary=summarize(handle, status, result, tracker))

    async def has_ended(self, handle: JobHandle) -> bool:
        """Whether a job has ended.

        :param handle: the job.
        """
        return (await (await self.backend_of(handle)).status(handle)).phase.ended

    async def acknowledge(self, handle: JobHandle) -> None:
        """Acknowledge that the outcome has reached XCom.

        See :meth:`~airflow_trainer_provider.job.backend.Backend.acknowledge`.

        :param handle: the job.
        """
        await (await self.backend_of(handle)).acknowledge(handle)

    async def release(self, handle: JobHandle) -> None:
        """Mark that no task waits for the job; see :meth:`~airflow_trainer_provider.job.backend.Backend.release`.

        :param handle: the job.
        """
        await (await self.backend_of(handle)).release(handle)

    async def cancel(self, handle: JobHandle, reason: str) -> None:
        """Ask a job to end; see :meth:`~airflow_trainer_provider.job.backend.Backend.cancel`.

        :param handle: the job.
        :param reason: the reason that the job's status will show.
        """
        await (await self.backend_of(handle)).cancel(handle, reason)

    async def cancel_task(
        self, identity: Identity, reason: str, handle: JobHandle | None = None, *, spare_released: bool = False
    ) -> None:
        """Ask the jobs of a task to end, even if other tasks wait for them.

        :param identity: the task and the try.
        :param reason: the reason that the jobs' status will show.
        :param handle: a job of the task, whose backend also has the task's other jobs. None searches the backends of
            this hook. The handle of another task's job ends nothing, since users can edit XCom.
        :param spare_released: do not end released jobs, which outlive their task.
        """
        for backend in [await self.backend_of(handle)] if handle else await self.backends():
            found = {each.uid: each for each in await backend.find(identity)}
            # A component with other settings computes a different identity, and then does not find the job by it.
            if handle and handle.uid not in found and await _is_of(backend, handle, identity):
                found[handle.uid] = handle
            for each in found.values():
                if not (spare_released and await backend.is_released(each)):
                    await backend.cancel(each, reason)

    async def end_earlier(self, identity: Identity) -> None:
        """End the jobs of a task on this hook's backends, and wait until none of their processes is left.

        :param identity: the task, and the try that starts its job elsewhere.
        :raises SubmitError: a later try has one of the jobs, or a job does not end.
        """
        for backend in await self.backends():
            await backend.end_earlier(identity)

    async def _backend(self, name: str, conn_id: str, namespace: str | None) -> Backend:
        key = (name, conn_id, namespace)
        if key not in self._backends:
            made = await self._make(*key)
            # Another caller may have created the backend meanwhile.
            self._backends.setdefault(key, made)
        return self._backends[key]

    def _unconnected(self, name: str, namespace: str) -> Backend:
        """A backend without a connection to a cluster, to check and render jobs, and to read handles."""
        if name not in CLUSTER_BACKENDS:
            return self._without_cluster(name, "", None)
        from airflow_trainer_provider.cluster.backend import ClusterBackend

        return ClusterBackend(name, None, namespace)

    def _without_cluster(self, name: str, conn_id: str, namespace: str | None) -> Backend:
        settings = self.settings
        if name == LOCAL:
            return LocalBackend(settings.local_root, settings.poll_interval, settings.local_keep)
        return make_registered(name, conn_id, namespace)

    async def _make(self, name: str, conn_id: str, namespace: str | None) -> Backend:
        settings = self.settings
        if name not in CLUSTER_BACKENDS:
            return self._without_cluster(name, conn_id, namespace)
        await _import_cluster()
        from airflow_trainer_provider.cluster.backend import ClusterBackend
        from airflow_trainer_provider.cluster.logs.streams import LogStreams

        LogStreams.limit = settings.log_streams
        cluster = await self._cluster(conn_id)
        return ClusterBackend(name, cluster, choose_namespace(namespace, cluster.connection, settings.namespace))

    async def _cluster(self, conn_id: str) -> Cluster:
        from airflow_trainer_provider.cluster.cluster import Cluster

        at_end(Cluster.close_all)
        # Not a method: a bound method would keep this hook, and all its data, alive as long as the cluster object.
        return await Cluster.of(await self._connection(conn_id), partial(reread, self._read_connection, conn_id))

    async def _usual_namespace(self) -> str:
        try:
            connection = await self._connection(self._kubernetes_conn_id)
        except BackendUnavailable:
            return self.settings.namespace
        return choose_namespace(None, connection, self.settings.namespace)

    async def _connection(
        self, conn_id: str, *, has_existed: bool = False, timeout: float = _UNREADABLE_SECONDS
    ) -> ClusterConnection:
        """Read a connection, and retry while Airflow or its secrets backends do not answer.

        :param has_existed: whether a job was submitted over this connection. Then a connection that is missing or
            invalid counts as an outage too.
        :param timeout: how many seconds to retry.
        """
        deadline, pause, is_known = time.monotonic() + timeout, _READ_FIRST, False
        while True:
            try:
                return await self._read_once(conn_id, has_existed=has_existed)
            except ConnectionUnreadable as error:
                unreadable = error
            if time.monotonic() + pause > deadline:
                raise unreadable
            if not is_known:
                self.log.warning("%s It is read again; a job that runs goes on.", unreadable)
            is_known = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, _READ_MOST)

    async def _read_once(self, conn_id: str, *, has_existed: bool) -> ClusterConnection:
        try:
            return await self._read_connection(conn_id)
        except AirflowNotFoundException:
            if has_existed:
                raise ConnectionUnreadable(conn_id, "Airflow finds no connection of this id") from None
            raise self._no_connection(conn_id) from None
        except BackendUnavailable as error:
            if has_existed:
                raise ConnectionUnreadable(conn_id, str(error)) from error
            raise

    def _no_connection(self, conn_id: str) -> BackendUnavailable:
        return BackendUnavailable(
            f"backend={self.name!r} looks for a cluster, and there is no connection {conn_id!r}. "
            "Training on the worker's own machine is never chosen silently. To train on the worker's own machine, "
            "say so: backend='local' in the operator, or [trainer] backend = local in Airflow's configuration."
        )

    async def _diagnosis(self, handle: JobHandle, status: JobStatus) -> Diagnosis:
        replica = status.first_failed or (status.replicas[0].name if status.replicas else None)
        log = await self._log_tail(handle, replica) if replica else []
        shown_lines = self.settings.failure_log_lines
        return diagnose(handle.name, get_framework(handle.framework), status, log, shown_lines, masked)

    async def _log_tail(self, handle: JobHandle, replica: str) -> list[str]:
        try:
            return await (await self.backend_of(handle)).log_tail(handle, replica, _SEARCHED_LINES)
        except Exception as error:
            # Pods may be deleted with their logs, or a disk may fail. The diagnosis is then made without lines.
            self.log.warning("No last lines of %s of training job %s: %s", replica, handle.name, error)
            return []


async def _is_of(backend: Backend, handle: JobHandle, identity: Identity) -> bool:
    """Whether a job belongs to the task, or to the same task of another deployment."""
    try:
        recorded = await backend.task_of(handle)
    except JobLost:
        return False
    return recorded is not None and recorded.task_instance == identity.task_instance


def _backend_name(handle: JobHandle) -> str:
    """The name of a job's backend, validated: the handle comes from XCom, which users and tasks can write."""
    check_backend("job.backend", handle.backend, fix="Pass the handle that an operator made.", auto=False)
    return handle.backend


#: The module for clusters, once it has been imported.
_imported: list[ModuleType] = []


async def _import_cluster() -> None:
    """Import the module for clusters in a thread. The import takes tenths of a second and must not block the loop."""
    if not _imported:
        _imported.append(await asyncio.to_thread(import_module, "airflow_trainer_provider.cluster.backend"))
