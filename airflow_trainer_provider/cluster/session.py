"""One HTTP session with an API server: it keeps its connections open, and its credentials fresh."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from airflow_trainer_provider import __version__
from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.cluster.credentials import Credentials, CredentialSource
from airflow_trainer_provider.errors import BackendUnavailable, TrainJobError

log = logging.getLogger(__name__)

#: A silent connection is probed after so many seconds, so often, and given up after so many probes without an answer.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_UNAUTHORIZED = 401
#: How soon credentials that could not be renewed are asked for again, in seconds.
_RENEW_AGAIN = 10


class Session:
    """Sends requests. It belongs to the event loop that it was first used in.

    :param connection: how to reach the cluster.
    """

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._source = CredentialSource(connection)
        self._credentials: Credentials | None = None
        self._http: aiohttp.ClientSession | None = None
        self._renewing = asyncio.Lock()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        """Send a request and return the answer, whose body is yet to be read; once more where the token was refused.

        :param path: of the API, e.g. ``/api/v1/namespaces/default/pods``.
        :param timeout: when to give up.
        :param data: the body.
        :raises BackendUnavailable: the connection leads nowhere.
        :raises aiohttp.ClientError: no answer came.
        """
        credentials = await self._fresh()
        response = await self._send(credentials, method, path, query, timeout, data, content_type)
        if response.status != _UNAUTHORIZED:
            return response
        renewed = await self._fresh(refused=credentials)
        if renewed.headers == credentials.headers and renewed.identity == credentials.identity:
            return response
        response.release()
        return await self._send(renewed, method, path, query, timeout, data, content_type)

    async def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        http, self._http, self._credentials = self._http, None, None
        if http is not None:
            await http.close()

    async def _send(
        self,
        credentials: Credentials,
        method: str,
        path: str,
        query: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None,
        content_type: str,
    ) -> aiohttp.ClientResponse:
        if self._http is None:
            raise aiohttp.ClientConnectionError("the session was closed")
        url = URL(credentials.server + quote(path, safe="/:"), encoded=True).with_query(query)
        options: dict[str, Any] = {"server_hostname": credentials.server_name} if credentials.server_name else {}
        return await self._http.request(
            method,
            url,
            data=data,
            headers={**credentials.headers, **({"Content-Type": content_type} if data is not None else {})},
            proxy=credentials.proxy or _proxy_of_environment(url),
            timeout=timeout,
            # Credentials go to the API server and to nobody whom it names.
            allow_redirects=False,
            **options,
        )

    async def _fresh(self, refused: Credentials | None = None) -> Credentials:
        """Credentials that are due for use.

        :param refused: those that the API server did not take.
        """
        async with self._renewing:
            current = self._credentials
            if current is None or current is refused:
                return await self._load()
            if current.renew_at is None or time.monotonic() < current.renew_at:
                return current
            try:
                return await self._load()
            except TrainJobError as error:
                # They are renewed before they expire: there is time left to try that again.
                log.warning("Credentials could not be renewed; asking again in %d s: %s", _RENEW_AGAIN, error)
                self._credentials = replace(current, renew_at=time.monotonic() + _RENEW_AGAIN)
                return self._credentials

    async def _load(self) -> Credentials:
        fresh = await self._source.load()
        _check_proxy(self._connection, fresh)
        if self._http is None or self._credentials is None or self._credentials.identity != fresh.identity:
            await self.close()
            self._http = self._open(fresh)
        self._credentials = fresh
        return fresh

    def _open(self, credentials: Credentials) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            ssl=credentials.tls if credentials.tls is not None else True,
            # Watches and logs hold one each; calls must not have to wait for them.
            limit=0,
            socket_factory=None if self._connection.disable_tcp_keepalive else _probed_socket,
        )
        # Not trust_env: with it, a .netrc that has an entry for everybody breaks each request that carries a token.
        return aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": f"airflow-trainer-provider/{__version__}", "Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )


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
