"""Bounded waits: a timeout that does not lose a cancellation, and the cancellation of tasks until they have ended.

Where the work may continue after the timeout, use ``asyncio.wait(tasks, timeout=...)``: it cancels nothing, and a
cancellation of its caller reaches the caller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")
#: After how many seconds a task that continues despite its cancellation is cancelled again. This is longer than any
#: clean-up, which would be interrupted otherwise: the last save of a log cursor may take 5 s.
_AGAIN_SECONDS = 10.0


async def with_timeout(work: Awaitable[_T], seconds: float | None) -> _T:
    """Wait for an awaitable, and cancel it if it takes too long.

    ``asyncio.wait_for()`` of Python 3.10 and 3.11 loses a cancellation of its caller that arrives in the same iteration
    of the event loop as the result (https://github.com/python/cpython/issues/86296): the caller then continues, and
    code that waits for its end waits for ever. This function keeps the cancellation.

    :param work: the awaitable. It is also cancelled if the caller is cancelled.
    :param seconds: the maximum time; None for no limit.
    :return: the result of the work; its exceptions are raised here. This also applies if the work ends with a result or
        an exception of its own after it was cancelled.
    :raises asyncio.TimeoutError: the work took longer.
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
    """Cancel tasks, and wait until they have ended. A task that suppresses the cancellation is cancelled again.

    :param tasks: the tasks; some may have ended. Their exceptions are dropped.
    :raises asyncio.CancelledError: the caller was cancelled meanwhile. The tasks have ended in this case, too.
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
