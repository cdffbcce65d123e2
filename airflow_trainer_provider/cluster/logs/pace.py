"""Runs one piece of long work in each round of the event loop, so that the rest of it is not kept waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


class Pace:
    """Turns at the processor: in each round of the event loop, one of those who wait goes on, in their order.

    However many they are, everything else in the loop waits for one piece of work at most. Use :meth:`here`.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False

    @classmethod
    def here(cls) -> Pace:
        """The one of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in _paces:
            _paces[loop] = cls()
        return _paces[loop]

    async def turn(self) -> None:
        """Wait for a turn, before each piece of some milliseconds' work."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._plan()
        await mine

    def _plan(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                break
        self._plan()
