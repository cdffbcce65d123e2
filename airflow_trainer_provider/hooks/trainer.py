"""The hook: finds the backend that Airflow's configuration and connections name, and talks to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import cached_property
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_trainer_provider import __version__
from airflow_trainer_provider.errors import BackendUnavailable, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.hooks.backends import BACKENDS
from airflow_trainer_provider.hooks.settings import Settings, load_settings
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec.validation import choice

#: The log lines that are searched for the traceback of a failure.
_SEARCHED_LINES = 400
#: How long a killed task waits until its request to end the job is noted.
_CANCEL_SECONDS = 4


class TrainerHook(BaseHook):
    """A training backend, as this Airflow is set up.

    :param backend: ``local`` or ``auto``; None takes ``[trainer] backend``.
    :param kubernetes_conn_id: the connection that ``auto`` looks for.
    """

    def __init__(self, backend: str | None = None, kubernetes_conn_id: str = "kubernetes_default") -> None:
        super().__init__()
        self._name = backend
        self._kubernetes_conn_id = kubernetes_conn_id

    @classmethod
    def for_job(cls, handle: JobHandle) -> TrainerHook:
        """The hook for the backend that a job runs on."""
        return cls(handle.backend)

    @cached_property
    def settings(self) -> Settings:
        """The options of ``[trainer]``."""
        return load_settings()

    @cached_property
    def backend(self) -> Backend:
        """The backend.

        :raises SpecError: there is none of that name.
        :raises BackendUnavailable: ``auto``, and there is no cluster.
        """
        name = self._name or self.settings.backend
        if name == "auto":
            raise BackendUnavailable(self._no_cluster())
        if name not in BACKENDS:
            raise SpecError([choice("backend", name, ("auto", *BACKENDS), "Use one of these.")])
        settings = self.settings
        return LocalBackend(settings.local_root, settings.poll_interval, settings.local_keep)

    async def follow(
        self, handle: JobHandle, *, emit: Callable[[str], None], reader: str | None, deadline: datetime | None
    ) -> JobStatus:
        """Wait for a job's end; see :func:`~airflow_trainer_provider.job.follow.follow`.

        ``[trainer] log_replicas`` decides whose lines are told.
        """
        wanted = self.settings.log_replicas
        return await follow(
            self.backend,
            handle,
            emit=emit,
            reader=None if wanted == "none" else reader,
            deadline=deadline,
            leader_only=wanted == "leader",
        )

    async def summary(self, handle: JobHandle, status: JobStatus) -> dict[str, Any]:
        """What goes into XCom at a job's end; see :func:`~airflow_trainer_provider.job.result.summarize`."""
        return summarize(handle, status, await self.backend.result(handle))

    async def diagnosis(self, handle: JobHandle, status: JobStatus) -> Diagnosis:
        """Why a job did not succeed."""
        framework = get_framework(handle.framework)
        replica = status.first_failed or (status.replicas[0].name if status.replicas else None)
        log = await self.backend.log_tail(handle, replica, _SEARCHED_LINES) if replica else []
        return diagnose(handle.name, framework, status, log, self.settings.failure_log_lines)

    def cancel_now(self, handle: JobHandle, reason: str) -> None:
        """Ask a job to end, from any thread, also from a signal handler inside a running event loop.

        :param handle: the job.
        :param reason: what the job's status will say.
        """
        _run_aside(self.backend.cancel(handle, reason))

    def cancel_task_now(self, identity: Identity, reason: str) -> None:
        """Ask the jobs of a task to end, whoever waits for them.

        :param identity: the task, and the try whose jobs are meant.
        :param reason: what the jobs' status will say.
        """

        async def cancel() -> None:
            for handle in await self.backend.find(identity):
                await self.backend.cancel(handle, reason)

        _run_aside(cancel())

    def _no_cluster(self) -> str:
        way_out = (
            "To train on the worker's own machine, say so: backend='local' in the operator, or "
            "[trainer] backend = local in Airflow's configuration."
        )
        try:
            self.get_connection(self._kubernetes_conn_id)
        except AirflowNotFoundException:
            return (
                f"backend='auto' looks for a cluster, and there is no connection {self._kubernetes_conn_id!r}. "
                f"Training on the worker's own machine is never chosen silently. {way_out}"
            )
        return (
            f"backend='auto' found connection {self._kubernetes_conn_id!r} (namespace {self.settings.namespace!r} "
            f"where it does not say), but version {__version__} has no backend for clusters yet. {way_out}"
        )


def _run_aside(work: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine in a thread of its own: the caller may be a signal handler inside a running event loop."""
    thread = threading.Thread(target=asyncio.run, args=(work,), daemon=True)
    thread.start()
    thread.join(_CANCEL_SECONDS)
