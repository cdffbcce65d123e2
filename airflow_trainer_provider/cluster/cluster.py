"""One cluster, as one process talks to it: a client, its watches, and what is installed there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from airflow_trainer_provider.cluster.client import Client
from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.cluster.remembered import Remembered
from airflow_trainer_provider.cluster.watch import Watches
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import Resource
from airflow_trainer_provider.kinds.registry import BACKENDS

#: How long an answer about what is installed is taken for true, in seconds.
_KNOWN_SECONDS = 60
_NOT_FOUND = 404
#: Clients and watches belong to the event loop that they were made in.
_clusters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Cluster]] = WeakKeyDictionary()


class Cluster:
    """A cluster behind a connection. Use :meth:`of`: there is one for each connection and event loop.

    :param connection: how to reach it.
    :param outage_budget: seconds for which one call is repeated while the API server is in trouble.
    """

    def __init__(self, connection: ClusterConnection, *, outage_budget: float = 300) -> None:
        self.connection = connection
        self.client = Client(connection, outage_budget=outage_budget)
        self.watches = Watches(self.client)
        self._answers = Remembered(_KNOWN_SECONDS)

    @classmethod
    async def of(cls, connection: ClusterConnection) -> Cluster:
        """The cluster behind this connection; made anew where the connection was changed.

        :param connection: how to reach it.
        """
        known = _clusters.setdefault(asyncio.get_running_loop(), {})
        cluster = known.get(connection.id)
        if cluster is None or cluster.connection != connection:
            cluster = known[connection.id] = cls(connection)
        return cluster

    @classmethod
    async def close_all(cls) -> None:
        """Close all clusters of the running event loop, before that ends."""
        for cluster in _clusters.pop(asyncio.get_running_loop(), {}).values():
            await cluster.close()

    async def serves(self, resource: Resource) -> bool:
        """Whether the API server knows a resource. Everybody who is logged in may ask.

        :param resource: in the version that is asked for.
        """
        return resource.plural in await self._resources(resource.api_version)

    async def installed(self) -> tuple[str, ...]:
        """The backends of which something is installed, the one to prefer first."""
        served = {kind.key for kinds in BACKENDS.values() for kind in kinds if await self.serves(kind.resource)}
        return tuple(name for name, kinds in BACKENDS.items() if any(kind.key in served for kind in kinds))

    async def schema(self, resource: Resource) -> Mapping[str, Any] | None:
        """The OpenAPI schema of a resource, as the installed version has it; None where it is not published.

        :param resource: a custom resource.
        """
        return await self._answers.get(f"schema of {resource.crd}", partial(self._schema, resource))

    async def close(self) -> None:
        """End the watches and the connections."""
        await self.watches.close()
        self._answers.close()
        await self.client.close()

    async def _resources(self, api_version: str) -> frozenset[str]:
        path = f"{'/apis' if '/' in api_version else '/api'}/{api_version}"
        return await self._answers.get(path, partial(self._ask, path))

    async def _ask(self, path: str) -> frozenset[str]:
        try:
            answer = await self.client.get_path(path)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return frozenset()
            raise
        return frozenset(resource["name"] for resource in answer.get("resources", ()))

    async def _schema(self, resource: Resource) -> Mapping[str, Any] | None:
        document = await self.client.get_path(f"/openapi/v3/apis/{resource.api_version}")
        group, _, version = resource.api_version.rpartition("/")
        for schema in document.get("components", {}).get("schemas", {}).values():
            wanted = {"group": group, "version": version, "kind": resource.kind}
            if wanted in schema.get("x-kubernetes-group-version-kind", ()):
                found: Mapping[str, Any] = schema
                return found
        return None
