"""Requests and their answers: JSON in and out, streams out, and the errors of both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

import aiohttp

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.renewal import Renewal, Reread
from airflow_trainer_provider.cluster.answers import (
    BAD_CERTIFICATE,
    NO_ANSWER,
    NOT_SENT,
    SILENT,
    api_error,
    is_refusal,
    is_transient,
)
from airflow_trainer_provider.cluster.api.clock import ServerClock
from airflow_trainer_provider.cluster.api.recovery import PROBE_SECONDS, Recovery
from airflow_trainer_provider.cluster.api.retry import Retrier
from airflow_trainer_provider.cluster.api.session import Session
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import Manifest

_T = TypeVar("_T")
#: Seconds.
_CONNECT = 10
_CALL = 60
#: How many calls are in flight at a time; watches and logs do not count.
_AT_ONCE = 32
#: The timeout in seconds, and the number of permits, of requests to extensions of the API. They are separate, so that
#: other requests never wait for an extension.
_EXTENSION = 10
_EXTENSIONS_AT_ONCE = 4
#: From this status on, an answer is no success; redirects are not followed.
_NO_SUCCESS = 300
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_UNAVAILABLE = 503
#: Answers 200 once the start of an API server is complete; any authenticated user may read it.
_READY = "/readyz"


class Requests:
    """Sends requests to one cluster.

    :param connection: how to reach the cluster.
    :param outage_budget: seconds for which a call is repeated.
    :param reread: reads the connection as it is now; None where it cannot change.
    """

    def __init__(self, connection: ClusterConnection, outage_budget: float, reread: Reread | None = None) -> None:
        #: Reports when the API server answers again, or accepts our credentials again.
        self.recovery = Recovery(self._probe)
        self._session = Session(connection, reread, self.recovery.recovered)
        self._retrier = Retrier(f"The Kubernetes API of connection {connection.id!r}", outage_budget, self.recovery)
        # Without a limit, thousands of jobs that end at once would open a connection each.
        self._permits = asyncio.Semaphore(_AT_ONCE)
        self._extension_permits = asyncio.Semaphore(_EXTENSIONS_AT_ONCE)
        self._were_known = False

    @property
    def clock(self) -> ServerClock:
        """The API server's clock, as its answers show it."""
        return self._session.clock

    @property
    def renewal(self) -> Renewal:
        """The credentials that requests are sent with."""
        return self._session.renewal

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
        """Send a request, and repeat it during an outage of the API server.

        :param path: of the API, e.g. ``/version``.
        :param content_type: of the body.
        :param may_repeat: whether another attempt after an error is allowed, and can help.
        :raises ApiError: the API server did not do what it was asked to.
        """
        what = f"{method} {path}"
        data = None if body is None else json.dumps(body).encode()
        timeout = aiohttp.ClientTimeout(total=_CALL, sock_connect=_CONNECT)
        send = partial(
            self._session.send, method, path, query=query or {}, timeout=timeout, data=data, content_type=content_type
        )

        async def attempt() -> Manifest:
            try:
                return await self._answer(what, self._permits, send)
            except ApiError as error:
                error.sent_bytes = len(data) if data and method == "POST" else None
                raise

        return await self.repeat(attempt, may_repeat)

    async def repeat(
        self, attempt: Callable[[], Awaitable[_T]], may_repeat: Callable[[ApiError], bool] = is_transient
    ) -> _T:
        """Make an attempt, and repeat it during an outage of the API server.

        :param attempt: sends requests.
        :param may_repeat: as for :meth:`call`.
        :raises ApiError: the error of the last attempt.
        """
        # A refusal is repeated where requests succeeded before: an API server that has just started may not know its
        # users yet, and new credentials, or a new authority, may soon be set in the connection.
        return await self._retrier.retry(
            attempt, lambda error: may_repeat(error) or (is_refusal(error) and self._were_known)
        )

    async def call_extension(self, path: str, query: Mapping[str, str]) -> Manifest:
        """Read a path that an extension of the API serves, with a single request.

        The extension may be down, or refuse a user whom the API server accepts. Other requests do not wait for it, and
        its refusal does not make credentials load again.

        :param path: of the API.
        :raises ApiError: there is no answer within ten seconds, or the answer is an error.
        """
        timeout = aiohttp.ClientTimeout(total=_EXTENSION)
        send = partial(self._session.send, "GET", path, query=query, timeout=timeout, may_reload=False)
        return await self._answer(f"GET {path}", self._extension_permits, send)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silent: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """A streamed answer, over one connection, in pieces of any size.

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
                    raise await self._error(what, response, await response.read())
                yield response.content.iter_any()

    async def close(self) -> None:
        """Close the connections; streams break."""
        self.recovery.close()
        await self._session.close()

    async def _answer(
        self, what: str, permits: asyncio.Semaphore, send: Callable[[], Awaitable[aiohttp.ClientResponse]]
    ) -> Manifest:
        """Send a request once it has one of the permits."""
        with _on_the_way(what):
            async with permits, await send() as response:
                answer = await response.read()
        if response.status >= _NO_SUCCESS:
            raise await self._error(what, response, answer)
        self._were_known = True
        return parse(what, answer)

    async def _error(self, what: str, response: aiohttp.ClientResponse, answer: bytes) -> ApiError:
        error = api_error(what, response.status, answer, response.headers)
        if error.status == _FORBIDDEN and await self.recovery.is_starting():
            message = f"{error}. The API server is not ready yet"
            return ApiError(message, status=_UNAVAILABLE, reason="ServiceUnavailable", answer=error.answer)
        if error.status != _UNAUTHORIZED:
            return error
        message = f"{error}. {self.renewal.way_out()}"
        return ApiError(message, status=error.status, reason=error.reason, answer=error.answer)

    async def _probe(self) -> int | None:
        timeout = aiohttp.ClientTimeout(total=PROBE_SECONDS)
        try:
            return await self._session.ask(_READY, timeout=timeout)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
            return None


def parse(what: str, text: bytes) -> Manifest:
    """Parse an answer, or one line of it, as a JSON object.

    :param what: the request, for the error.
    :raises ApiError: without a status: it is no JSON object, as another server answered, or the answer is incomplete.
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
    """Turns errors of the connection to the API server into an ApiError without a status."""
    try:
        yield
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        words = f"{type(error).__name__}: {error}".rstrip(": ")
        # Without the cause, which logs would show: a proxy's error quotes its URL with the password.
        raise ApiError(f"{what}: {words}", reason=_reason(error)) from None


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return BAD_CERTIFICATE
    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)):
        return NOT_SENT
    return SILENT if isinstance(error, aiohttp.SocketTimeoutError) else NO_ANSWER
