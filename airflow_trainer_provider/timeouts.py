"""Waits that end: a time-out that no cancellation gets lost in, and tasks that are cancelled until they have ended.

Where the work may go on after the time-out, ``asyncio.wait(tasks, timeout=...)`` is right: it cancels nothing, and a
cancellation of its caller reaches the caller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")
#: How soon a task that goes on though it was cancelled is cancelled again, in seconds. Longer than any clean-up takes,
#: which this would cut short: the last save of a log cursor has 5.
_AGAIN_SECONDS = 10.0


async def with_timeout(work: Awaitable[_T], seconds: float | None) -> _T:
    """Wait for something, and cancel it where it takes too long.

    ``asyncio.wait_for()`` of Python 3.10 and 3.11 swallows a cancellation of its caller that comes in the same round of
    the event loop as what it waits for (https://github.com/python/cpython/issues/86296): the caller then goes on, and
    who waits for its end waits for ever. This does not.

    :param work: what to wait for. It is cancelled with the caller, too.
    :param seconds: how long it may take; None for ever.
    :return: what the work returns; what it raises is raised here. That also counts where it ends in its own way though
        it was cancelled.
    :raises asyncio.TimeoutError: it took longer.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        is_late = not task.done()
        await end_tasks([task])
    if is_late and task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until they have ended: one that swallows the cancellation is cancelled again.

    :param tasks: of which some may have ended. What they raise is dropped.
    :raises asyncio.CancelledError: the caller was cancelled meanwhile. The tasks have ended then, too.
    """
    tasks = list(tasks)
    cancelled: asyncio.CancelledError | None = None
    cancel_at = 0.0
    while left := [task for task in tasks if not task.done()]:
        now = time.monotonic()
        if now >= cancel_at:
            for task in left:
                task.cancel()
            cancel_at = now + _AGAIN_SECONDS
        try:
            await asyncio.wait(left, timeout=cancel_at - now)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        # Otherwise asyncio reports an exception that was never retrieved.
        _ = task.cancelled() or task.exception()
    if cancelled:
        raise cancelled
