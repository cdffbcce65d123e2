"""The API server as plainly as it can be talked to: JSON over one aiohttp session, and its own counters."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import yaml

#: Objects that are made at the same time.
CONCURRENCY = 20
#: Between two requests while the API server does not answer.
_PAUSE_SECONDS = 0.02


class Api:
    """One session with an API server.

    :param kubeconfig: the text of a kubeconfig with one cluster and one user.
    :ivar list_seconds: how long the last list of :meth:`watch` took.
    """

    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(kubeconfig)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server: str = cluster["server"]
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._tls = _tls(cluster, user)
        self.list_seconds = 0.0

    async def __aenter__(self) -> Api:
        connector = aiohttp.TCPConnector(ssl=self._tls)
        self._http = aiohttp.ClientSession(connector=connector, headers=self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Send a request and return its answer.

        :raises RuntimeError: it was refused.
        """
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type} if data else {}
        async with self._http.request(method, self.server + path, data=data, headers=headers) as response:
            text = await response.text()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:300]}")
        answer: dict[str, Any] = json.loads(text)
        return answer

    async def patch(self, path: str, body: Any) -> dict[str, Any]:
        """Change an object with a JSON merge patch."""
        return await self.call("PATCH", path, body, "application/merge-patch+json")

    async def watch(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """The changes from now on, as they come. After an outage, all objects are listed as soon as possible."""
        version = (await self._listed(f"{path}?limit=1"))["metadata"]["resourceVersion"]
        while True:
            with suppress(aiohttp.ClientError, OSError):
                async for event in self._watch_from(path, version):
                    yield event
            listing = await self._listed(path)
            version = listing["metadata"]["resourceVersion"]
            for each in listing["items"]:
                yield {"type": "MODIFIED", "object": each}

    async def _watch_from(self, path: str, version: str) -> AsyncIterator[dict[str, Any]]:
        url = f"{self.server}{path}?watch=true&resourceVersion={version}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._http.get(url, timeout=timeout, read_bufsize=2**20) as response:
            if response.status != 200:
                return
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event

    async def _listed(self, path: str) -> dict[str, Any]:
        while True:
            begun = time.monotonic()
            with suppress(aiohttp.ClientError, OSError, RuntimeError):
                listing = await self.call("GET", path)
                self.list_seconds = time.monotonic() - begun
                return listing
            await asyncio.sleep(_PAUSE_SECONDS)

    async def text(self, path: str) -> str:
        """Read something that is no JSON."""
        async with self._http.get(self.server + path) as response:
            return await response.text()

    async def requests(self, flow: str) -> tuple[int, int]:
        """How many requests of the accounts of a flow schema the API server has answered, and watches it has begun.

        :param flow: the flow schema's name.
        """
        text = await self.text("/metrics")
        name = "apiserver_flowcontrol_request_execution_seconds_count"
        calls, watches = (
            re.search(rf'^{name}{{flow_schema="{flow}",.*type="{kind}"}} (\S+)$', text, re.MULTILINE)
            for kind in ("regular", "watch")
        )
        return int(calls[1]) if calls else 0, int(watches[1]) if watches else 0

    async def watches(self) -> int:
        """How many watches are held of all objects of a kind in one namespace, whoever asked for them.

        Kubernetes' own components watch all namespaces, or one object.
        """
        pattern = r'^apiserver_longrunning_requests{.*scope="namespace",.*verb="WATCH".*} (\S+)$'
        return int(sum(float(each) for each in re.findall(pattern, await self.text("/metrics"), re.MULTILINE)))


async def at_once(
    work: Callable[[Any], Coroutine[Any, Any, Any]], over: Iterable[Any], concurrency: int = CONCURRENCY
) -> list[Any]:
    """Do something with each of many, a few at the same time.

    :param work: what to do with one.
    :param over: the many.
    """
    free = asyncio.Semaphore(concurrency)

    async def one(each: Any) -> Any:
        async with free:
            return await work(each)

    return await asyncio.gather(*map(one, over))


def _tls(cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate-data" in user:
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder) / "crt", Path(folder) / "key"
            certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
            key.write_bytes(base64.b64decode(user["client-key-data"]))
            tls.load_cert_chain(certificate, key)
    return tls
