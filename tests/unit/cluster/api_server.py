"""An HTTP server that answers what a test wants.

It is for what lies below the Kubernetes API: TLS, proxies, credentials, connections that break. It holds no objects;
what the API does with those is tested on tests/fakes/kubernetes.py.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.logs.container_log import ContainerLog, Pod
from airflow_trainer_provider.cluster.logs.cursor import Deduplicator

#: Seconds until what a test waits for has happened, on a machine that stalls.
TIMEOUT = 60

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class ApiServer:
    """Gives its answers one after the other, and the last one for ever.

    :param ready: the answer to the question whether it is ready, which is not noted in ``asked``.
    """

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None, ready: Answer | None = None) -> None:
        self.answers = list(answers)
        self._ready = ready or ok()
        self.asked: list[Asked] = []
        self._tls = tls

    async def __aenter__(self) -> ApiServer:
        self._server = TestServer(web.Application(), scheme="https" if self._tls else "http")
        self._server.app.router.add_route("*", "/{path:.*}", self._handle)
        await self._server.start_server(ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        return str(self._server.make_url("")).rstrip("/")

    def kubeconfig(self, **user: Any) -> str:
        return kubeconfig(self.url, **user)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/readyz":
            return await self._ready(request)
        text = await request.text()
        body = json.loads(text) if text else None
        self.asked.append(Asked(request.method, request.path, dict(request.query), dict(request.headers), body))
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        return await answer(request)


def kubeconfig(server: str, *, cluster: dict[str, Any] | None = None, **user: Any) -> str:
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def ok(body: Any = None) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({} if body is None else body)

    return answer


def text(body: str | bytes, status: int = 200) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, status=status)

    return answer


def status(code: int, reason: str, message: str = "", headers: dict[str, str] | None = None, **details: Any) -> Answer:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({**body, "details": details}, status=code, headers=headers)

    return answer


def cut(after: bytes | None = None) -> Answer:
    """Break the connection: at once, or after some bytes of the body."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        if after is not None:
            await response.prepare(request)
            await response.write(after)
        assert request.transport is not None
        request.transport.abort()
        return response

    return answer


def chunks(*pieces: bytes) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        return response

    return answer


POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
    "spec": {"containers": [{"name": "main"}]},
    "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]},
}


class StreamingServer:
    """An API server with a pod and no end to its streams, which can be stopped and started at its address.

    :param tokens: those that it takes; None for any.
    """

    def __init__(self, tokens: set[str] | None = None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            self.url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        self.tokens = tokens
        #: Path and token of each request.
        self.asked: list[tuple[str, str]] = []
        self.ready = ok()
        #: What it answers to all but the question whether it is ready.
        self.answer: Answer | None = None
        self._streams: list[asyncio.Transport] = []
        self._runner: web.ServerRunner | None = None

    @property
    def streams(self) -> int:
        """How many are open."""
        return len(self._streams)

    def kubeconfig(self, token: str = "t", **options: Any) -> str:
        return kubeconfig(self.url, token=token, **options)

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", int(self.url.rpartition(":")[2])).start()

    async def stop(self) -> None:
        self.cut()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    def cut(self) -> None:
        """Break all streams."""
        for transport in self._streams:
            transport.abort()
        self._streams.clear()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked.append((request.path, token))
        if request.path == "/readyz":
            return await self.ready(request)
        if self.tokens is not None and token not in self.tokens:
            return await status(401, "Unauthorized", "Unauthorized")(request)
        if self.answer is not None:
            return await self.answer(request)
        if request.query.get("watch") or request.query.get("follow"):
            return await self._stream(request)
        found = POD if request.path.endswith("/pods/p") else {"metadata": {"resourceVersion": "1"}, "items": []}
        return await ok(found)(request)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.query.get("follow"):
            await response.write(b"2026-01-01T00:00:00.000000001Z hello\n")
        assert request.transport is not None
        self._streams.append(request.transport)
        await asyncio.sleep(60)
        return response


async def until(reached: Callable[[], object]) -> None:
    """Wait until it is so."""
    for _ in range(200 * TIMEOUT):
        if reached():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not come to that")


@asynccontextmanager
async def log_of_a_container(client: Client) -> AsyncIterator[list[str]]:
    """Follow the log of the pod's container; gives what is said about the log itself."""
    notes: list[str] = []

    async def ignore(_: Any) -> None:
        """Drop it."""

    async def note(text: str) -> None:
        notes.append(text)

    reader = ContainerLog(client, Pod(POD), "main", Deduplicator(0, 0), ignore, note, asyncio.Event())
    reading = asyncio.create_task(reader.run())
    yield notes
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
