"""A proxy in front of the API server that misbehaves on request.

It speaks plain HTTP on a loopback port and is the cluster's administrator upstream, so a client needs no credentials:
:attr:`FaultProxy.kubeconfig` is all. Watches and logs stream through it; exec, attach and port-forward, which change
the protocol of a connection, do not.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

# Of one connection only: the proxy has its own on either side.
_HOP_HEADERS = {"host", "connection", "transfer-encoding", "content-length", "keep-alive", "authorization"}
Action = Callable[[web.BaseRequest, "Forward"], Awaitable[web.StreamResponse]]
Forward = Callable[[web.BaseRequest, "int | None"], Awaitable[web.StreamResponse]]


@dataclass
class Rule:
    """What to do to some requests.

    :param method: HTTP method, or empty for all.
    :param path: regular expression for the path with its query.
    :param action: makes the answer.
    :param left: how many more requests it applies to; None for all.
    :param hits: how many requests it was applied to.
    """

    method: str
    path: str
    action: Action
    left: int | None
    hits: int = 0

    def takes(self, request: web.BaseRequest) -> bool:
        """Whether the rule applies to a request; counts it if so."""
        fits = self.method in ("", request.method) and re.search(self.path, request.path_qs)
        if not fits or self.left == 0:
            return False
        self.hits += 1
        if self.left is not None:
            self.left -= 1
        return True


class FaultProxy:
    """The proxy, in a thread of its own. Use it as a context manager.

    :param kubeconfig: the real cluster; with client certificates or a token.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._server, self._tls, self._headers = _upstream(kubeconfig)
        self._rules: list[Rule] = []
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)
        self.url = ""

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        if not self._started.wait(60):
            raise RuntimeError("the proxy did not start within 60 s")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        self._loop.close()

    @property
    def kubeconfig(self) -> str:
        """Kubeconfig that leads through the proxy."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        }
        return json.dumps(config)

    def answer(
        self, status: int, *, reason: str = "", method: str = "", path: str = "", times: int | None = None,
        retry_after: int | None = None,
    ) -> Rule:  # fmt: skip
        """Answer with an error, as the API server words it, instead of asking the API server.

        :param status: HTTP status: 429, 500, 410, ...
        :param reason: reason in the Status object.
        :param retry_after: seconds, for the header of that name.
        """
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
        body["message"] = f"injected by the test: {status} {reason}".strip()
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}

        async def act(request: web.BaseRequest, forward: Forward) -> web.StreamResponse:
            return web.json_response(body, status=status, headers=headers)

        return self._add(method, path, act, times)

    def expire_watch(self, *, path: str = "watch=(true|1|True)", times: int | None = 1) -> Rule:
        """End a watch as the API server does when its resourceVersion is too old: an ERROR event with code 410."""
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired"}
        event = {"type": "ERROR", "object": {**status, "message": "too old resource version (injected by the test)"}}

        async def act(request: web.BaseRequest, forward: Forward) -> web.StreamResponse:
            return web.Response(text=json.dumps(event) + "\n", content_type="application/json")

        return self._add("GET", path, act, times)

    def cut(self, *, method: str = "", path: str = "", times: int | None = None, after: int = 0) -> Rule:
        """Break the connection.

        :param after: bytes of the body to let through first; with 0 the request does not reach the API server.
        """

        async def act(request: web.BaseRequest, forward: Forward) -> web.StreamResponse:
            if after:
                return await forward(request, after)
            _reset(request)
            return web.Response()

        return self._add(method, path, act, times)

    def lose_answer(self, *, method: str = "", path: str = "", times: int | None = None) -> Rule:
        """Let the request through and break the connection instead of answering: it is done, but who knows."""

        async def act(request: web.BaseRequest, forward: Forward) -> web.StreamResponse:
            return await forward(request, 0)

        return self._add(method, path, act, times)

    def delay(self, seconds: float, *, method: str = "", path: str = "", times: int | None = None) -> Rule:
        """Wait before a request is passed on."""

        async def act(request: web.BaseRequest, forward: Forward) -> web.StreamResponse:
            await asyncio.sleep(seconds)
            return await forward(request, None)

        return self._add(method, path, act, times)

    def heal(self) -> None:
        """Forget all rules."""
        self._rules.clear()

    def _add(self, method: str, path: str, action: Action, times: int | None) -> Rule:
        rule = Rule(method, path, action, times)
        self._rules.append(rule)
        return rule

    async def _serve(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        # Bodies pass through as they are, compressed or not.
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            self._session = session
            server = web.Server(self._handle)
            # Short, and not 0: that waits without end for a watch in which nothing happens.
            runner = web.ServerRunner(server, shutdown_timeout=0.1)
            await runner.setup()
            listener = socket.create_server(("127.0.0.1", 0))
            await web.SockSite(runner, listener).start()
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._started.set()
            await self._stop.wait()
            await runner.cleanup()
            handlers = asyncio.all_tasks() - {asyncio.current_task()}
            for task in handlers:
                task.cancel()
            await asyncio.gather(*handlers, return_exceptions=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        rule = next((rule for rule in list(self._rules) if rule.takes(request)), None)
        if rule is None:
            return await self._forward(request, None)
        return await rule.action(request, self._forward)

    async def _forward(self, request: web.BaseRequest, limit: int | None) -> web.StreamResponse:
        """Pass a request on, and as many bytes of its answer as wanted (None: all) back."""
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_HEADERS}
        url = self._server + request.path_qs
        body = await request.read()
        async with self._session.request(
            request.method, url, headers={**headers, **self._headers}, data=body or None, allow_redirects=False
        ) as upstream:
            if limit == 0:
                _reset(request)
                return web.Response()
            kept = {key: value for key, value in upstream.headers.items() if key.lower() not in _HOP_HEADERS}
            response = web.StreamResponse(status=upstream.status, headers=kept)
            await response.prepare(request)
            async for chunk in _limited(upstream.content, limit):
                await response.write(chunk)
            if limit is not None:
                _reset(request)
            else:
                await response.write_eof()
            return response


async def _limited(content: aiohttp.StreamReader, limit: int | None) -> AsyncIterator[bytes]:
    async for chunk in content.iter_any():
        if limit is None:
            yield chunk
            continue
        yield chunk[:limit]
        limit -= len(chunk)
        if limit <= 0:
            return


def _reset(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _upstream(kubeconfig: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Address, trust and credentials of the real API server."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate-data" in user:
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder) / "crt", Path(folder) / "key"
            certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
            key.write_bytes(base64.b64decode(user["client-key-data"]))
            tls.load_cert_chain(certificate, key)
        return cluster["server"], tls, {}
    return cluster["server"], tls, {"Authorization": f"Bearer {user['token']}"}
