"""The Kubernetes API on plain dicts: the only place that talks HTTP."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.renewal import Reread
from airflow_trainer_provider.cluster.answers import changed_nothing, from_status, is_transient
from airflow_trainer_provider.cluster.api.clock import ServerClock
from airflow_trainer_provider.cluster.api.lines import split_blocks, split_lines
from airflow_trainer_provider.cluster.api.recovery import Backoff
from airflow_trainer_provider.cluster.api.requests import Requests, parse
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import PODS, Manifest, Resource
from airflow_trainer_provider.text.printable import LONGEST_LINE_BYTES

_T = TypeVar("_T")
FIELD_MANAGER = "airflow-trainer-provider"
#: Objects in one page of a list. A page is parsed in one go, which blocks the event loop. The process keeps the memory
#: that parsing takes: a large page would take more than the objects that are kept.
_PAGE = 25
#: How many objects are processed before the event loop runs other tasks.
_AT_ONCE = 20
_MERGE_PATCH = "application/merge-patch+json"
#: Seconds. The API server ends a watch after ``_WATCH``. It sends a bookmark each minute, so a longer silence means
#: that the connection is dead.
_WATCH = 240
_SILENT_WATCH = 150
_SILENT_LOG = 60
_SILENT_FOLLOWED_LOG = 300
#: Bytes.
_LONGEST_LOG_LINE = LONGEST_LINE_BYTES
_LONGEST_EVENT = 64 * 2**20


@dataclass(frozen=True)
class Listing:
    """A list of objects.

    :param resource_version: the version of the list; a watch continues from there.
    """

    items: list[Manifest]
    resource_version: str


@dataclass(frozen=True)
class WatchEvent:
    """One event of a watch.

    :param type: ``ADDED``, ``MODIFIED``, ``DELETED``, or ``BOOKMARK``, whose object has a resource version only.
    """

    type: str
    object: Manifest


class Client:
    """A client of one cluster, with one session. It belongs to the event loop that it was first used in.

    Calls are retried during an outage of the API server, as long as the outage budget lasts; only :meth:`get_once`,
    :meth:`watch` and :meth:`logs` are not. Every method raises :class:`~airflow_trainer_provider.errors.ApiError` where
    the API server does not do what it was asked to, and :class:`~airflow_trainer_provider.errors.BackendUnavailable`
    where the connection cannot be used.

    :param connection: how to reach the cluster.
    :param outage_budget: seconds for which one call is repeated.
    :param reread: reads the connection as it is now; None where it cannot change.
    """

    def __init__(
        self, connection: ClusterConnection, *, outage_budget: float = 300, reread: Reread | None = None
    ) -> None:
        self._requests = Requests(connection, outage_budget, reread)

    @property
    def connection(self) -> ClusterConnection:
        """How the cluster is reached now."""
        return self._requests.renewal.connection

    @property
    def clock(self) -> ServerClock:
        """The API server's clock, as its answers show it."""
        return self._requests.clock

    async def use(self, connection: ClusterConnection) -> bool:
        """Use a connection that may have changed; see :meth:`Renewal.use`.

        :param connection: how to reach the cluster.
        :return: False where it leads to another cluster.
        """
        return await self._requests.renewal.use(connection)

    def backoff(self, first: float, most: float, starting: int = 0) -> Backoff:
        """The pauses between repeated attempts to watch or to read logs; the end of an outage ends a pause.

        :param first: the first pause, in seconds.
        :param most: the longest pause, in seconds.
        :param starting: attempts that an API server may refuse while it starts, before pauses get longer.
        """
        return Backoff(self._requests.recovery, first, most, starting)

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest:
        """Read an object.

        :raises ApiError: with status 404 where there is none.
        """
        return await self._requests.call("GET", resource.path(namespace, name))

    async def get_or_none(
        self, resource: Resource, namespace: str, name: str, *, uid: str | None = None
    ) -> Manifest | None:
        """Read an object; None where there is none.

        :param uid: of the object: another object of the same name counts as not found. None accepts any.
        """
        try:
            found = await self.get(resource, namespace, name)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        return found if uid in (None, found["metadata"]["uid"]) else None

    async def get_path(self, path: str, **query: str) -> Manifest:
        """Read any other path whose answer is JSON.

        :param path: e.g. ``/version``.
        """
        return await self._requests.call("GET", path, query)

    async def get_once(self, path: str, **query: str) -> Manifest:
        """Read a path that an extension of the API serves.

        The extension may be down while the API server is not: the request is not repeated, and no other request waits
        for it.

        :param path: of the API.
        """
        return await self._requests.call_extension(path, query)

    async def list(
        self,
        resource: Resource,
        namespace: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        not_older_than: str = "",
        keep: Callable[[Manifest], Manifest] = lambda manifest: manifest,
    ) -> Listing:
        """Read all objects of a kind.

        :param label_selector: which; empty for all.
        :param field_selector: which; empty for all.
        :param not_older_than: a resource version that the list has to be as new as, which the API server can answer
            from its watch cache; empty for the newest state, for which it has to ask its database.
        :param keep: object -> the part of it that is kept.
        """
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {name: value for name, value in selectors.items() if value}
        if not_older_than:
            moment = {"resourceVersion": not_older_than, "resourceVersionMatch": "NotOlderThan"}
            return await self._list(resource, namespace, {**query, **moment}, keep)
        try:
            return await self._list(resource, namespace, {**query, "limit": str(_PAGE)}, keep)
        except ApiError as error:
            if error.status != 410:
                raise
        # The API server no longer has the version that the pages belong to: list all objects in one request.
        return await self._list(resource, namespace, query, keep)

    async def watch(
        self,
        resource: Resource,
        namespace: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str,
    ) -> AsyncGenerator[WatchEvent, None]:
        """The changes since a resource version, over one connection, which ends after some minutes. Close the iterator.

        :param label_selector: which objects; empty for all.
        :param field_selector: which objects; empty for all.
        :param resource_version: the version to start from.
        :raises ApiError: the connection broke; with status 410 the version has expired: list again.
        """
        # Jitter: watches do not all end at the same time.
        seconds = int(_WATCH * random.uniform(0.8, 1))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
            **({"labelSelector": label_selector} if label_selector else {}),
            **({"fieldSelector": field_selector} if field_selector else {}),
        }
        path = resource.path(namespace)
        async with self._requests.stream(path, query, _SILENT_WATCH) as chunks:
            async for line in split_lines(chunks, _LONGEST_EVENT):
                event = parse(f"GET {path}", line)
                if event.get("type") == "ERROR":
                    raise from_status(f"GET {path}", event.get("object") or {})
                yield WatchEvent(str(event["type"]), event["object"])

    async def log_blocks(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool = False,
        since_time: str | None = None,
        tail_lines: int | None = None,
        previous: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        """A container's log lines, each with its time before it, over one connection. Close the iterator.

        The lines come in blocks, with line breaks between the lines of a block.

        :param follow: wait for more until the container ends.
        :param since_time: RFC 3339; the API server ignores fractions of a second.
        :param tail_lines: only the last so many lines.
        :param previous: the log from before the container's last restart.
        :raises ApiError: there is no log, or the connection broke, or was silent for minutes.
        """
        query = {"container": container, "timestamps": "true"}
        query |= {"follow": "true"} if follow else {}
        query |= {"previous": "true"} if previous else {}
        query |= {"sinceTime": since_time} if since_time is not None else {}
        query |= {"tailLines": str(tail_lines)} if tail_lines is not None else {}
        path = f"{PODS.path(namespace, pod)}/log"
        async with self._requests.stream(path, query, _SILENT_FOLLOWED_LOG if follow else _SILENT_LOG) as chunks:
            async for block in split_blocks(chunks, _LONGEST_LOG_LINE, overwritten=True):
                yield block

    async def logs(self, namespace: str, pod: str, container: str, **options: Any) -> AsyncGenerator[bytes, None]:
        """The lines of :meth:`log_blocks`, one by one. Close the iterator.

        :param options: as there.
        """
        async with aclosing(self.log_blocks(namespace, pod, container, **options)) as blocks:
            async for block in blocks:
                for line in block.split(b"\n"):
                    yield line

    async def repeat(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat an operation that an outage of the API server interrupts, for as long as single calls are repeated.

        :param attempt: one attempt, with methods that do not repeat by themselves, such as :meth:`logs`.
        """
        return await self._requests.repeat(attempt)

    async def create(
        self, resource: Resource, namespace: str, manifest: Manifest, *, dry_run: bool = False
    ) -> Manifest:
        """Create an object. Fields that its kind does not have are refused.

        The request is repeated only where the error proves that nothing was created. After an error without a status,
        or with a status from 500 on, the object may exist: read it by its name.

        :param dry_run: only check whether the object would be accepted.
        """
        query = {"fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
        query |= {"dryRun": "All"} if dry_run else {}
        return await self._requests.call(
            "POST", resource.path(namespace), query, body=manifest, may_repeat=_can_create_again
        )

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Manifest) -> Manifest:
        """Change an object with a JSON merge patch.

        :param patch: with ``metadata.resourceVersion``, only that version is changed. Any other version raises with
            status 409, even one that an earlier attempt of this call made and whose answer was lost.
        """
        query = {"fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
        return await self._requests.call(
            "PATCH", resource.path(namespace, name), query, body=patch, content_type=_MERGE_PATCH
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete an object.

        :param uid: only the object with this uid.
        :param resource_version: only this version of the object; any other version raises with status 409.
        :param propagation: ``Background``, ``Foreground`` or ``Orphan``: what happens to the objects that it owns.
        :param grace_seconds: the grace period of a pod; None for the pod's own.
        :returns: False where the object does not exist, or another object has its name.
        """
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        conditions = {"uid": uid, "resourceVersion": resource_version}
        if given := {name: value for name, value in conditions.items() if value is not None}:
            options["preconditions"] = given
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self._requests.call("DELETE", resource.path(namespace, name), body=options)
        except ApiError as error:
            if error.is_not_found or (error.is_conflict and "UID in" in error.answer):
                return False
            raise
        return True

    async def close(self) -> None:
        """Close the session's connections; watches and logs that still run break."""
        await self._requests.close()

    async def _list(
        self,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        keep: Callable[[Manifest], Manifest],
    ) -> Listing:
        items: list[Manifest] = []
        token = ""
        while True:
            here = {**query, "continue": token} if token else query
            page = await self._requests.call("GET", resource.path(namespace), here)
            found = page.pop("items", None) or []
            found.reverse()
            # Free each raw object once it has been trimmed, so that both are never in memory at once.
            while found:
                # The items in lists of built-in kinds lack ``apiVersion`` and ``kind``.
                items.append(keep({"apiVersion": resource.api_version, "kind": resource.kind, **found.pop()}))
                if len(items) % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            token = page["metadata"].get("continue") or ""
            if not token:
                return Listing(items, page["metadata"].get("resourceVersion", ""))


def _can_create_again(error: ApiError) -> bool:
    return is_transient(error) and changed_nothing(error)
