"""Reads Airflow's ``kubernetes`` connections, which describe how clusters are reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, Connection

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.remembered import Remembered
from airflow_trainer_provider.errors import BackendUnavailable, ConnectionUnreadable
from airflow_trainer_provider.hooks.settings import load_settings
from airflow_trainer_provider.hooks.supervisor.ask import ask

_TYPE = "kubernetes"
#: The types that Airflow stores if the Kubernetes provider was not installed when the connection was created.
_UNTYPED = ("generic", "", None)
#: How long a connection is cached. Each read is a request to Airflow's API server, and when a triggerer starts,
#: thousands of triggers may need the same connection.
_KNOWN_SECONDS = 30.0
_known: WeakKeyDictionary[asyncio.AbstractEventLoop, Remembered] = WeakKeyDictionary()


async def aget_cluster_connection(conn_id: str) -> ClusterConnection:
    """Read a connection from a coroutine, such as a trigger. The result is cached for half a minute.

    :param conn_id: the connection's ID.
    :raises AirflowNotFoundException: the connection does not exist.
    :raises ConnectionUnreadable: Airflow, or a secrets backend, does not answer.
    :raises BackendUnavailable: the connection is of another type, or a field has an invalid value.
    """
    loop = asyncio.get_running_loop()
    if loop not in _known:
        _known[loop] = Remembered(_KNOWN_SECONDS)
    return await _known[loop].get(conn_id, partial(_read, conn_id))


async def reread(read: Callable[[str], Awaitable[ClusterConnection]], conn_id: str) -> ClusterConnection:
    """Read a connection again, without the cache.

    :param read: reads a connection in this process.
    :param conn_id: the connection's ID.
    """
    known = _known.get(asyncio.get_running_loop())
    if known is not None:
        known.forget(conn_id)
    return await read(conn_id)


async def _read(conn_id: str) -> ClusterConnection:
    # Not BaseHook.aget_connection: before Airflow 3.3.2 it registers the connection's secrets for masking with a
    # blocking call, which fails in a triggerer. In a worker it works only in the process's first event loop; in any
    # other loop it reports that the connection does not exist.
    try:
        found = await ask(BaseHook.get_connection, conn_id)
    except AirflowNotFoundException as error:
        why_not = await ask(_why_unreadable, conn_id)
        if why_not is None:
            raise
        raise ConnectionUnreadable(conn_id, why_not) from error
    except Exception as error:
        raise ConnectionUnreadable(conn_id, type(error).__name__) from error
    return cluster_connection(conn_id, found)


def _why_unreadable(conn_id: str) -> str | None:
    """Why a connection could not be read; None if it does not exist.

    Airflow also reports "not found" if a secrets backend, or its own API server, has failed: it asks the next backend,
    until none is left. A component that failed may answer again by now; then the connection is found.
    """
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    for backend in ensure_secrets_backend_loaded():
        try:
            found = backend.get_connection(conn_id)
        except Exception as error:
            return f"{type(backend).__name__}: {type(error).__name__}"
        if found is not None:
            return f"{type(backend).__name__} found none, and finds it now"
    try:
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS
    except ImportError:
        # Outside of tasks and triggerers the API server cannot be asked.
        return None
    try:
        answer = SUPERVISOR_COMMS.send(GetConnection(conn_id=conn_id))
    except Exception as error:
        cause = getattr(getattr(error, "error", None), "error", error)
        return (
            None if _is_not_found(cause) else f"Airflow's API server: {getattr(cause, 'value', type(error).__name__)}"
        )
    if not isinstance(answer, ErrorResponse):
        return "Airflow's API server found none, and finds it now"
    return None if _is_not_found(answer.error) else f"Airflow's API server: {answer.error.value}"


def _is_not_found(error: object) -> bool:
    from airflow.sdk.exceptions import ErrorType

    return error is ErrorType.CONNECTION_NOT_FOUND


def cluster_connection(conn_id: str, connection: Connection) -> ClusterConnection:
    """The description of a cluster in a connection.

    :param conn_id: the connection's ID.
    :param connection: a connection of type ``kubernetes``.
    :raises BackendUnavailable: the connection is of another type, or a field has an invalid value.
    """
    if connection.conn_type != _TYPE and connection.conn_type not in _UNTYPED:
        raise BackendUnavailable(
            f"Connection {conn_id!r} is of type {connection.conn_type!r}; a cluster is reached by one of type "
            f"{_TYPE!r}. Name another in kubernetes_conn_id, or correct its type."
        )
    # Not extra_dejson, which makes the same blocking call.
    return ClusterConnection.from_extra(conn_id, _extra(conn_id, connection), load_settings().exec_plugin_env)


def choose_namespace(operator: str | None, connection: ClusterConnection, default: str) -> str:
    """The namespace of a job.

    :param operator: the operator's namespace, which takes precedence.
    :param connection: the connection, whose namespace is used next.
    :param default: the value of ``[trainer] namespace``.
    """
    return operator or connection.namespace or default


def _extra(conn_id: str, connection: Connection) -> dict[str, Any]:
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        # The parser's message would quote the text, which has credentials.
        extra = None
    if not isinstance(extra, dict):
        raise BackendUnavailable(f"Connection {conn_id!r}: its extra is no JSON object. Correct the connection.")
    return extra
