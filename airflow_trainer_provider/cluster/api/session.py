"""One HTTP session with an API server: it keeps its connections open, and its credentials fresh."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.credentials import Credentials
from airflow_trainer_provider.cluster.access.renewal import Renewal, Reread
from airflow_trainer_provider.cluster.api.clock import ServerClock
from airflow_trainer_provider.errors import BackendUnavailable
from airflow_trainer_provider.version import __version__

#: TCP keepalive: after how many seconds an idle connection is probed, the seconds between two probes, and how many
#: unanswered probes end it.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_UNAUTHORIZED = 401


class _Http:
    """A session of aiohttp that is closed once nothing refers to it: neither its owner nor an answer that it received.

    aiohttp does not close a session that is garbage-collected. A session that is closed too early leaves the readers of
    its answers waiting forever.

    :param session: of aiohttp, in the running event loop.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        weakref.finalize(self, _close_later, asyncio.get_running_loop(), session).atexit = False


class Session:
    """Sends requests. It belongs to the event loop that it was first used in.

    :param connection: how to reach the cluster.
    :param reread: reads the connection as it is now; None where it cannot change.
    :param renewed: called when the credentials in use have been replaced.
    """

    def __init__(
        self,
        connection: ClusterConnection,
        reread: Reread | None = None,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        self.renewal = Renewal(connection, reread, renewed)
        self.clock = ServerClock()
        self._http: _Http | None = None
        self._identity = ""
        # The answers that may still be read, each with the session that it needs.
        self._answers: weakref.WeakKeyDictionary[aiohttp.ClientResponse, _Http] = weakref.WeakKeyDictionary()
        # All sessions that were opened: one that is no longer used may not be closed yet.
        self._opened: weakref.WeakSet[aiohttp.ClientSession] = weakref.WeakSet()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
        content_type: str = "application/json",
        may_reload: bool = True,
    ) -> aiohttp.ClientResponse:
        """Send a request and return the answer, whose body is yet to be read.

        The request is sent once more where the credentials were refused, or the API server's certificate was not
        trusted, and there are other credentials.

        :param path: of the API, e.g. ``/api/v1/namespaces/default/pods``.
        :param timeout: when to give up.
        :param data: the body.
        :param may_reload: whether other credentials may be loaded.
        :raises BackendUnavailable: the connection cannot be used.
        :raises aiohttp.ClientError: no answer came.
        """
        credentials = await self.renewal.due()
        send = partial(
            self._send, method=method, path=path, query=query, timeout=timeout, data=data, content_type=content_type
        )
        try:
            response = await send(credentials)
        except aiohttp.ClientConnectorCertificateError:
            # The cluster may have a new certificate authority, and the connection may already name it.
            others = await self.renewal.after_refusal(credentials, by_us=True) if may_reload else None
            if others is None:
                raise
            return await send(others)
        if response.status != _UNAUTHORIZED or not may_reload:
            return response
        others = await self.renewal.after_refusal(credentials)
        if others is None:
            return response
        response.release()
        return await send(others)

    async def ask(self, path: str, *, timeout: aiohttp.ClientTimeout) -> int:
        """The HTTP status of the answer to a GET with the credentials in use. No credentials are loaded or renewed.

        :param path: of the API.
        :param timeout: when to give up.
        :raises aiohttp.ClientError: no answer came, or there are no credentials yet.
        """
        if self.renewal.current is None:
            raise aiohttp.ClientConnectionError("nothing has been sent yet")
        async with await self._send(self.renewal.current, "GET", path, {}, timeout) as response:
            return response.status

    async def close(self) -> None:
        """Close the connections: reading an answer then fails. The next request opens new ones."""
        self._http = None
        self.renewal.forget()
        for answer in list(self._answers):
            answer.close()
        for session in list(self._opened):
            await session.close()

    async def _send(
        self,
        credentials: Credentials,
        method: str,
        path: str,
        query: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
        content_type: str = "",
    ) -> aiohttp.ClientResponse:
        # Names within the path are quoted already.
        url = URL(credentials.server + quote(path, safe="/:%"), encoded=True).with_query(query)
        options: dict[str, Any] = {"server_hostname": credentials.server_name} if credentials.server_name else {}
        headers = credentials.headers.copy()
        if data is not None:
            headers["Content-Type"] = content_type
        http = self._connected(credentials)
        response = await http.session.request(
            method,
            url,
            data=data,
            headers=headers,
            proxy=credentials.proxy or _proxy_of_environment(url),
            timeout=timeout,
            # Credentials go to the API server only, and not to an address that it redirects to.
            allow_redirects=False,
            **options,
        )
        self._answers[response] = http
        self.clock.note(response.headers.get("Date"))
        return response

    def _connected(self, credentials: Credentials) -> _Http:
        """The HTTP session for credentials: a new one where the address, the trusted authorities or the client
        certificate differ. Requests in flight continue over the session that they have.
        """
        if self._http is None or self._identity != credentials.identity:
            _check_proxy(self.renewal.connection, credentials)
            self._http, self._identity = _Http(self._open(credentials)), credentials.identity
            self._opened.add(self._http.session)
        return self._http

    def _open(self, credentials: Credentials) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            ssl=credentials.tls if credentials.tls is not None else True,
            # Watches and logs hold a connection each; calls must not have to wait for them.
            limit=0,
            socket_factory=None if self.renewal.connection.disable_tcp_keepalive else _probed_socket,
        )
        # Not trust_env: with it, a .netrc that has a default entry breaks each request that carries a token.
        return aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": f"airflow-trainer-provider/{__version__}", "Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )


def _close_later(loop: asyncio.AbstractEventLoop, http: aiohttp.ClientSession) -> None:
    if not http.closed and not loop.is_closed():
        asyncio.run_coroutine_threadsafe(http.close(), loop)


def _probed_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        # Not every system has all of them.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _proxy_of_environment(url: URL) -> str | None:
    proxy = urllib.request.getproxies().get(url.scheme)
    if not proxy or urllib.request.proxy_bypass(f"{url.host}:{url.port}"):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _check_proxy(connection: ClusterConnection, credentials: Credentials) -> None:
    proxy = credentials.proxy or _proxy_of_environment(URL(credentials.server))
    if proxy is not None and URL(proxy).scheme not in ("http", "https"):
        where = "proxy-url of its kubeconfig" if credentials.proxy else "the environment (HTTPS_PROXY, HTTP_PROXY)"
        raise BackendUnavailable(
            f"Connection {connection.id!r}: {where} names a {URL(proxy).scheme} proxy; only http and https are "
            "possible. Name such a one, or except the API server with NO_PROXY."
        )
