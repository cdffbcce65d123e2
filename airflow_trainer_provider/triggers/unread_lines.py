"""The lines of the log that the triggerer's supervisor has not read."""

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

#: How much of the log the supervisor reads at each of its turns, in bytes.
_READ_AT_ONCE = 4096


async def lines_are_written(identity: Identity) -> None:
    """Wait until the triggerer's supervisor has written all lines into the task's log that were logged up to now.

    It reads 4 KiB at each of its turns, in which it also looks at its database and answers a request. When a trigger
    has finished, it closes the file: lines that it reads later are missing in the task's log. The triggers share the
    socket, so that it may never be empty; but so many turns have read what is in it.

    :param identity: of the task whose state is asked for, as a request that changes nothing.
    """
    supervisor = _Supervisor.here()
    last = supervisor.turns + supervisor.is_asked + math.ceil(unread_bytes() / _READ_AT_ONCE)
    while supervisor.turns < last and unread_bytes():
        await supervisor.has_turn(identity)


class _Supervisor:
    """The turns of the process that supervises the triggerer, counted once for all triggers of an event loop."""

    def __init__(self) -> None:
        #: Those that have ended.
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
        """Whether it has a request, and may have begun the turn that answers it."""
        return self._request is not None

    async def has_turn(self, identity: Identity) -> None:
        if self._request is None:
            self._request = asyncio.ensure_future(self._ask(identity))
        # Not cancelled with its caller: Airflow 3.1 takes the answer to a request that was given up for the next one's.
        await asyncio.shield(self._request)

    async def _ask(self, identity: Identity) -> None:
        try:
            # An error is an answer, too.
            with suppress(Exception):
                await state_of(identity)
        finally:
            self.turns += 1
            self._request = None


_supervisors: WeakKeyDictionary[asyncio.AbstractEventLoop, _Supervisor] = WeakKeyDictionary()


def unread_bytes() -> int:
    """How much of the log the supervisor has not read; 0 where that cannot be known.

    In bytes of the kernel's memory: at least as many as the lines have, and several times as many where they are short.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            try:
                answer = fcntl.ioctl(handler.stream.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
            except (OSError, ValueError, AttributeError):
                # A file, a stream without a descriptor, or a system that does not know of it.
                continue
            return int(struct.unpack("i", answer)[0])
    return 0
