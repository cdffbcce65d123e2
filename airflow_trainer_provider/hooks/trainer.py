"""The hook: finds the backend that Airflow's configuration and connections name, and talks to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_trainer_provider.errors import ApiError, BackendUnavailable, JobLost, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.hooks.backends import AUTO, BACKENDS, LOCAL
from airflow_trainer_provider.hooks.connection import aget_cluster_connection, choose_namespace
from airflow_trainer_provider.hooks.loop import at_end, run_aside
from airflow_trainer_provider.hooks.settings import Settings, load_settings
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.conclusion import Conclusion
from airflow_trainer_provider.job.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec.validation import choice

if TYPE_CHECKING:
    # What talks to clusters is imported where it is used: the local backend needs none of it.
    from airflow_trainer_provider.cluster.cluster import Cluster
    from airflow_trainer_provider.cluster.connection import ClusterConnection
    from airflow_trainer_provider.kinds.manifest import ManifestJob

#: The log lines that are searched for the traceback of a failure.
_SEARCHED_LINES = 400
#: How long a killed task waits until its request to end the job is noted.
_CANCEL_SECONDS = 4


@dataclass(frozen=True)
class Choice:
    """The backend for a job.

    :param backend: which runs it.
    :param why: why it is this one; None where it was named.
    """

    backend: Backend
    why: str | None = None


class TrainerHook(BaseHook):
    """A training backend, as this Airflow is set up. Its coroutines belong into one event loop.

    :param backend: one of :data:`~airflow_trainer_provider.hooks.backends.BACKENDS`, or ``auto``; None takes
        ``[trainer] backend``.
    :param kubernetes_conn_id: the connection to the cluster.
    :param namespace: where new jobs are made; None takes the connection's, and then ``[trainer] namespace``.
    :param read_connection: how a connection is read in this process.
    """

    def __init__(
        self,
        backend: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        namespace: str | None = None,
        read_connection: Callable[[str], Awaitable[ClusterConnection]] = aget_cluster_connection,
    ) -> None:
        super().__init__()
        self._name = backend
        self._kubernetes_conn_id = kubernetes_conn_id
        self._namespace = namespace
        self._read_connection = read_connection
        # One each: a backend remembers what it saw of a job at its end.
        self._backends: dict[tuple[str, str, str | None], Backend] = {}

    @classmethod
    def for_job(cls, handle: JobHandle) -> TrainerHook:
        """The hook for the backend that a job runs on.

        :param handle: the job; all else that is needed stands there too.
        """
        return cls(handle.backend)

    @cached_property
    def settings(self) -> Settings:
        """The options of ``[trainer]``."""
        return load_settings()

    @cached_property
    def name(self) -> str:
        """The backend's name, or ``auto``.

        :raises SpecError: there is none of that name.
        """
        name = self._name or self.settings.backend
        if name not in (AUTO, *BACKENDS):
            raise SpecError([choice("backend", name, (AUTO, *BACKENDS), "Use one of these.")])
        return name

    async def choose(self, job: Job | ManifestJob) -> Choice:
        """The backend for a job; ``auto`` asks the cluster.

        :param job: what is to run.
        :raises SpecError: there is no backend of that name.
        :raises BackendUnavailable: there is no connection to a cluster, or the cluster has no backend for the job.
        """
        if self.name != AUTO:
            return Choice(await self._backend(self.name, self._kubernetes_conn_id, self._namespace))
        from airflow_trainer_provider.hooks.choice import choose

        name, why = await choose(await self._cluster(self._kubernetes_conn_id), job)
        return Choice(await self._backend(name, self._kubernetes_conn_id, self._namespace), why)

    async def render(self, job: Job | ManifestJob, identity: Identity) -> str:
        """The whole job as text. A cluster is asked only where the backend is not named.

        :param job: what would run.
        :param identity: the task whose job it would be.
        """
        if self.name in (AUTO, LOCAL):
            return (await self.choose(job)).backend.render(job, identity)
        from airflow_trainer_provider.cluster.backend import ClusterBackend

        return ClusterBackend(self.name, None, self._namespace or await self._usual_namespace()).render(job, identity)

    async def place(self) -> tuple[Cluster, str]:
        """The cluster, and the namespace in it, where jobs are looked for by name."""
        cluster = await self._cluster(self._kubernetes_conn_id)
        return cluster, choose_namespace(self._namespace, cluster.connection, self.settings.namespace)

    async def backend_of(self, handle: JobHandle) -> Backend:
        """The backend that a job runs on, whatever this hook was made for.

        :param handle: the job.
        """
        if handle.backend == LOCAL:
            return await self._backend(LOCAL, "", None)
        from airflow_trainer_provider.cluster.objects import location_of

        _, namespace, conn_id = location_of(handle)
        return await self._backend(handle.backend, conn_id, namespace)

    async def wait(
        self,
        handle: JobHandle,
        *,
        emit: Callable[[str], None],
        reader: str | None,
        deadline: datetime | None,
        startup_timeout: float | None = None,
        only_until: Collection[JobPhase] | None = None,
    ) -> Conclusion:
        """Wait for a job's end; see :func:`~airflow_trainer_provider.job.follow.follow`.

        ``[trainer] log_replicas`` decides whose lines are told.

        :param only_until: phases that end the wait well, of a job that is somebody else's; None for a job of ours,
            which has to succeed.
        :return: what came of the job, all of it: its objects may be gone soon.
        """
        wanted = self.settings.log_replicas
        status = await follow(
            await self.backend_of(handle),
            handle,
            emit=emit,
            reader=None if wanted == "none" else reader,
            deadline=deadline,
            startup_timeout=startup_timeout,
            leader_only=wanted == "leader",
            only_until=only_until,
        )
        return await self.conclude(handle, status, (JobPhase.SUCCEEDED,) if only_until is None else only_until)

    async def conclude(
        self, handle: JobHandle, status: JobStatus, good: Collection[JobPhase] = (JobPhase.SUCCEEDED,)
    ) -> Conclusion:
        """What came of a job.

        :param handle: the job.
        :param status: its last status.
        :param good: the phases that are no failure.
        """
        if status.phase not in good:
            if status.phase is JobPhase.SUCCEEDED:
                wanted = ", ".join(sorted(phase.value for phase in good))
                message = f"it succeeded, and was waited for to be {wanted}"
                status = status.model_copy(update={"reason": "Succeeded", "message": message})
            return Conclusion(failure=await self._diagnosis(handle, status))
        result = await (await self.backend_of(handle)).result(handle)
        return Conclusion(summary=summarize(handle, status, result))

    async def collected(self, handle: JobHandle) -> None:
        """Note that the outcome has reached XCom; see :meth:`~airflow_trainer_provider.job.backend.Backend.collected`.

        :param handle: the job.
        """
        await (await self.backend_of(handle)).collected(handle)

    async def cancel(self, handle: JobHandle, reason: str) -> None:
        """Ask a job to end; see :meth:`~airflow_trainer_provider.job.backend.Backend.cancel`.

        :param handle: the job.
        :param reason: what the job's status will say.
        """
        await (await self.backend_of(handle)).cancel(handle, reason)

    def cancel_now(self, handle: JobHandle, reason: str) -> None:
        """Ask a job to end, from any thread, also from a signal handler.

        :param handle: the job.
        :param reason: what the job's status will say.
        """
        run_aside(self.cancel(handle, reason), _CANCEL_SECONDS)

    async def cancel_task(self, identity: Identity, reason: str, handle: JobHandle | None = None) -> None:
        """Ask the jobs of a task to end, whoever waits for them.

        :param identity: the task, and the try whose jobs are meant.
        :param reason: what the jobs' status will say.
        :param handle: a job that the task had: where it was, the others are. None looks where this hook would make one.
        """
        for backend in [await self.backend_of(handle)] if handle else await self._possible():
            for found in await backend.find(identity):
                await backend.cancel(found, reason)

    async def _possible(self) -> list[Backend]:
        """The backends on which a job may be that this hook has made."""
        names = [self.name]
        if self.name == AUTO:
            names = list(await (await self._cluster(self._kubernetes_conn_id)).installed())
        return [await self._backend(name, self._kubernetes_conn_id, self._namespace) for name in names]

    async def _backend(self, name: str, conn_id: str, namespace: str | None) -> Backend:
        key = (name, conn_id, namespace)
        if key not in self._backends:
            self._backends[key] = await self._make(*key)
        return self._backends[key]

    async def _make(self, name: str, conn_id: str, namespace: str | None) -> Backend:
        settings = self.settings
        if name == LOCAL:
            return LocalBackend(settings.local_root, settings.poll_interval, settings.local_keep)
        from airflow_trainer_provider.cluster.backend import ClusterBackend
        from airflow_trainer_provider.cluster.log_streams import LogStreams

        LogStreams.limit = settings.log_streams
        cluster = await self._cluster(conn_id)
        return ClusterBackend(name, cluster, choose_namespace(namespace, cluster.connection, settings.namespace))

    async def _cluster(self, conn_id: str) -> Cluster:
        from airflow_trainer_provider.cluster.cluster import Cluster

        at_end(Cluster.close_all)
        return await Cluster.of(await self._connection(conn_id))

    async def _usual_namespace(self) -> str:
        try:
            connection = await self._connection(self._kubernetes_conn_id)
        except BackendUnavailable:
            return self.settings.namespace
        return choose_namespace(None, connection, self.settings.namespace)

    async def _connection(self, conn_id: str) -> ClusterConnection:
        try:
            return await self._read_connection(conn_id)
        except AirflowNotFoundException:
            raise BackendUnavailable(
                f"backend={self.name!r} looks for a cluster, and there is no connection {conn_id!r}. "
                "Training on the worker's own machine is never chosen silently. To train on the worker's own machine, "
                "say so: backend='local' in the operator, or [trainer] backend = local in Airflow's configuration."
            ) from None

    async def _diagnosis(self, handle: JobHandle, status: JobStatus) -> Diagnosis:
        replica = status.first_failed or (status.replicas[0].name if status.replicas else None)
        log = await self._log_tail(handle, replica) if replica else []
        return diagnose(handle.name, get_framework(handle.framework), status, log, self.settings.failure_log_lines)

    async def _log_tail(self, handle: JobHandle, replica: str) -> list[str]:
        try:
            return await (await self.backend_of(handle)).log_tail(handle, replica, _SEARCHED_LINES)
        except (ApiError, JobLost) as error:
            # Pods go, and their logs with them. The verdict does without.
            self.log.warning("No last lines of %s of training job %s: %s", replica, handle.name, error)
            return []
