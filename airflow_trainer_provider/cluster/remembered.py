"""Caches answers for a fixed time; concurrent callers share one request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class Remembered:
    """A cache of answers by key, in one event loop.

    :param seconds: how long an answer is valid.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._answers: dict[str, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: str, ask: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """The answer for a key.

        Concurrent callers share one request, which continues even if the caller that started it is cancelled.

        :param key: of the answer.
        :param ask: finds the answer; where it raises, the next caller asks again.
        """
        asked_at, asking = self._answers.get(key, (0.0, None))
        if asking is None or _has_failed(asking) or time.monotonic() - asked_at >= self._seconds:
            asking = asyncio.create_task(ask(), name=f"answer for {key}")
            self._answers[key] = (time.monotonic(), asking)
        answer: _T = await asyncio.shield(asking)
        return answer

    def forget(self, key: str) -> None:
        """Forget an answer, so that the next call asks again.

        :param key: of the answer.
        """
        self._answers.pop(key, None)

    def close(self) -> None:
        """Forget all answers, and cancel running requests."""
        for _, asking in self._answers.values():
            asking.cancel()
        self._answers.clear()


def _has_failed(asking: asyncio.Task[Any]) -> bool:
    return asking.done() and (asking.cancelled() or asking.exception() is not None)
