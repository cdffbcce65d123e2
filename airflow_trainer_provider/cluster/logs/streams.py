"""Limits how many logs are read at a time: each holds a connection."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import ClassVar
from weakref import WeakKeyDictionary

#: How often readers are asked to release their permits while others wait, in seconds.
_LOOK = 0.5
_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, LogStreams] = WeakKeyDictionary()


class _Permit:
    """What a reader holds while it may read.

    :param leave: see :meth:`LogStreams.permit`.
    """

    def __init__(self, leave: Callable[[float], bool]) -> None:
        self.leave = leave
        self.granted = asyncio.get_running_loop().create_future()
        self.since = 0.0


class LogStreams:
    """A limiter: permits for readers. Where there are more readers than permits, they take turns. Use :meth:`here`."""

    #: How many permits each event loop has.
    limit: ClassVar[int] = 500

    def __init__(self) -> None:
        # The permit that has been held for longest comes first.
        self._taken: dict[_Permit, None] = {}
        self._waiting: deque[_Permit] = deque()
        self._look: asyncio.TimerHandle | None = None

    @classmethod
    def here(cls) -> LogStreams:
        """The limiter of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in _streams:
            _streams[loop] = cls()
        return _streams[loop]

    @asynccontextmanager
    async def permit(self, leave: Callable[[float], bool]) -> AsyncGenerator[bool, None]:
        """Hold a permit, once one is free. Yields whether the caller had to wait for it.

        :param leave: called now and then while others wait, with the number of seconds for which the permit has been
            held. It is a request to release the permit, and returns whether that will be done.
        """
        mine = _Permit(leave)
        self._waiting.append(mine)
        self._admit()
        had_to_wait = not mine.granted.done()
        try:
            await mine.granted
            yield had_to_wait
        finally:
            mine.granted.cancel()
            self._taken.pop(mine, None)
            self._admit()

    def _admit(self) -> None:
        while self._waiting and len(self._taken) < self.limit:
            permit = self._waiting.popleft()
            if not permit.granted.done():
                permit.granted.set_result(None)
                permit.since = time.monotonic()
                self._taken[permit] = None
        if self._waiting and self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK, self._ask)

    def _ask(self) -> None:
        self._look = None
        wanted = sum(not permit.granted.done() for permit in self._waiting)
        now = time.monotonic()
        for permit in self._taken:
            if wanted <= 0:
                break
            wanted -= permit.leave(now - permit.since)
        self._admit()
