"""An event loop whose clock jumps to whatever is due next: hours of waiting take as long as the work in them."""

from __future__ import annotations

import asyncio
import random
import selectors
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from unittest import mock

_T = TypeVar("_T")
#: Rounds of the loop in which the clock does not move, before that counts as a loop without end.
_ROUNDS = 100_000


class Endless(AssertionError):
    """Nothing more is due and the work has not ended, or it goes on for ever without time passing."""


class _Clock(selectors.SelectSelector):
    """What a loop asks to wait, which moves its clock instead."""

    def __init__(self) -> None:
        super().__init__()
        # Not 0, which "long ago" would be close to.
        self.now = 10_000.0
        self._rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Move the clock by the time that the loop would have waited."""
        if timeout is None:
            raise Endless("nothing is due any more, and something waits")
        self._rounds = 0 if timeout else self._rounds + 1
        if self._rounds > _ROUNDS:
            raise Endless(f"{_ROUNDS} rounds of the loop in which no time has passed")
        self.now += timeout
        return []


def run_virtual(work: Coroutine[Any, Any, _T], *, seed: int, seconds: float) -> _T:
    """Run on a loop of virtual time, with ``time.monotonic()`` of this thread and ``random`` to match. No other thread
    can wake the loop.

    :param work: what to run.
    :param seed: of ``random``.
    :param seconds: how long it may take, in virtual time.
    :raises Endless: it waits for ever, or longer than that, or has left tasks behind.
    """
    clock = _Clock()

    here, real = threading.get_ident(), time.monotonic

    def monotonic() -> float:
        # The loops of other threads go on, and what they plan has to become due.
        return clock.now if threading.get_ident() == here else real()

    loop = asyncio.SelectorEventLoop(clock)
    setattr(loop, "time", monotonic)  # noqa: B010 - mypy: a method
    chances = random.getstate()
    random.seed(seed)

    async def main() -> _T:
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise Endless(f"not at an end after {seconds:.0f} s: {sorted(map(_place, asyncio.all_tasks()))}")
        result = task.result()
        # What was cancelled has a moment to end.
        await asyncio.sleep(0.001)
        if left := sorted(_place(each) for each in asyncio.all_tasks() if each is not asyncio.current_task()):
            raise Endless(f"tasks are left: {left}")
        return result

    with mock.patch.object(time, "monotonic", monotonic):
        try:
            return loop.run_until_complete(main())
        finally:
            random.setstate(chances)
            _discard(loop)


def _place(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack()
    where = f"{frames[-1].f_code.co_name}:{frames[-1].f_lineno}" if frames else "?"
    return f"{task.get_name()} at {where}"


def _discard(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop with all that is left in it."""
    loop.set_exception_handler(lambda *_: None)
    for task in asyncio.all_tasks(loop):
        task.cancel()
    with suppress(Endless):
        for _ in range(1_000):
            loop.call_soon(loop.stop)
            loop.run_forever()
            if not asyncio.all_tasks(loop):
                break
    loop.close()
