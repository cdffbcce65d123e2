"""Ends jobs in a background thread of the process that knows that their tasks are over: the scheduler or API server.

This process must not wait for a cluster that does not answer, nor for the database. So a request is only queued, and a
background thread finds the tasks that have jobs, and ends the jobs. The number of requests and the time for each
request are bounded.
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

#: How many requests may wait for their lookup, and how many tasks of one cluster may wait for the end of their jobs. A
#: deployment that ends more tasks at the same time has other problems.
_MOST_WAITING = 10_000
#: How many requests are looked up together, and for how many tasks of one cluster jobs are ended at the same time.
_LOOKED_UP_TOGETHER = 100
_ENDED_AT_ONCE = 16
#: The maximum time until a task's jobs are ended, the maximum time of one attempt, and the pause between two attempts;
#: in seconds.
_MOST_SECONDS = 21_600.0
_ATTEMPT_SECONDS = 600.0
_AGAIN_SECONDS = 10.0
#: How long to wait until the database has the reported end of a task, and the pause between two reads; in seconds.
_COMMIT_SECONDS = 10.0
_LOOK_SECONDS = 0.5
#: How long requests in progress may continue when the process ends, in seconds.
_LAST_SECONDS = 4.0
#: How often a lookup in the database is attempted.
_LOOKUPS = 5


class Endings:
    """The requests of one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._waiting: deque[Request] = deque()
        self._lock = threading.Lock()
        self._is_working = False
        # One semaphore for each cluster, so that a cluster that does not answer does not delay the others.
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_ENDED_AT_ONCE))
        self._waiting_for: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()

    def add(self, request: Request) -> None:
        """Queue a request, and return at once.

        :param request: the task or the run that is over.
        """
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                log.error("Too many tasks have ended at the same time: the jobs of %s are not ended", request)
                return
            self._waiting.append(request)
            if self._is_working:
                return
            self._is_working = True
        from airflow_trainer_provider.hooks.loop import at_end, run_aside

        at_end(self.drain)
        run_aside(self._work(), 0)

    async def drain(self) -> None:
        """Give requests in progress a moment to complete before the process ends."""
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
            log.error("Too many tasks of one cluster have ended at the same time: the jobs of %s are not ended", ending)
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
    """End the jobs, with as many attempts as necessary. Other tasks of the cluster may proceed between two attempts.

    :param slots: bounds how many tasks of the cluster have their jobs ended at the same time.
    """
    from airflow_trainer_provider.errors import TrainJobError

    while True:
        try:
            async with slots:
                if await _is_due(ending):
                    await with_timeout(ending.end_jobs(), _ATTEMPT_SECONDS)
                else:
                    log.info("%s is not over: its job continues", ending)
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

    :param request: the task or the run that is over.
    """
    # A forked process has a copy of the parent's queue, but not the thread that processes it.
    if not _endings or _endings[-1].pid != os.getpid():
        _endings.append(Endings())
    _endings[-1].add(request)
