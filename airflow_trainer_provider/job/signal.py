"""A signal that wakes a waiting task."""

from __future__ import annotations

import asyncio


class Signal:
    """Wakes one task. A waiting task costs one object, whatever it waits for."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Let :meth:`wait` return, now or when it is called next."""
        self._is_set = True
        _finish(self._waiter)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, and clear it.

        :param seconds: how long at most; None for ever.
        :return: False after a timeout.
        """
        if not self._is_set and (seconds is None or seconds > 0):
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, _finish, self._waiter)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        was_set, self._is_set = self._is_set, False
        return was_set


def _finish(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
