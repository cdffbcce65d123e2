"""The logs of pods of an API server in memory: what a container wrote, line by line with its time."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

from aiohttp import web

from tests.fakes.objects import Key, Objects
from tests.fakes.selectors import Refused

_BEGIN = datetime(2026, 11, 21, 7, 0, 1, tzinfo=timezone.utc)
#: Between two looks at a container that is followed, in seconds.
_LOOK = 0.005


class PodLogs:
    """What all containers have written.

    :param objects: with the pods.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lines: dict[tuple[str, str], list[tuple[datetime, str]]] = {}
        self._removed: set[str] = set()

    def write(self, uid: str, container: str, *texts: str) -> None:
        """Have a container write lines, a tenth of a second apart.

        :param uid: of its pod.
        """
        lines = self._lines.setdefault((uid, container), [])
        for text in texts:
            lines.append((_BEGIN + timedelta(seconds=len(lines) / 10), text))

    def rotate(self, uid: str, container: str) -> None:
        """Begin a new file, as the kubelet does: what was written before cannot be read any more.

        :param uid: of its pod.
        """
        self._lines[uid, container] = []

    def remove(self, uid: str) -> None:
        """Remove the containers of a pod, as the kubelet does with one that it evicts.

        :param uid: of the pod.
        """
        self._removed.add(uid)

    async def serve(self, request: web.BaseRequest, key: Key) -> web.StreamResponse:
        """Answer a request for the log of one container."""
        pod, query = self._objects.get(key), request.query
        container = query.get("container") or pod["spec"]["containers"][0]["name"]
        if container not in [each["name"] for each in pod["spec"]["containers"]]:
            raise Refused(400, "BadRequest", f"container {container} is not valid for pod {key[2]}")
        if _state(pod, container).keys() <= {"waiting"}:
            raise Refused(400, "BadRequest", f'container "{container}" in pod "{key[2]}" is waiting to start')
        since = datetime.fromisoformat(query.get("sinceTime", "1970-01-01T00:00:00Z").replace("Z", "+00:00"))
        lines = self._lines.setdefault((pod["metadata"]["uid"], container), [])
        sent = max(0, len(lines) - int(query["tailLines"])) if "tailLines" in query else 0
        response = web.StreamResponse()
        await response.prepare(request)
        if pod["metadata"]["uid"] in self._removed:
            await response.write(b"unable to retrieve container logs for containerd://c")
            return response
        while True:
            runs = "running" in _state(self._objects.all.get(key, {}), container)
            new, sent = lines[sent:], len(lines)
            # All at once: a client gets blocks of several lines only where they arrive together.
            if wanted := "".join(f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z {text}\n" for at, text in new if at >= since):
                await response.write(wanted.encode())
            if not runs or query.get("follow") != "true":
                return response
            await asyncio.sleep(_LOOK)


def _state(pod: dict[str, Any], container: str) -> dict[str, Any]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((each.get("state") or {} for each in statuses if each["name"] == container), {})
