"""Watches of an API server in memory: the changes since a version, over one connection each."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

from aiohttp import web

from airflow_trainer_provider.timeouts import with_timeout
from tests.fakes.objects import Event, Objects
from tests.fakes.selectors import Manifest, Refused, check_selectors, matches


@dataclass
class _Watcher:
    plural: str
    namespace: str
    labels: str
    fields: str
    since: int
    wants_bookmarks: bool
    transport: asyncio.Transport
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    bookmarks: int = 0
    ended: bool = False

    def seen(self, event: Event) -> tuple[str, Manifest] | None:
        """What an event is to this watch: its type, and the object; None where it is not about what is watched."""
        if event.plural != self.plural or self.namespace not in ("", event.object["metadata"]["namespace"]):
            return None
        before = event.before is not None and self._has(event.before)
        after = event.type != "DELETED" and self._has(event.object)
        if before and not after and event.before is not None and event.type != "DELETED":
            # An object that no longer matches is gone for this watch, as it was, with the version of the change.
            version = {"resourceVersion": str(event.version)}
            return "DELETED", {**event.before, "metadata": {**event.before["metadata"], **version}}
        change = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}.get((before, after))
        return (change, event.object) if change else None

    def _has(self, manifest: Manifest) -> bool:
        return matches(manifest, self.labels, self.fields)


class Watches:
    """All open watches.

    :param objects: what is watched.
    """

    def __init__(self, objects: Objects) -> None:
        self.open: list[_Watcher] = []
        self._objects = objects

    def changed(self) -> None:
        """Note that there are changes to send."""
        for watcher in self.open:
            watcher.changed.set()

    def end(self) -> None:
        """End all watches, as the API server does after minutes."""
        for watcher in self.open:
            watcher.ended = True
        self.changed()

    def cut(self) -> None:
        """Break the connections of all watches."""
        for watcher in self.open:
            watcher.transport.abort()
            watcher.ended = True
        self.changed()

    def bookmark(self) -> None:
        """Send a bookmark to each watch that asked for them."""
        for watcher in self.open:
            watcher.bookmarks += watcher.wants_bookmarks
        self.changed()

    async def serve(self, request: web.BaseRequest, plural: str, namespace: str) -> web.StreamResponse:
        """Answer a request to watch."""
        query = request.query
        assert request.transport is not None
        watcher = _Watcher(
            plural,
            namespace,
            query.get("labelSelector", ""),
            query.get("fieldSelector", ""),
            int(query.get("resourceVersion") or self._objects.version),
            query.get("allowWatchBookmarks") == "true",
            request.transport,
        )
        check_selectors(plural, watcher.labels, watcher.fields)
        response = web.StreamResponse()
        await response.prepare(request)
        self.open.append(watcher)
        try:
            await with_timeout(self._send_changes(watcher, response), float(query.get("timeoutSeconds") or 3600))
        except Refused as refused:
            status = {"kind": "Status", "code": refused.code, "reason": refused.reason, "message": refused.message}
            await _send(response, "ERROR", status)
        except asyncio.TimeoutError:
            pass
        finally:
            self.open.remove(watcher)
        return response

    async def _send_changes(self, watcher: _Watcher, response: web.StreamResponse) -> None:
        while not watcher.ended:
            if watcher.since < self._objects.oldest:
                # The API server says so within the stream.
                raise Refused(410, "Expired", f"too old resource version: {watcher.since} ({self._objects.oldest})")
            for event in [event for event in self._objects.events if event.version > watcher.since]:
                watcher.since = event.version
                if seen := watcher.seen(event):
                    await _send(response, *seen)
            for _ in range(watcher.bookmarks):
                watcher.since = self._objects.version
                await _send(response, "BOOKMARK", {"metadata": {"resourceVersion": str(self._objects.version)}})
            watcher.bookmarks = 0
            watcher.changed.clear()
            await watcher.changed.wait()


async def _send(response: web.StreamResponse, change: str, manifest: Manifest) -> None:
    await response.write(json.dumps({"type": change, "object": manifest}).encode() + b"\n")
