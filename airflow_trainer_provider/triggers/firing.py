"""What a trigger waits for before its event wakes the task."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import math
import struct
import termios
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import conf

from airflow_trainer_provider.hooks.task import TaskInstanceLike, identity_of_task, state_of

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

#: Seconds from the end of the process that deferred the task until the scheduler has noted it.
_NOTED_SECONDS = 3.0
#: How much of the log the triggerer reads at each of its turns, in bytes.
_READ_AT_ONCE = 4096


async def ready_to_fire(trigger: BaseTrigger, begun: float) -> None:
    """Wait until the trigger's event loses neither the task's try nor lines of its log.

    :param trigger: that is about to fire. It has no task instance where no triggerer runs it, as in ``dag.test()``.
    :param begun: when it began, on the clock of :func:`time.monotonic`.
    """
    if trigger.task_instance is not None:
        await worker_is_gone(begun)
        await lines_are_written(trigger.task_instance)


async def worker_is_gone(begun: float) -> None:
    """Wait until the worker that deferred the task has ended, and the scheduler knows of it.

    A scheduler that hears of that end only while the task runs again takes the task for killed, and fails its try. The
    worker itself notices the end of its process up to ``[workers] min_heartbeat_interval`` late.

    :param begun: when the trigger began, on the clock of :func:`time.monotonic`.
    """
    interval = conf.getint("workers", "min_heartbeat_interval", fallback=5)
    await asyncio.sleep(max(0.0, begun + interval + _NOTED_SECONDS - time.monotonic()))


async def lines_are_written(ti: TaskInstanceLike) -> None:
    """Wait until the triggerer has written all lines into the task's log that were logged up to now.

    The process that writes them reads 4 KiB at each of its turns, in which it also looks at its database and answers a
    request. When a trigger has finished, it closes the file: lines that it reads later are missing in the task's log.
    The triggers share the socket, so that it may never be empty; but so many turns have read what is in it.

    :param ti: whose state is asked for, as a request that changes nothing.
    """
    identity = identity_of_task(ti)
    for _ in range(math.ceil(_unread() / _READ_AT_ONCE)):
        if _unread() == 0:
            break
        # An error is an answer, too.
        with suppress(Exception):
            await state_of(identity)


def _unread() -> int:
    """How many bytes of the log the process that writes it has not read; 0 where that cannot be known."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            try:
                answer = fcntl.ioctl(handler.stream.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
            except (OSError, ValueError, AttributeError):
                # A file, a stream without a descriptor, or a system that does not know of it.
                continue
            return int(struct.unpack("i", answer)[0])
    return 0
