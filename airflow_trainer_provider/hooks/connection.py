"""Airflow's ``kubernetes`` connections, as clusters are reached by them."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from airflow.providers.common.compat.sdk import BaseHook, Connection
from asgiref.sync import sync_to_async

from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.cluster.remembered import Remembered
from airflow_trainer_provider.errors import BackendUnavailable

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
    :raises BackendUnavailable: it is of another type, or a field has a value that it cannot have.
    """
    loop = asyncio.get_running_loop()
    if loop not in _known:
        _known[loop] = Remembered(_KNOWN_SECONDS)
    return await _known[loop].get(conn_id, partial(_read, conn_id))


async def _read(conn_id: str) -> ClusterConnection:
    # Not BaseHook.aget_connection. Before Airflow 3.3.2 it hides the connection's secrets from logs with a blocking
    # call, which fails in a triggerer. In a worker it works in the first event loop of the process only; in another it
    # says that there is no such connection.
    return cluster_connection(conn_id, await sync_to_async(BaseHook.get_connection)(conn_id))


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
    return ClusterConnection.from_extra(conn_id, _extra(conn_id, connection))


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
