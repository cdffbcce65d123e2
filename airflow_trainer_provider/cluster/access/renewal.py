"""Keeps the credentials of a connection usable: they are loaded when they are due, and again when they are refused."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.credentials import Address, Credentials, CredentialSource
from airflow_trainer_provider.errors import TrainJobError
from airflow_trainer_provider.timeouts import with_timeout

log = logging.getLogger(__name__)

#: Reads a connection as it is now.
Reread = Callable[[], Awaitable[ClusterConnection]]

#: How soon a failed renewal of credentials is tried again, in seconds.
_RENEW_AGAIN = 10
#: The first and the longest pause between two attempts to load refused credentials again, in seconds: an attempt may
#: run a plugin, and read the connection from Airflow. The third value is the time without an attempt after which the
#: pause is the first one again.
_RELOAD_FIRST = 1.0
_RELOAD_MOST = 10.0
_RELOAD_QUIET = 60.0
#: How long it may take to read the connection, in seconds.
_REREAD_SECONDS = 10.0


class Renewal:
    """The credentials of one connection.

    A changed connection is used as long as it leads to the same API server. A task that waits for a job at one API
    server must not look for it at another, where the job would seem lost.

    :param connection: how to reach the cluster.
    :param reread: reads the connection as it is now; None where it cannot change.
    :param replaced: called when the credentials in use have been replaced.
    """

    def __init__(self, connection: ClusterConnection, reread: Reread | None, replaced: Callable[[], None]) -> None:
        #: The connection that the credentials are from.
        self.connection = connection
        #: The credentials in use; None until the first request.
        self.current: Credentials | None = None
        #: The other API server that the connection leads to now; None while it leads to the one in use.
        self.moved_to: Address | None = None
        self._source = CredentialSource(connection)
        self._reread = reread
        self._replaced = replaced
        self._loading = asyncio.Lock()
        self._reloaded_at = -_RELOAD_QUIET
        self._reload_pause = 0.0

    async def due(self) -> Credentials:
        """The credentials for a request, loaded if they are due.

        :raises BackendUnavailable: the connection cannot be used.
        :raises ApiError: without a status: its credential plugin failed.
        """
        if self.current is not None and not _is_due(self.current):
            return self.current
        async with self._loading:
            if self.current is None:
                self.current = await self._source.load()
            elif _is_due(self.current):
                self.current = await self._renewed(self.current)
            return self.current

    async def after_refusal(self, refused: Credentials, *, by_us: bool = False) -> Credentials | None:
        """Credentials other than the refused ones; None where there are none yet.

        All refused requests share one attempt to load other credentials, and attempts are seconds apart.

        :param refused: the credentials that the request was sent with.
        :param by_us: whether this side refused, as it did not trust the API server's certificate: then another token
            does not help, and another certificate authority may.
        """
        same = refused.trust_the_same if by_us else refused.are
        async with self._loading:
            if self.current is not None and same(self.current):
                now = time.monotonic()
                if now - self._reloaded_at < self._reload_pause:
                    return None
                starts_over = now - self._reloaded_at >= _RELOAD_QUIET
                self._reload_pause = _RELOAD_FIRST if starts_over else min(2 * self._reload_pause, _RELOAD_MOST)
                self._reloaded_at = now
                await self._reload(same)
        return None if self.current is None or same(self.current) else self.current

    async def use(self, connection: ClusterConnection) -> bool:
        """Use the connection as it is now.

        :param connection: the same or a changed one.
        :return: False where it leads to another API server; the credentials in use stay in use.
        """
        if connection == self.connection and self.moved_to is None:
            return True
        source = CredentialSource(connection)
        if self.current is not None:
            try:
                address = await source.address()
            except TrainJobError as error:
                log.warning("The changed connection is not used: %s", error)
                return True
            if not self._leads_here(address):
                return False
            self.current = replace(self.current, renew_at=0.0)
        self.connection, self._source, self.moved_to = connection, source, None
        return True

    def way_out(self) -> str:
        """What a user can do about a refusal, as text for an error."""
        connection = f"connection {self.connection.id!r}"
        if self.moved_to is None or self.current is None:
            return (
                f"The API server refuses the credentials of {connection}. Renew them there, or in the file that it "
                "names: what waits goes on with the new ones."
            )
        return (
            f"The API server at {self.current.address} refuses the credentials that it was reached with, and "
            f"{connection} leads to another one now: {self.moved_to}. Jobs are not followed there. Name the old one in "
            "the connection again, with new credentials, until its jobs have ended."
        )

    def forget(self) -> None:
        """Load the credentials again for the next request."""
        self.current = None

    async def _renewed(self, current: Credentials) -> Credentials:
        try:
            fresh = await self._source.load()
        except TrainJobError as error:
            # Credentials are renewed before they expire, so there is time left to try again.
            log.warning("Credentials could not be renewed; asking again in %d s: %s", _RENEW_AGAIN, error)
            return replace(current, renew_at=time.monotonic() + _RENEW_AGAIN)
        return fresh if self._take(fresh) else replace(current, renew_at=fresh.renew_at)

    async def _reload(self, same: Callable[[Credentials], bool]) -> None:
        """Load other credentials: first by the connection as it is known, then by the connection as it is now.

        :param same: whether given credentials are the same as the refused ones.
        """
        try:
            fresh = await self._source.load()
            if not same(fresh):
                self._take(fresh)
                return
        except TrainJobError as error:
            log.warning("Credentials that were refused could not be loaded again: %s", error)
        if self._reread is None:
            return
        try:
            connection = await with_timeout(self._reread(), _REREAD_SECONDS)
            if connection != self.connection:
                source = CredentialSource(connection)
                if self._take(await source.load()):
                    self.connection, self._source = connection, source
        except TrainJobError as error:
            log.warning("Connection %r could not be read again: %s", self.connection.id, error)
        except Exception as error:
            # The error of a secrets backend is not shown: its text may contain the connection that it was asked for.
            log.warning("Connection %r could not be read again: %s", self.connection.id, type(error).__name__)

    def _take(self, fresh: Credentials) -> bool:
        """Use credentials, if they are for the same API server."""
        if not self._leads_here(fresh.address):
            return False
        changed = self.current is not None and not self.current.are(fresh)
        self.current, self.moved_to = fresh, None
        if changed:
            self._replaced()
        return True

    def _leads_here(self, address: Address) -> bool:
        if self.current is None or address == self.current.address:
            return True
        if self.moved_to != address:
            log.warning(
                "Connection %r leads to another API server now: %s. New jobs go there. Those that are waited for here "
                "stay at %s, with the credentials that they have.",
                self.connection.id,
                address,
                self.current.address,
            )
        self.moved_to = address
        return False


def _is_due(credentials: Credentials) -> bool:
    return credentials.renew_at is not None and time.monotonic() >= credentials.renew_at
