"""An event loop in a background thread, for all callers in this process that are not async.

Long-lived objects that belong to a loop, such as a cluster's connections and watches, stay alive from one step of a
task to the next. Triggers do not use this loop: they run in the triggerer's own loop.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, TypeVar

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
#: How long a cancelled coroutine may take to clean up, in seconds.
_CLEAN_UP_SECONDS = 5
#: The longest single wait of a thread, in seconds: if a signal arrives just before a wait, Python calls its handler
#: only after that wait.
_LISTEN_SECONDS = 0.5


class _Loop:
    """An event loop that runs in a thread of this process."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="trainer-loop", daemon=True).start()

    def end(self) -> None:
        """Stop the loop, in which nothing may run any more."""
        self.loop.call_soon_threadsafe(self.loop.stop)

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()


class _Running(Generic[_T]):
    """A coroutine that runs in the loop of another thread, and for which one thread waits.

    A signal handler may raise an exception in the waiting thread between any two lines. So this thread shares no lock
    with the loop: a lock that such an exception leaves locked, which can happen to the lock of a
    :class:`concurrent.futures.Future`, would block the loop for ever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[_T] | None = None
        self._has_ended = False
        # Wakes the waiting thread. The state is not in the queue: a thread may be interrupted after it took a token.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def begin(self) -> None:
        """Start the coroutine."""
        self._loop.call_soon_threadsafe(self._begin)

    def end(self) -> None:
        """Cancel the coroutine, and wait until it has cleaned up."""
        # The loop keeps the order: _cancel() runs after _begin(), if that was called.
        self._loop.call_soon_threadsafe(self._cancel)
        self.wait(_CLEAN_UP_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Wait until the coroutine has ended.

        :param seconds: the maximum time to wait.
        :return: whether the coroutine has ended.
        """
        deadline = time.monotonic() + seconds
        while not self._has_ended and (left := deadline - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self._wake.get(timeout=min(_LISTEN_SECONDS, left))
        return self._has_ended

    def result(self) -> _T:
        """Return the value of the ended coroutine, or raise its exception.

        :raises concurrent.futures.CancelledError: the coroutine was cancelled in the loop.
        """
        assert self._task is not None, "only what has begun is waited for"
        if self._task.cancelled():
            # Unlike asyncio's CancelledError, this one is an Exception: the caller itself was not cancelled.
            raise CancelledError
        return self._task.result()

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        _tasks.add(self._task)
        self._task.add_done_callback(self._settle)

    def _cancel(self) -> None:
        if self._task:
            self._task.cancel()
        else:
            self._work.close()
            self._end()

    def _settle(self, task: asyncio.Task[_T]) -> None:
        _tasks.discard(task)
        # If the waiting thread was interrupted, no one retrieves the exception, which asyncio would report.
        _ = task.cancelled() or task.exception()
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._wake.put(None)


# Process ID -> loop. A forked child does not have its parent's threads, and needs its own loop. It keeps the parent's
# loop unchanged: both share its selector, and the parent would miss events if the child closed registered files.
_loops: dict[int, _Loop] = {}
# References to running tasks: the event loop alone does not protect them from garbage collection.
_tasks: set[asyncio.Task[Any]] = set()
_closing: dict[Callable[[], Coroutine[Any, Any, None]], None] = {}


def run(work: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
    """Run a coroutine to its end. May be called in any thread, and in a signal handler while its thread waits here.

    If anything else ends the wait, such as a signal handler that raises, the coroutine is cancelled first.

    :param work: the coroutine.
    :param timeout: the maximum time in seconds; None for no limit.
    :return: the coroutine's return value. Its exceptions are raised here.
    :raises TimeoutError: the coroutine took longer.
    """
    running = _Running(_current().loop, work)
    try:
        # Within the try block: a signal may arrive between any two lines.
        running.begin()
        if not running.wait(math.inf if timeout is None else timeout):
            raise TimeoutError(f"it took longer than {timeout:g} s")
        return running.result()
    finally:
        if not running.wait(0):
            running.end()


def run_aside(work: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Start a coroutine, and wait for it for a bounded time. It continues afterwards, and its errors are logged.

    :param work: the coroutine.
    :param seconds: the maximum time that the caller waits.
    """
    running = _Running(_current().loop, _logged(work))
    running.begin()
    running.wait(seconds)


def at_end(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Register a coroutine function to be called in the loop before the interpreter exits.

    The functions are called in the order of registration. A function that is registered twice is called once.

    :param close: returns the coroutine that closes something.
    """
    if not _closing:
        atexit.register(_end)
    _closing.setdefault(close)


def _end() -> None:
    if os.getpid() in _loops:
        for close in _closing:
            run_aside(close(), _CLEAN_UP_SECONDS)


async def _logged(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except Exception:
        _log.exception("What was begun for a task that is over has failed")


def _current() -> _Loop:
    # Without a lock, for the reason in _Running. Another thread, or a signal handler in this one, may be faster.
    process = os.getpid()
    if process not in _loops:
        mine = _Loop()
        if _loops.setdefault(process, mine) is not mine:
            mine.end()
    return _loops[process]
