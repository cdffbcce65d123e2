"""How many logs are followed at a time: each holds a connection."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import ClassVar
from weakref import WeakKeyDictionary

#: How often it is looked at who could leave while others wait, in seconds.
_LOOK = 0.5
_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, LogStreams] = WeakKeyDictionary()


class _Place:
    """What a reader has while it may read.

    :param leave: see :meth:`LogStreams.place`.
    """

    def __init__(self, leave: Callable[[float], bool]) -> None:
        self.leave = leave
        self.granted = asyncio.get_running_loop().create_future()
        self.since = 0.0


class LogStreams:
    """Places for readers. Where there are more readers than places, they take turns. Use :meth:`here`."""

    #: How many places each event loop has.
    limit: ClassVar[int] = 500

    def __init__(self) -> None:
        # The one who has had it for longest comes first.
        self._taken: dict[_Place, None] = {}
        self._waiting: deque[_Place] = deque()
        self._look: asyncio.TimerHandle | None = None

    @classmethod
    def here(cls) -> LogStreams:
        """Those of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in _streams:
            _streams[loop] = cls()
        return _streams[loop]

    @asynccontextmanager
    async def place(self, leave: Callable[[float], bool]) -> AsyncGenerator[bool, None]:
        """Have a place, once there is one. Gives whether it had to be waited for.

        :param leave: called now and then while others wait, with how many seconds the place has been had: asks to
            leave it, and tells whether that will be done.
        """
        mine = _Place(leave)
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
            place = self._waiting.popleft()
            if not place.granted.done():
                place.granted.set_result(None)
                place.since = time.monotonic()
                self._taken[place] = None
        if self._waiting and self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK, self._ask)

    def _ask(self) -> None:
        self._look = None
        wanted = sum(not place.granted.done() for place in self._waiting)
        now = time.monotonic()
        for place in self._taken:
            if wanted <= 0:
                break
            wanted -= place.leave(now - place.since)
        self._admit()
