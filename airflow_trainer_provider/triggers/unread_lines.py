"""Waits for log lines that the triggerer's supervisor has not read yet."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import math
import struct
import termios
from contextlib import suppress
from weakref import WeakKeyDictionary

from airflow_trainer_provider.hooks.task import state_of
from airflow_trainer_provider.job.identity import Identity

#: How much of the log the supervisor reads in each iteration of its loop, in bytes.
_READ_AT_ONCE = 4096


async def lines_are_written(identity: Identity) -> None:
    """Wait until the triggerer's supervisor has written all lines that were logged so far to the task's log.

    The supervisor reads 4 KiB in each iteration of its loop, in which it also queries its database and answers a
    request. When a trigger has finished, the supervisor closes the log file: lines that it reads later are missing in
    the task's log. All triggers share the socket, so it may never be empty. But the bytes that are in it now are read
    after a known number of iterations.

    :param identity: a task. The request that is used to count iterations asks for its state, and changes nothing.
    """
    supervisor = _Supervisor.here()
    last = supervisor.turns + supervisor.is_asked + math.ceil(unread_bytes() / _READ_AT_ONCE)
    while supervisor.turns < last and unread_bytes():
        await supervisor.has_turn(identity)


class _Supervisor:
    """Counts the iterations of the triggerer's supervisor, once for all triggers of an event loop."""

    def __init__(self) -> None:
        #: The number of iterations that have ended.
        self.turns = 0
        self._request: asyncio.Task[None] | None = None

    @classmethod
    def here(cls) -> _Supervisor:
        loop = asyncio.get_running_loop()
        if loop not in _supervisors:
            _supervisors[loop] = cls()
        return _supervisors[loop]

    @property
    def is_asked(self) -> bool:
        """Whether a request is pending, so that the supervisor may have begun the iteration that answers it."""
        return self._request is not None

    async def has_turn(self, identity: Identity) -> None:
        if self._request is None:
            self._request = asyncio.ensure_future(self._ask(identity))
        # Not cancelled with its caller: Airflow 3.1 would use the answer to a cancelled request for the next request.
        await asyncio.shield(self._request)

    async def _ask(self, identity: Identity) -> None:
        try:
            # An error also shows that the supervisor has answered.
            with suppress(Exception):
                await state_of(identity)
        finally:
            self.turns += 1
            self._request = None


_supervisors: WeakKeyDictionary[asyncio.AbstractEventLoop, _Supervisor] = WeakKeyDictionary()


def unread_bytes() -> int:
    """How many bytes of the log the supervisor has not read; 0 if the system does not report it.

    These are bytes of the kernel's memory: at least as many as the lines have, and several times as many if the lines
    are short.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            try:
                answer = fcntl.ioctl(handler.stream.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
            except (OSError, ValueError, AttributeError):
                # A file, a stream without a descriptor, or a system without this request.
                continue
            return int(struct.unpack("i", answer)[0])
    return 0
