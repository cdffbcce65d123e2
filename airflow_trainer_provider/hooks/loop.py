"""One event loop for the callers in this process that are not async: a thread in the background.

What is long-lived and belongs to a loop, such as a cluster's connections and watches, lives on from one step of a task
to the next. A trigger needs none of this: it runs in the triggerer's own loop.
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
#: How long a coroutine that was cancelled may take to clean up, in seconds.
_CLEAN_UP_SECONDS = 5
#: A signal that comes just before a thread begins to wait has its handler called when the wait ends, so none is long.
_LISTEN_SECONDS = 0.5


class _Loop:
    """An event loop that a thread of this process runs."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="trainer-loop", daemon=True).start()

    def end(self) -> None:
        """End it: nothing runs in it."""
        self.loop.call_soon_threadsafe(self.loop.stop)

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()


class _Running(Generic[_T]):
    """A coroutine in a loop that another thread runs; ends when the coroutine has, and not before.

    One thread waits for it. A signal handler may raise in there between any two lines, so no lock is shared with the
    loop: one that such an exception leaves locked, as it can the one of a :class:`concurrent.futures.Future`, would
    block the loop for ever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[_T] | None = None
        self._has_ended = False
        # Wakes who waits. Whether it has ended is not in there: whoever took a token may be interrupted right after.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def begin(self) -> None:
        """Start the coroutine."""
        self._loop.call_soon_threadsafe(self._begin)

    def end(self) -> None:
        """Cancel the coroutine, and wait until it has cleaned up."""
        # After _begin(), if that has come to pass: the loop keeps the order.
        self._loop.call_soon_threadsafe(self._cancel)
        self.wait(_CLEAN_UP_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Wait for the end.

        :param seconds: how long at most.
        :return: whether it has come.
        """
        deadline = time.monotonic() + seconds
        while not self._has_ended and (left := deadline - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self._wake.get(timeout=min(_LISTEN_SECONDS, left))
        return self._has_ended

    def result(self) -> _T:
        """What the coroutine has returned or raised; it has ended.

        :raises concurrent.futures.CancelledError: it was cancelled in the loop.
        """
        assert self._task is not None, "only what has begun is waited for"
        if self._task.cancelled():
            # Unlike asyncio's, an Exception: it is not the caller that was cancelled.
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
        # Whoever was interrupted does not ask for it, which asyncio would report.
        _ = task.cancelled() or task.exception()
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._wake.put(None)


# By the process. A fork has no thread of its parent's. The parent's loop is kept and left alone: its selector is shared
# with the parent, which would be deaf if the child closed what is registered there.
_loops: dict[int, _Loop] = {}
# A loop alone does not keep its tasks from being collected.
_tasks: set[asyncio.Task[Any]] = set()
_closing: dict[Callable[[], Coroutine[Any, Any, None]], None] = {}


def run(work: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
    """Run a coroutine to its end. May be called in any thread, and in a signal handler while its thread waits here.

    Whatever ends the wait, a signal handler that raises included, ends the coroutine first.

    :param work: the coroutine.
    :param timeout: the most seconds that it may take; None for ever.
    :return: what the coroutine returns; what it raises is raised here.
    :raises TimeoutError: it took longer.
    """
    running = _Running(_current().loop, work)
    try:
        # Not before: a signal may come between any two lines.
        running.begin()
        if not running.wait(math.inf if timeout is None else timeout):
            raise TimeoutError(f"it took longer than {timeout:g} s")
        return running.result()
    finally:
        if not running.wait(0):
            running.end()


def run_aside(work: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Begin a coroutine, and wait for it for so long at most. It goes on then, and its errors go into the log.

    :param work: the coroutine.
    :param seconds: how long the caller may be kept.
    """
    running = _Running(_current().loop, _logged(work))
    running.begin()
    running.wait(seconds)


def at_end(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have something in the loop closed before the interpreter ends, in the order in which it was asked for. Asked
    twice, it is closed once.

    :param close: gives the coroutine that closes it.
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
    # Without a lock, for the reason above. A thread, or a signal handler in this one, may be quicker.
    process = os.getpid()
    if process not in _loops:
        mine = _Loop()
        if _loops.setdefault(process, mine) is not mine:
            mine.end()
    return _loops[process]
