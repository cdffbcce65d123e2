"""Runs one long piece of work in each iteration of the event loop, so that other tasks are not delayed for long."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


class Pace:
    """Takes turns: in each iteration of the event loop, one waiting task continues, in the order of their arrival.

    However many tasks wait, everything else in the loop is delayed by one piece of work at most. Use :meth:`here`.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False

    @classmethod
    def here(cls) -> Pace:
        """The pace of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in _paces:
            _paces[loop] = cls()
        return _paces[loop]

    async def turn(self) -> None:
        """Wait for a turn. Call it before each piece of work that takes some milliseconds."""
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
