"""Lists and watches the objects of a cluster: one watch for all waiting tasks, however many jobs they wait for."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import aclosing
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from airflow_trainer_provider.cluster.answers import SILENT, is_refusal
from airflow_trainer_provider.cluster.informer.failure import REACTIONS, Failure, Seen, failure_of
from airflow_trainer_provider.cluster.informer.store import KeysOf, Store, Subscription, by_label, by_name
from airflow_trainer_provider.errors import ApiError, BackendUnavailable
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.kinds.base import Resource
from airflow_trainer_provider.kinds.trimmed import trimmed

if TYPE_CHECKING:
    from airflow_trainer_provider.cluster.api.client import Client

__all__ = ["Subscription", "Watch", "Watches", "by_label", "by_name"]

log = logging.getLogger(__name__)

#: How long a watch continues after its last subscription is closed, so that the next task need not list again; seconds.
LINGER = 30.0
#: How long the API server has to refuse before subscribers are notified, before the first list and after it; seconds.
#: An API server that restarts answers 403 for a moment.
REFUSED_FIRST = 10.0
REFUSED_LATER = 60.0
#: The same where the API server refuses the credentials (401), or its certificate is not trusted: both can be renewed
#: in the connection while tasks wait for jobs.
UNAUTHORIZED = 300.0
#: The first and the longest pause between two attempts; seconds.
BACKOFF_FIRST = 0.5
BACKOFF_MOST = 8.0
#: Attempts that an API server may refuse while it starts, before pauses get longer; they take 10 to 30 seconds.
STARTING = 30
#: Where watching is forbidden: the pause between two lists, and between two attempts to watch; seconds.
POLL = 10.0
POLL_AT_MOST = 300.0
# A watch that ends sooner than this without an event has failed; seconds.
_TOO_SHORT = 1.0
_FORBIDDEN = 403
_GONE = 410


class Watch:
    """One list and one watch of all objects of a resource, namespace and selector. Get it from :meth:`Watches.of`.

    Where the account may list but not watch, the objects are listed every ten seconds, once for all waiting tasks.

    :param client: of the connection.
    :param resource: what to watch.
    :param namespace: where.
    :param label_selector: which of them; empty for all.
    :param field_selector: which of them; empty for all.
    :param keys_of: object -> the keys that it is found by.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str,
        label_selector: str,
        field_selector: str,
        keys_of: KeysOf,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._store = Store(keys_of)
        self._task: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._version: str | None = None
        #: Whether a version has expired since the last event.
        self._expired = False
        self._listed_at = 0.0
        self._backoff = client.backoff(BACKOFF_FIRST, BACKOFF_MOST, STARTING)
        self._outage_since: float | None = None
        self._refused_since: float | None = None
        self._forbidden_since: float | None = None
        self._polls_until: float | None = None

    def subscribe(self, key: str, signal: Signal | None = None) -> Subscription:
        """Follow the objects of one key. A subscription made after the first list has the current state at once.

        :param key: as the watch's ``keys_of`` gives it.
        :param signal: what to set at each change, for a caller that waits for several subscriptions at once.
        """
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"watch of {self}")
        return self._store.subscribe(key, signal, self._stop_later)

    def _stop_later(self) -> None:
        """Stop the watch once it has had no subscription for a while."""
        if not self._store.has_subscriptions and self._task is not None and self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(LINGER, self.stop)

    def stop(self) -> asyncio.Task[None] | None:
        """Stop watching, and remove all objects from the store.

        :return: the cancelled task; None where the watch did not run.
        """
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._store.forget()
        if self._store.has_subscriptions:
            self._store.refuse(ApiError(f"the watch of {self} was ended"))
        self._version = self._outage_since = self._refused_since = None
        self._watches()
        return task

    def __str__(self) -> str:
        selectors = ",".join(filter(None, self._selectors.values()))
        selector = f" with {selectors}" if selectors else ""
        return f"{self._resource.plural} in namespace {self._namespace}{selector}"

    async def _run(self) -> None:
        """List and watch until cancelled, whatever happens."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                if self._polls_until is not None and time.monotonic() < self._polls_until:
                    await asyncio.sleep(POLL * random.uniform(0.8, 1.0))
                    self._version = None
                else:
                    await self._follow(self._version or "")
            except ApiError as error:
                await self._back_off(error, refused=_is_final(error))
            except BackendUnavailable as error:
                await self._back_off(ApiError(str(error)), refused=True)
            except Exception as error:
                log.exception("The watch of %s met an error of its own; it lists again", self)
                self._version = None
                await self._back_off(ApiError(f"{type(error).__name__}: {error}"), refused=False)

    async def _list(self) -> None:
        listing = await self._client.list(self._resource, self._namespace, **self._selectors, keep=trimmed)
        self._answered()
        await self._store.replace(listing.items)
        self._version, self._listed_at = listing.resource_version, time.monotonic()

    async def _follow(self, version: str) -> None:
        """Process the events of one connection."""
        started, events = time.monotonic(), 0
        stream = self._client.watch(self._resource, self._namespace, **self._selectors, resource_version=version)
        try:
            async with aclosing(stream):
                async for event in stream:
                    events += 1
                    self._answered()
                    self._watches()
                    if event.type == "DELETED":
                        self._store.remove(trimmed(event.object))
                    elif event.type != "BOOKMARK":
                        self._store.put(trimmed(event.object))
                    self._version = event.object["metadata"]["resourceVersion"]
        except ApiError:
            if time.monotonic() - started >= _TOO_SHORT:
                # The connection worked for a while, so this counts as the first failure.
                self._watches()
            raise
        if not events and time.monotonic() - started < _TOO_SHORT:
            raise ApiError(f"the API server ended the watch of {self} at once")
        self._answered()
        self._watches()

    def _watches(self) -> None:
        """Note that watching is possible."""
        self._backoff.reset()
        self._expired = False
        self._forbidden_since = self._polls_until = None

    def _answered(self) -> None:
        """Note that the API server did what it was asked to."""
        if self._outage_since is not None:
            log.info("The watch of %s goes on, after %.0f s", self, time.monotonic() - self._outage_since)
        self._outage_since = self._refused_since = self._store.refusal = None

    async def _back_off(self, error: ApiError, *, refused: bool) -> None:
        """Note that an attempt failed, and wait before the next one.

        :param refused: whether another attempt does not help.
        """
        failure = failure_of(self._seen(error))
        reaction = REACTIONS[failure]
        self._backoff.failed(error)
        if reaction.lists_again:
            self._version = None
        if failure is Failure.FORBIDDEN:
            self._forbidden(error)
        if reaction.is_outage:
            self._note(error, refused=refused)
        if reaction.pauses:
            await self._backoff.pause(error)
        else:
            self._expired = True
            self._backoff.reset()

    def _seen(self, error: ApiError) -> Seen:
        found = {
            Seen.GONE: error.status == _GONE,
            Seen.AGAIN: self._expired and time.monotonic() - self._listed_at < _TOO_SHORT,
            Seen.FORBIDDEN: error.status == _FORBIDDEN and self._version is not None,
            Seen.SILENT: error.reason == SILENT,
        }
        return reduce(or_, (each for each, holds in found.items() if holds), Seen(0))

    def _forbidden(self, error: ApiError) -> None:
        """Note that watching is forbidden, where listing is not."""
        now = time.monotonic()
        if self._forbidden_since is None:
            self._forbidden_since = now
        if now - self._forbidden_since < REFUSED_FIRST:
            return
        if self._polls_until is None:
            log.warning(
                "Watching %s is forbidden: they are listed every %.0f s instead, once for all that wait. Grant the "
                "verb 'watch' to see changes at once: %s",
                self,
                POLL,
                error,
            )
        self._polls_until = now + POLL_AT_MOST

    def _note(self, error: ApiError, *, refused: bool) -> None:
        now = time.monotonic()
        # Connections break now and then; the second failure in a row is an outage.
        if self._backoff.failures > 1 and self._outage_since is None:
            self._outage_since = now
            log.warning("The watch of %s is interrupted, and is tried again until it works: %s", self, error)
        if not refused:
            self._refused_since = None
            return
        if self._refused_since is None:
            self._refused_since = now
        limit = REFUSED_LATER if self._store.synced else REFUSED_FIRST
        if now - self._refused_since >= (UNAUTHORIZED if is_refusal(error) else limit):
            self._store.refuse(error)


class Watches:
    """The watches of one connection in one event loop; at most one for the same objects.

    :param client: of the connection.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        # The task of a running watch refers to it; a watch that has ended, and that nothing else refers to, is dropped.
        self._watches: WeakValueDictionary[tuple[Resource, str, str, str, KeysOf], Watch] = WeakValueDictionary()

    def of(
        self,
        resource: Resource,
        namespace: str,
        label_selector: str = "",
        keys_of: KeysOf = by_name,
        *,
        field_selector: str = "",
    ) -> Watch:
        """The watch for these objects. It runs while there is a subscription.

        :param resource: what to watch.
        :param namespace: where.
        :param label_selector: which of them; empty for all.
        :param keys_of: object -> the keys that it is found by. Pass the same function each time, as
            :func:`~airflow_trainer_provider.cluster.informer.store.by_label` returns it: another function makes another
            watch.
        :param field_selector: which of them; empty for all.
        """
        key = (resource, namespace, label_selector, field_selector, keys_of)
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = Watch(self._client, *key)
        return watch

    async def close(self) -> None:
        """Stop all watches, and notify the remaining subscribers."""
        tasks = [task for watch in list(self._watches.values()) if (task := watch.stop())]
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_final(error: ApiError) -> bool:
    """Whether another attempt does not help: no trust, no permission, or no such resource."""
    if is_refusal(error):
        return True
    return error.status is not None and 400 <= error.status < 500 and error.status not in {408, 409, 429}
