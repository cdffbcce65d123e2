"""Waits that end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from airflow_trainer_provider import timeouts
from airflow_trainer_provider.timeouts import end_tasks, with_timeout


async def test_what_comes_in_time_is_returned():
    assert await with_timeout(asyncio.sleep(0, "done"), 60) == "done"
    assert await with_timeout(asyncio.sleep(0.001, "done"), None) == "done"


async def test_what_fails_in_time_raises_its_own_error():
    async def fail():
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await with_timeout(fail(), 60)


async def test_what_takes_longer_is_cancelled_and_has_cleaned_up():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            ended.append(True)

    with pytest.raises(asyncio.TimeoutError):
        await with_timeout(work(), 0.01)
    assert ended


async def test_what_ends_in_its_own_way_though_its_time_is_up_counts():
    async def work():
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "at last"

    assert await with_timeout(work(), 0.01) == "at last"


@pytest.mark.parametrize("seconds", [60, None])
async def test_a_cancellation_that_comes_together_with_what_is_waited_for_is_not_lost(seconds):
    """``asyncio.wait_for()`` loses it on Python 3.10 and 3.11."""
    changed = asyncio.Event()

    async def wait():
        await with_timeout(changed.wait(), seconds)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0.01)
    changed.set()
    # The wait for the event has ended by then, and the task that waits for that has not gone on.
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting}, timeout=60)

    assert waiting.cancelled()


async def test_what_is_waited_for_is_cancelled_with_the_caller():
    began, ended = asyncio.Event(), []

    async def work():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    waiting = asyncio.create_task(with_timeout(work(), 60))
    await began.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert waiting.cancelled()
    assert ended


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(monkeypatch):
    monkeypatch.setattr(timeouts, "_AGAIN_SECONDS", 0.001)
    cancelled = 0

    async def stubborn():
        nonlocal cancelled
        while cancelled < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled += 1
        raise OSError("dropped")

    done = asyncio.create_task(asyncio.sleep(0))
    stubborn_one, other = asyncio.create_task(stubborn()), asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0.001)

    ending = asyncio.create_task(end_tasks([done, stubborn_one, other]))
    await asyncio.wait({ending}, timeout=30)

    times = cancelled
    while not ending.done():
        stubborn_one.cancel()
        await asyncio.sleep(0)
    assert times == 3
    assert (done.cancelled(), stubborn_one.done(), other.cancelled()) == (False, True, True)


async def test_who_is_cancelled_while_tasks_end_waits_for_them_all_the_same():
    cleaned_up = 0

    async def slow():
        nonlocal cleaned_up
        try:
            await asyncio.Event().wait()
        finally:
            # Three cancellations of the caller come meanwhile, and none of this task.
            await may_end.wait()
            cleaned_up += 1

    may_end = asyncio.Event()
    tasks = [asyncio.create_task(slow()) for _ in range(2)]
    await asyncio.sleep(0)
    ending = asyncio.create_task(end_tasks(tasks))
    for _ in range(3):
        await asyncio.sleep(0.001)
        ending.cancel()
    await asyncio.sleep(0.001)
    assert not ending.done()
    may_end.set()
    await asyncio.wait({ending}, timeout=60)

    assert ending.cancelled()
    assert cleaned_up == 2


async def test_no_tasks_have_ended():
    await end_tasks([])
