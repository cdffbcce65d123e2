"""Ends jobs beside the process that knows that their tasks are over: the scheduler, or the API server.

Neither may be kept waiting, by a cluster that does not answer or by its own database. A request is queued in no time; a
thread in the background looks up which of the tasks have jobs, and ends those. Both the number of requests and the time
that one may take are bounded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from airflow_trainer_provider.plugins.requests import Request
from airflow_trainer_provider.timeouts import with_timeout

if TYPE_CHECKING:
    from airflow_trainer_provider.plugins.traces import Ending

log = logging.getLogger(__name__)

#: How many requests may wait to be looked up, and how many tasks of one cluster for the end of their jobs. A deployment
#: that ends more tasks at once has other problems.
_MOST_WAITING = 10_000
#: How many requests are looked up together, and how many tasks' jobs are ended at a time in one cluster.
_LOOKED_UP_TOGETHER = 100
_ENDED_AT_ONCE = 16
#: Seconds that may pass until a task's jobs are ended, that one attempt may take, and that lie between two.
_MOST_SECONDS = 21_600.0
_ATTEMPT_SECONDS = 600.0
_AGAIN_SECONDS = 10.0
#: Seconds until the end of a task that was reported is in the database, and between two looks.
_COMMIT_SECONDS = 10.0
_LOOK_SECONDS = 0.5
#: Seconds that requests get which are being worked on when the process ends.
_LAST_SECONDS = 4.0
#: How often the database is asked.
_LOOKUPS = 5


class Endings:
    """The requests of one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._waiting: deque[Request] = deque()
        self._lock = threading.Lock()
        self._is_working = False
        # For each cluster: one that does not answer keeps no other waiting.
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_ENDED_AT_ONCE))
        self._waiting_for: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()

    def add(self, request: Request) -> None:
        """Queue a request; returns at once.

        :param request: what is over.
        """
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                log.error("Too many tasks are over at once: the jobs of %s are not ended", request)
                return
            self._waiting.append(request)
            if self._is_working:
                return
            self._is_working = True
        from airflow_trainer_provider.hooks.loop import at_end, run_aside

        at_end(self.drain)
        run_aside(self._work(), 0)

    async def drain(self) -> None:
        """Let what has begun go on for a moment, before the process ends."""
        end = time.monotonic() + _LAST_SECONDS
        while self._under_way and time.monotonic() < end:
            await asyncio.wait(self._under_way, timeout=end - time.monotonic())

    async def _work(self) -> None:
        self._begin(self._look_all_up())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _look_all_up(self) -> None:
        while batch := self._next():
            for each in await self._look_up(batch):
                self._begin(self._end(each))

    def _next(self) -> list[Request]:
        with self._lock:
            count = min(len(self._waiting), _LOOKED_UP_TOGETHER)
            self._is_working = count > 0
            return [self._waiting.popleft() for _ in range(count)]

    async def _look_up(self, batch: Sequence[Request]) -> list[Ending]:
        from airflow_trainer_provider.plugins.traces import endings_of

        for attempt in range(_LOOKUPS):
            try:
                return await asyncio.to_thread(endings_of, batch)
            except Exception as error:
                log.warning("Which tasks have jobs could not be looked up; attempt %d: %s", attempt + 1, error)
                await asyncio.sleep(2**attempt)
        log.error("The jobs of %d tasks that are over are not ended: the database does not answer", len(batch))
        return []

    async def _end(self, ending: Ending) -> None:
        from airflow_trainer_provider.errors import SpecError

        try:
            await self._end_beside_others(ending, ending.cluster)
        except SpecError as error:
            log.error("The jobs of %s could not be ended: %s", ending, error)

    async def _end_beside_others(self, ending: Ending, cluster: str) -> None:
        if self._waiting_for[cluster] >= _MOST_WAITING:
            log.error("Too many tasks of one cluster are over at once: the jobs of %s are not ended", ending)
            return
        self._waiting_for[cluster] += 1
        try:
            await with_timeout(_until_ended(ending, self._slots[cluster]), _MOST_SECONDS)
        except asyncio.TimeoutError:
            log.error("The jobs of %s were not ended within %.0f s", ending, _MOST_SECONDS)
        except Exception as error:
            log.error("The jobs of %s could not be ended: %s", ending, error)
        finally:
            self._waiting_for[cluster] -= 1


async def _until_ended(ending: Ending, slots: asyncio.Semaphore) -> None:
    """End the jobs, however often it takes; the others of the cluster have their turn in between.

    :param slots: how many of the cluster are ended at a time.
    """
    from airflow_trainer_provider.errors import TrainJobError

    while True:
        try:
            async with slots:
                if await _is_due(ending):
                    await with_timeout(ending.end_jobs(), _ATTEMPT_SECONDS)
                else:
                    log.info("%s is not over any more: its job goes on", ending)
            return
        except asyncio.TimeoutError:
            log.warning("The jobs of %s are still to be ended, after %.0f s", ending, _ATTEMPT_SECONDS)
        except Exception as error:
            if isinstance(error, TrainJobError) and not error.retryable:
                raise
            log.warning("The jobs of %s are still to be ended: %s", ending, error)
        await asyncio.sleep(_AGAIN_SECONDS)


async def _is_due(ending: Ending) -> bool:
    deadline = time.monotonic() + _COMMIT_SECONDS
    while not await asyncio.to_thread(ending.is_due):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


_endings: list[Endings] = []


def add(request: Request) -> None:
    """Queue a request in this process.

    :param request: what is over.
    """
    # A fork has the parent's queue, and not the thread that works on it.
    if not _endings or _endings[-1].pid != os.getpid():
        _endings.append(Endings())
    _endings[-1].add(request)
