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
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
#: How long a coroutine that was cancelled may take to clean up, in seconds.
_CLEAN_UP_SECONDS = 5
#: A signal that comes just before a thread begins to wait has its handler called when the wait ends, so none is long.
_LISTEN_SECONDS = 0.5


class _Loop:
    """An event loop that a thread of this process runs."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="trainer-loop", daemon=True).start()


class _Running(Future[_T]):
    """A coroutine in a loop that another thread runs; ends when the coroutine has, and not before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> None:
        super().__init__()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[_T] | None = None

    def begin(self) -> None:
        """Start the coroutine."""
        self._loop.call_soon_threadsafe(self._begin)

    def end(self) -> None:
        """Cancel the coroutine, and wait until it has cleaned up."""
        # After _begin(), if that has come to pass: the loop keeps the order.
        self._loop.call_soon_threadsafe(self._cancel)
        wait([self], _CLEAN_UP_SECONDS)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._settle)

    def _cancel(self) -> None:
        if self._task:
            self._task.cancel()
        else:
            self._work.close()
            self._settle_cancelled()

    def _settle(self, task: asyncio.Task[_T]) -> None:
        if task.cancelled():
            self._settle_cancelled()
        elif error := task.exception():
            self.set_exception(error)
        else:
            self.set_result(task.result())

    def _settle_cancelled(self) -> None:
        self.cancel()
        self.set_running_or_notify_cancel()


# Reentrant: a signal handler may come in while its own thread makes the loop.
_lock = threading.RLock()
_loops: list[_Loop] = []
_aside: set[Future[None]] = set()
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
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not running.done():
            if time.monotonic() >= end:
                raise TimeoutError(f"it took longer than {timeout:g} s")
            wait([running], min(_LISTEN_SECONDS, end - time.monotonic()))
        return running.result()
    finally:
        if not running.done():
            running.end()


def run_aside(work: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Begin a coroutine, and wait for it for so long at most. It goes on then, and its errors go into the log.

    :param work: the coroutine.
    :param seconds: how long the caller may be kept.
    """
    running = _Running(_current().loop, _logged(work))
    # A loop alone does not keep its tasks from being collected.
    _aside.add(running)
    running.add_done_callback(_aside.discard)
    running.begin()
    wait([running], seconds)


def at_end(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have something in the loop closed before the interpreter ends, in the order in which it was asked for. Asked
    twice, it is closed once.

    :param close: gives the coroutine that closes it.
    """
    if not _closing:
        atexit.register(_end)
    _closing.setdefault(close)


def _end() -> None:
    if _loops and _loops[-1].pid == os.getpid():
        for close in _closing:
            run_aside(close(), _CLEAN_UP_SECONDS)


async def _logged(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except Exception:
        _log.exception("What was begun for a task that is over has failed")


def _current() -> _Loop:
    with _lock:
        # A fork has no thread of its parent's. The parent's loop is kept and left alone: its selector is shared with
        # the parent, which would be deaf if the child closed what is registered there.
        if not _loops or _loops[-1].pid != os.getpid():
            _loops.append(_Loop())
        return _loops[-1]
