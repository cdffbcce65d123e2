"""An API server that answers what a test tells it to."""

from __future__ import annotations

import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class ApiServer:
    """Gives its answers one after the other, and the last one for ever."""

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers)
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
