"""The backends that a command uses: those of a cluster, or the one on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.errors import BackendUnavailable, Problem, SpecError
from airflow_trainer_provider.hooks.backends import AUTO, CLUSTER_BACKENDS, LOCAL, make_registered
from airflow_trainer_provider.hooks.jobs import choose
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.plan.plan import ManifestPlan, Plan
from airflow_trainer_provider.spec import parse_field
from airflow_trainer_provider.spec.values.names import Namespace

#: How long an outage of the API server may last before a command gives up, in seconds.
_OUTAGE_BUDGET = 20.0
#: The connection id in the handles of jobs that were submitted without a connection of Airflow.
_NO_CONNECTION = "kubeconfig"
_NAMESPACE = "default"


class Backends:
    """The backends that a command line names. Its coroutines have to run in one event loop.

    :param name: of the only backend, or ``auto``.
    :param all: the backends on which jobs are looked for.
    :param namespace: of a new job in a cluster; None where the backend has no namespaces, or none was named.
    """

    def __init__(self, name: str, all: Sequence[Backend], namespace: str | None = None) -> None:
        self.name = name
        self.all = all
        self.namespace = namespace

    async def for_job(self, job: Plan) -> tuple[Backend, str | None]:
        """The backend for a new job, and why it is this one; None where it was named.

        :param job: what is to run.
        :raises SpecError: a manifest is for another backend.
        :raises BackendUnavailable: no backend can run it.
        """
        if isinstance(job, ManifestPlan):
            return self._of_kind(job), None
        if self.name == AUTO:
            return await choose(self.all, job)
        return self.all[0], None

    def _of_kind(self, job: ManifestPlan) -> Backend:
        """The backend of a manifest's kind."""
        for backend in self.all:
            if backend.name == job.backend:
                return backend
        fix = "A manifest says itself which backend it is for: drop --backend."
        raise SpecError([Problem("--backend", self.name, job.backend, fix)])

    async def close(self) -> None:
        """Close the connections."""
        # All backends share the connections of the first.
        await self.all[0].close()


def make_backends(arguments: argparse.Namespace) -> Backends:
    """The backends that a command line names. Reads Airflow's connection where it names one.

    :raises BackendUnavailable: there is no such connection.
    :raises SpecError: the namespace is no valid name.
    """
    name = arguments.backend
    chosen = parse_field("--namespace", Namespace, arguments.namespace)
    if name == LOCAL:
        return Backends(name, [_local()])
    if name not in (AUTO, *CLUSTER_BACKENDS):
        return Backends(name, [make_registered(name, arguments.conn_id or "", chosen)], chosen)
    connection, namespace = _connection(arguments)
    # One cluster for all backends. A command that only renders a job for a named backend needs none.
    is_asked = name == AUTO or arguments.command != "render"
    cluster = Cluster(connection, outage_budget=_OUTAGE_BUDGET) if is_asked else None
    names = CLUSTER_BACKENDS if name == AUTO else (name,)
    namespace = chosen or connection.namespace or namespace
    return Backends(name, [ClusterBackend(each, cluster, namespace) for each in names], namespace)


def _local() -> Backend:
    from airflow_trainer_provider.hooks.settings import load_settings
    from airflow_trainer_provider.local.backend import LocalBackend

    settings = load_settings()
    return LocalBackend(settings.local_root, settings.poll_interval, settings.local_keep)


def _connection(arguments: argparse.Namespace) -> tuple[ClusterConnection, str]:
    """The connection that a command line names, and the namespace to use where neither of them names one."""
    if arguments.conn_id:
        return _of_airflow(arguments)
    connection = ClusterConnection(
        id=_NO_CONNECTION, kube_config_path=arguments.kubeconfig, cluster_context=arguments.context
    )
    return connection, _NAMESPACE


def _of_airflow(arguments: argparse.Namespace) -> tuple[ClusterConnection, str]:
    """The connection from Airflow, and ``[trainer] namespace``."""
    if arguments.kubeconfig or arguments.context:
        fix = "The connection says which kubeconfig and context: drop --kubeconfig and --context, or --conn-id."
        raise SpecError([Problem("--conn-id", arguments.conn_id, "nothing beside it", fix)])
    from airflow.models import Connection
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    from airflow_trainer_provider.hooks.connection import cluster_connection
    from airflow_trainer_provider.hooks.settings import load_settings

    conn_id = arguments.conn_id
    try:
        # As Airflow's own commands do: the access that tasks have does not reach the database in Airflow 3.1.
        connection = Connection.get_connection_from_secrets(conn_id)
        return cluster_connection(conn_id, connection), load_settings().namespace
    except AirflowNotFoundException:
        raise BackendUnavailable(
            f"This Airflow has no connection {arguments.conn_id!r}: see 'airflow connections list', or use "
            "--kubeconfig."
        ) from None
