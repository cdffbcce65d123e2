"""Requests and their answers: JSON in and out, lines out, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp

from airflow_trainer_provider.cluster.answers import BAD_CERTIFICATE, NOT_SENT, SILENT, api_error, is_transient
from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.cluster.retry import Outage
from airflow_trainer_provider.cluster.session import Session
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import Manifest

#: Seconds.
_CONNECT = 10
_CALL = 60
#: How many calls are under way at a time; watches and logs do not count.
_AT_ONCE = 32
#: From this status on, an answer is no success; redirects are not followed.
_NO_SUCCESS = 300
_UNAUTHORIZED = 401


class Requests:
    """Sends requests to one cluster.

    :param connection: how to reach the cluster.
    :param outage_budget: seconds for which a call is repeated.
    """

    def __init__(self, connection: ClusterConnection, outage_budget: float) -> None:
        self._session = Session(connection)
        self._outage = Outage(f"The Kubernetes API of connection {connection.id!r}", outage_budget)
        # Thousands of jobs that end at once would open a connection each.
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._were_known = False

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Manifest | None = None,
        content_type: str = "application/json",
        may_repeat: Callable[[ApiError], bool] = is_transient,
    ) -> Manifest:
        """Send a request, again and again while the API server is in trouble.

        :param path: of the API, e.g. ``/version``.
        :param content_type: of the body.
        :param may_repeat: tells of an error whether another attempt is allowed, and can help.
        :raises ApiError: the API server did not do what it was asked to.
        """
        what = f"{method} {path}"
        data = None if body is None else json.dumps(body).encode()
        timeout = aiohttp.ClientTimeout(total=_CALL, sock_connect=_CONNECT)

        async def attempt() -> Manifest:
            with _on_the_way(what):
                async with (
                    self._places,
                    await self._session.send(
                        method, path, query=query or {}, timeout=timeout, data=data, content_type=content_type
                    ) as response,
                ):
                    answer = await response.read()
            if response.status >= _NO_SUCCESS:
                raise api_error(what, response.status, answer, response.headers)
            self._were_known = True
            return parse(what, answer)

        # An API server that has just started may not know yet whom it used to know.
        return await self._outage.overcome(
            attempt, lambda error: may_repeat(error) or (error.status == _UNAUTHORIZED and self._were_known)
        )

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silent: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """A long answer, over one connection, in pieces of any size.

        :param path: of the API.
        :param silent: seconds of silence after which the connection counts as dead.
        :raises ApiError: there is no answer, or it breaks off.
        """
        what = f"GET {path}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=silent)
        with _on_the_way(what):
            response = await self._session.send("GET", path, query=query, timeout=timeout)
            async with response:
                if response.status >= _NO_SUCCESS:
                    raise api_error(what, response.status, await response.read(), response.headers)
                yield response.content.iter_any()

    async def close(self) -> None:
        """Close the connections; streams break."""
        await self._session.close()


def parse(what: str, text: bytes) -> Manifest:
    """The object that an answer, or a line of one, is.

    :param what: what was asked.
    :raises ApiError: without a status: it is none, so that somebody else answered, or the answer is not whole.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ApiError(f"{what}: the answer is no JSON object: {text[:200].decode(errors='replace')!r}")
    result: dict[str, Any] = found
    return result


@contextmanager
def _on_the_way(what: str) -> Iterator[None]:
    """Turns what goes wrong on the way to the API server into an ApiError without a status."""
    try:
        yield
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        words = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ApiError(f"{what}: {words}", reason=_reason(error)) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return BAD_CERTIFICATE
    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)):
        return NOT_SENT
    return SILENT if isinstance(error, aiohttp.SocketTimeoutError) else ""
