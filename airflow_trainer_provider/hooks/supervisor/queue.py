"""Requests of all jobs of a process, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from airflow_trainer_provider.timeouts import with_timeout

#: After a write, so many times its duration pass before the next one: triggers share their process, and its supervisor.
_PAUSE = 4
#: Seconds. One request that takes long, while Airflow's API server starts, must not silence all jobs for minutes.
_LONGEST_PAUSE = 10.0

_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, RequestQueue] = WeakKeyDictionary()


class Turn(Enum):
    """Which request comes first; those of the same turn in their order."""

    #: A job has ended, and its last report has little time.
    LAST = 0
    #: The lines of a job wait. At the start of a triggerer many do.
    SOON = 1
    #: After a pause.
    USUAL = 2


@dataclass(eq=False)
class _Request:
    work: Callable[[], Coroutine[Any, Any, None]]
    # What is logged meanwhile goes to the log of the task that asks, and not of the one that asked first.
    context: Context = field(default_factory=copy_context)
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RequestQueue:
    """Runs requests of all jobs of an event loop one after the other, and for a bounded share of the time.

    However many jobs report, each is then only written less often. Use :meth:`here`.
    """

    def __init__(self) -> None:
        self._waiting: dict[Turn, deque[_Request]] = {turn: deque() for turn in Turn}
        self._free_at = 0.0
        self._is_urgent = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @classmethod
    def here(cls) -> RequestQueue:
        """The one of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in _queues:
            _queues[loop] = cls()
        return _queues[loop]

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]], turn: Turn = Turn.USUAL) -> None:
        """Wait for a turn, and make a request.

        :param work: makes it; not called where the caller was cancelled before.
        :param turn: when it comes.
        """
        request = _Request(work)
        self._waiting[turn].append(request)
        if turn is not Turn.USUAL:
            self._is_urgent.set()
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._run())
        await request.done

    async def _run(self) -> None:
        while request := await self._next():
            if request.done.done():
                continue
            began = time.monotonic()
            # Not cancelled with its caller: the thread goes on anyway.
            work = request.context.run(asyncio.ensure_future, request.work())
            results = await asyncio.gather(work, return_exceptions=True)
            now = time.monotonic()
            self._free_at = now + min(_PAUSE * (now - began), _LONGEST_PAUSE)
            if request.done.done():
                continue
            if isinstance(results[0], BaseException):
                request.done.set_exception(results[0])
            else:
                request.done.set_result(None)

    async def _next(self) -> _Request | None:
        """The next request, when its time has come; None where there is none."""
        while (turn := self._first()) is Turn.USUAL:
            self._is_urgent.clear()
            try:
                await with_timeout(self._is_urgent.wait(), self._free_at - time.monotonic())
            except asyncio.TimeoutError:
                break
        return None if turn is None else self._waiting[turn].popleft()

    def _first(self) -> Turn | None:
        return next((turn for turn in Turn if self._waiting[turn]), None)
