"""Where the jobs are that a command is about: in a cluster, or on this machine."""

from __future__ import annotations

import argparse
import getpass
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from airflow_trainer_provider.cluster import manage
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.cluster.describe import describe, overviews
from airflow_trainer_provider.cluster.show_logs import show_logs
from airflow_trainer_provider.errors import BackendUnavailable, Problem, SpecError
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.hooks.backends import AUTO, LOCAL
from airflow_trainer_provider.job.backend import Backend, LogBlock
from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.kinds.manifest import ManifestJob

#: How long the API server may be in trouble before a command gives up, in seconds.
_OUTAGE_BUDGET = 20.0
#: What stands for the connection in the handles of jobs that were submitted without one of Airflow's.
_NO_CONNECTION = "kubeconfig"
_NAMESPACE = "default"


class Place(Protocol):
    """Where jobs are. Its coroutines belong into one event loop."""

    async def overviews(self) -> list[Overview]:
        """All jobs, the oldest first."""

    async def describe(self, name: str, kind: str | None) -> Description:
        """One job."""

    def logs(self, arguments: argparse.Namespace) -> AsyncGenerator[LogBlock, None]:
        """The lines of one job, as the command line wants them."""

    async def suspend(self, name: str, kind: str | None, *, wait: bool) -> str:
        """Suspend a job, and say what was done."""

    async def resume(self, name: str, kind: str | None, *, wait: bool) -> str:
        """Resume a job, and say what was done."""

    async def delete(self, name: str, kind: str | None, *, wait: bool) -> str:
        """Delete a job, and say what was done."""

    async def backend(self, job: Job | ManifestJob, *, connected: bool) -> tuple[Backend, str | None]:
        """The backend for a new job, and why it is this one; None where it was named.

        :param job: what is to run.
        :param connected: whether it has to reach where it is.
        """

    async def close(self) -> None:
        """Close the connections."""


class ClusterPlace:
    """The jobs of a namespace.

    :param connection: how to reach the cluster.
    :param namespace: which namespace.
    :param backend: only jobs of this one; ``auto`` for all.
    """

    def __init__(self, connection: ClusterConnection, namespace: str, backend: str) -> None:
        self._cluster = Cluster(connection, outage_budget=_OUTAGE_BUDGET)
        self._namespace = namespace
        self._backend = backend

    async def overviews(self) -> list[Overview]:
        """All jobs, the oldest first."""
        return await overviews(self._cluster, self._namespace, self._only)

    async def describe(self, name: str, kind: str | None) -> Description:
        """One job."""
        return await describe(self._cluster, await self._get(name, kind))

    async def logs(self, arguments: argparse.Namespace) -> AsyncGenerator[LogBlock, None]:
        """The lines of one job."""
        if arguments.previous and arguments.follow:
            fix = "Leave one of them out."
            raise SpecError([Problem("--previous", "with --follow", "one of the two", fix)])
        job = await self._get(arguments.name, arguments.kind)
        blocks = show_logs(
            self._cluster,
            job,
            replica=arguments.replica,
            tail=arguments.tail,
            previous=arguments.previous,
            follow=arguments.follow,
        )
        async with aclosing(blocks):
            async for block in blocks:
                yield block

    async def suspend(self, name: str, kind: str | None, *, wait: bool) -> str:
        """Suspend a job."""
        job = await self._get(name, kind)
        changed = await manage.suspend(self._cluster, job, wait=wait)
        return f"Suspended {job}." if changed else f"The {job} was suspended already."

    async def resume(self, name: str, kind: str | None, *, wait: bool) -> str:
        """Resume a job."""
        job = await self._get(name, kind)
        changed = await manage.resume(self._cluster, job)
        told = f"Resumed {job}." if changed else f"The {job} is not suspended."
        if wait:
            told += f" It is {(await manage.until_running(self._cluster, job)).text()}."
        return told

    async def delete(self, name: str, kind: str | None, *, wait: bool) -> str:
        """Delete a job."""
        job = await self._get(name, kind)
        reason = f"deleted by {getpass.getuser()} on the command line"
        deleted = await manage.delete(self._cluster, job, reason, wait=wait)
        return f"Deleted {job}." if deleted else f"The {job} is gone already."

    async def backend(self, job: Job | ManifestJob, *, connected: bool) -> tuple[Backend, str | None]:
        """The backend for a new job."""
        name, why = self._backend, None
        if isinstance(job, ManifestJob):
            if name not in (AUTO, job.backend):
                fix = "A manifest says itself which backend it is for: drop --backend."
                raise SpecError([Problem("--backend", name, job.backend, fix)])
            name = job.backend
        elif name == AUTO:
            from airflow_trainer_provider.hooks.choice import choose

            name, why = await choose(self._cluster, job)
        return ClusterBackend(name, self._cluster if connected else None, self._namespace), why

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    @property
    def _only(self) -> str | None:
        return None if self._backend == AUTO else self._backend

    async def _get(self, name: str, kind: str | None) -> manage.ClusterJob:
        return await manage.get(self._cluster, self._namespace, name, backend=self._only, kind=kind)


def make_place(arguments: argparse.Namespace) -> Place:
    """The place that a command line names. Reads Airflow's connection where it names one.

    :raises BackendUnavailable: there is no such connection.
    """
    if arguments.backend == LOCAL:
        from airflow_trainer_provider.cli.local_place import LocalPlace

        return LocalPlace()
    namespace = _NAMESPACE
    if arguments.conn_id:
        connection, namespace = _of_airflow(arguments)
    else:
        connection = ClusterConnection(
            id=_NO_CONNECTION, kube_config_path=arguments.kubeconfig, cluster_context=arguments.context
        )
    return ClusterPlace(connection, arguments.namespace or connection.namespace or namespace, arguments.backend)


def _of_airflow(arguments: argparse.Namespace) -> tuple[ClusterConnection, str]:
    """The connection of Airflow's, and ``[trainer] namespace``."""
    if arguments.kubeconfig or arguments.context:
        fix = "The connection says which kubeconfig and context: drop --kubeconfig and --context, or --conn-id."
        raise SpecError([Problem("--conn-id", arguments.conn_id, "nothing beside it", fix)])
    from airflow.models import Connection
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    from airflow_trainer_provider.hooks.connection import cluster_connection
    from airflow_trainer_provider.hooks.settings import load_settings

    conn_id = arguments.conn_id
    try:
        # As Airflow's own commands do: what tasks are given does not reach the database in Airflow 3.1.
        connection = Connection.get_connection_from_secrets(conn_id)
        return cluster_connection(conn_id, connection), load_settings().namespace
    except AirflowNotFoundException:
        raise BackendUnavailable(
            f"This Airflow has no connection {arguments.conn_id!r}: see 'airflow connections list', or use "
            "--kubeconfig."
        ) from None
