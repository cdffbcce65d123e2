"""What wakes a task that waits."""

from __future__ import annotations

import asyncio

from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.timeouts import with_timeout


async def test_a_signal_that_was_set_before_is_not_missed():
    signal = Signal()
    signal.set()

    assert await signal.wait()
    assert not await signal.wait(0)


async def test_it_wakes_who_waits():
    signal = Signal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    signal.set()
    signal.set()

    assert await with_timeout(waiting, 60)
    assert not await signal.wait(0.001)


async def test_who_gives_up_leaves_it_as_it_was():
    signal = Signal()
    waiting = asyncio.create_task(signal.wait(60))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    signal.set()

    assert await signal.wait(60)
