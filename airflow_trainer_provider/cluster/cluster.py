"""One cluster, for one process: its client, its watches and queues, and what is installed in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.renewal import Reread
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.informer.watch import Watches
from airflow_trainer_provider.cluster.queues.queue import Queues
from airflow_trainer_provider.cluster.remembered import Remembered
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import Resource
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.registry import BACKENDS

#: How long an answer about what is installed is cached, in seconds.
_KNOWN_SECONDS = 60
#: The clusters of each event loop, by connection id: clients and watches belong to the loop that they were created in.
_clusters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Cluster]] = WeakKeyDictionary()
#: All clusters, including those whose connection now leads to another API server. They exist as long as tasks wait for
#: jobs there.
_all_clusters: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[Cluster]] = WeakKeyDictionary()


class Cluster:
    """A cluster behind a connection. Use :meth:`of`: there is one for each connection and event loop.

    :param connection: how to reach it.
    :param outage_budget: seconds for which one call is retried during an outage of the API server.
    :param reread: reads the connection as it is now; None where it cannot change.
    """

    def __init__(
        self, connection: ClusterConnection, *, outage_budget: float = 300, reread: Reread | None = None
    ) -> None:
        self.client = Client(connection, outage_budget=outage_budget, reread=reread)
        self.watches = Watches(self.client)
        self.queues = Queues(self.client)
        self._answers = Remembered(_KNOWN_SECONDS)

    @classmethod
    async def of(cls, connection: ClusterConnection, reread: Reread | None = None) -> Cluster:
        """The cluster behind this connection.

        A changed connection replaces the previous one as long as it leads to the same API server. Where it leads to
        another API server, another cluster is returned, and tasks that wait at the old one stay there.

        :param connection: how to reach it.
        :param reread: reads the connection as it is now, for when its credentials are refused.
        """
        loop = asyncio.get_running_loop()
        known = _clusters.setdefault(loop, {})
        cluster = known.get(connection.id)
        # Another task may have been quicker.
        if (cluster is None or not await cluster.client.use(connection)) and known.get(connection.id) is cluster:
            cluster = known[connection.id] = cls(connection, reread=reread)
            _all_clusters.setdefault(loop, WeakSet()).add(cluster)
        return known[connection.id]

    @classmethod
    async def close_all(cls) -> None:
        """Close all clusters of the running event loop, before that ends."""
        loop = asyncio.get_running_loop()
        # Listed before they are dropped: a weak set loses a cluster that nothing else refers to.
        clusters = list(_all_clusters.pop(loop, ()))
        _clusters.pop(loop, None)
        for cluster in clusters:
            await cluster.close()

    @property
    def connection(self) -> ClusterConnection:
        """How it is reached now."""
        return self.client.connection

    async def serves(self, resource: Resource) -> bool:
        """Whether the API server knows a resource. Any authenticated user may ask for that.

        :param resource: with the version that has to be served.
        """
        return resource.plural in await self._resources(resource.api_version)

    async def served(self, kinds: Iterable[Kind]) -> list[Kind]:
        """The given kinds that the API server knows, in their order.

        :param kinds: the kinds.
        """
        return [kind for kind in kinds if await self.serves(kind.resource)]

    async def installed(self) -> tuple[str, ...]:
        """The backends of which at least one kind is installed, in the order of preference."""
        return tuple([name for name, kinds in BACKENDS.items() if await self.served(kinds)])

    async def schema(self, resource: Resource) -> Mapping[str, Any] | None:
        """The OpenAPI schema of a resource, as the installed version has it; None where it is not published.

        :param resource: a custom resource.
        """
        return await self._answers.get(f"schema of {resource.crd}", partial(self._schema, resource))

    async def close(self) -> None:
        """End the watches, the queues and the connections."""
        await self.queues.close()
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
            if error.is_not_found:
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
