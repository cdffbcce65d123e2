"""A queue that sends the requests of all jobs of a process one after the other."""

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

#: The pause after a request, as a multiple of its duration: all triggers share their process and its supervisor.
_PAUSE = 4
#: The longest pause, in seconds: a single slow request, e.g. while Airflow's API server starts, must not silence all
#: jobs for minutes.
_LONGEST_PAUSE = 10.0

_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, RequestQueue] = WeakKeyDictionary()


class Turn(Enum):
    """The priority of a request. Requests with the same priority are sent in their order."""

    #: A job has ended, and there is little time for its last report.
    LAST = 0
    #: A job's log lines wait for the answer, as the lines of many jobs do when a triggerer starts.
    SOON = 1
    #: The request can wait for the pause.
    USUAL = 2


@dataclass(eq=False)
class _Request:
    work: Callable[[], Coroutine[Any, Any, None]]
    # Lines that are logged during the request belong to the log of the requesting task, not of the first task.
    context: Context = field(default_factory=copy_context)
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RequestQueue:
    """Runs the requests of all jobs of an event loop one after the other, and for a bounded share of the time.

    With more jobs, each job's reports are only written less often. Use :meth:`here`.
    """

    def __init__(self) -> None:
        self._waiting: dict[Turn, deque[_Request]] = {turn: deque() for turn in Turn}
        self._free_at = 0.0
        self._is_urgent = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @classmethod
    def here(cls) -> RequestQueue:
        """The queue of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in _queues:
            _queues[loop] = cls()
        return _queues[loop]

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]], turn: Turn = Turn.USUAL) -> None:
        """Wait in the queue, and then run a request.

        :param work: returns the request's coroutine; not called if the caller was cancelled before.
        :param turn: the request's priority.
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
            # Not cancelled with its caller: the request's thread continues in any case.
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
        """The next request, after the pause that it has to wait for; None if there is no request."""
        while (turn := self._first()) is Turn.USUAL:
            self._is_urgent.clear()
            try:
                await with_timeout(self._is_urgent.wait(), self._free_at - time.monotonic())
            except asyncio.TimeoutError:
                break
        return None if turn is None else self._waiting[turn].popleft()

    def _first(self) -> Turn | None:
        return next((turn for turn in Turn if self._waiting[turn]), None)
