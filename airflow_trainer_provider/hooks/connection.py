"""Airflow's ``kubernetes`` connections, as clusters are reached by them."""

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
#: What Airflow stores where the Kubernetes provider was not installed when the connection was made.
_UNTYPED = ("generic", "", None)
#: Each read asks Airflow's API server, and a triggerer that starts has thousands of triggers that need the same one.
_KNOWN_SECONDS = 30.0
_known: WeakKeyDictionary[asyncio.AbstractEventLoop, Remembered] = WeakKeyDictionary()


async def aget_cluster_connection(conn_id: str) -> ClusterConnection:
    """Read a connection, inside of an event loop, such as a trigger's. All that ask within half a minute read it once.

    :param conn_id: the connection's id.
    :raises AirflowNotFoundException: there is none.
    :raises ConnectionUnreadable: Airflow, or a secrets backend, does not answer.
    :raises BackendUnavailable: it is of another type, or a field has a value that it cannot have.
    """
    loop = asyncio.get_running_loop()
    if loop not in _known:
        _known[loop] = Remembered(_KNOWN_SECONDS)
    return await _known[loop].get(conn_id, partial(_read, conn_id))


async def reread(read: Callable[[str], Awaitable[ClusterConnection]], conn_id: str) -> ClusterConnection:
    """Read a connection as it is now, and not as it was within the last half minute.

    :param read: how a connection is read in this process.
    :param conn_id: the connection's id.
    """
    known = _known.get(asyncio.get_running_loop())
    if known is not None:
        known.forget(conn_id)
    return await read(conn_id)


async def _read(conn_id: str) -> ClusterConnection:
    # Not BaseHook.aget_connection. Before Airflow 3.3.2 it hides the connection's secrets from logs with a blocking
    # call, which fails in a triggerer. In a worker it works in the first event loop of the process only; in another it
    # says that there is no such connection.
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
    """What keeps a connection from being read; None where it does not exist.

    Airflow says "not found" as well where a secrets backend, or its own API server, has failed: it asks the next
    backend, and at last there is none. What fails may answer again by now: then the connection is found.
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
        # Outside of a task and of a triggerer there is no API server to ask.
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
    """What a connection says about a cluster.

    :param conn_id: the connection's id.
    :param connection: of type ``kubernetes``.
    :raises BackendUnavailable: it is of another type, or a field has a value that it cannot have.
    """
    if connection.conn_type != _TYPE and connection.conn_type not in _UNTYPED:
        raise BackendUnavailable(
            f"Connection {conn_id!r} is of type {connection.conn_type!r}; a cluster is reached by one of type "
            f"{_TYPE!r}. Name another in kubernetes_conn_id, or correct its type."
        )
    # Not extra_dejson, which makes the blocking call as well.
    return ClusterConnection.from_extra(conn_id, _extra(conn_id, connection), load_settings().exec_plugin_env)


def choose_namespace(operator: str | None, connection: ClusterConnection, default: str) -> str:
    """The namespace of a job.

    :param operator: the operator's; it wins.
    :param connection: its own comes next.
    :param default: ``[trainer] namespace``.
    """
    return operator or connection.namespace or default


def _extra(conn_id: str, connection: Connection) -> dict[str, Any]:
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        # The parser's message quotes the text, and with it credentials.
        extra = None
    if not isinstance(extra, dict):
        raise BackendUnavailable(f"Connection {conn_id!r}: its extra is no JSON object. Correct the connection.")
    return extra
