"""Requests run one after the other, for a bounded share of the time."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from itertools import pairwise
from types import SimpleNamespace

import pytest

from airflow_trainer_provider.hooks.supervisor.ask import ask
from airflow_trainer_provider.hooks.supervisor.queue import RequestQueue, Turn
from airflow_trainer_provider.timeouts import with_timeout


async def test_writes_pause_four_times_as_long_as_they_take():
    times = []

    async def work():
        times.append(time.monotonic())
        await asyncio.sleep(0.03)

    queue = RequestQueue.here()
    await asyncio.gather(*(queue.run(work) for _ in range(4)))

    assert all(after - before >= 0.14 for before, after in pairwise(times))


@pytest.fixture
def clock(monkeypatch):
    """Function (seconds) -> lets time pass for requests."""
    now, passed = time.monotonic, [0.0]
    monkeypatch.setattr(f"{RequestQueue.__module__}.time", SimpleNamespace(monotonic=lambda: now() + passed[0]))

    def let_pass(seconds):
        passed[0] += seconds

    return let_pass


async def test_a_request_that_takes_long_is_not_followed_by_a_long_pause(clock, monkeypatch):
    monkeypatch.setattr(f"{RequestQueue.__module__}._LONGEST_PAUSE", 0.05)
    queue = RequestQueue()

    async def take_an_hour():
        clock(3600)

    await queue.run(take_an_hour)
    began = time.monotonic()
    await with_timeout(queue.run(lambda: asyncio.sleep(0)), 60)

    assert time.monotonic() - began >= 0.04


async def test_what_is_urgent_does_not_wait_for_the_others(clock, monkeypatch):
    monkeypatch.setattr(f"{RequestQueue.__module__}._LONGEST_PAUSE", 3600)
    order = []

    def work(name, seconds=0.0):
        async def write():
            order.append(name)
            await asyncio.sleep(seconds)
            clock(36_000 * seconds)

        return write

    queue = RequestQueue()
    # The others would wait for an hour.
    usual = [asyncio.ensure_future(queue.run(work("slow", 0.1)))]
    await asyncio.sleep(0.01)
    usual += [asyncio.ensure_future(queue.run(work(f"usual {at}"))) for at in range(2)]
    soon = [asyncio.ensure_future(queue.run(work(f"soon {at}"), Turn.SOON)) for at in range(2)]
    await asyncio.sleep(0)
    await with_timeout(queue.run(work("last"), Turn.LAST), 60)

    await asyncio.gather(*usual, *soon)
    assert order == ["slow", "last", "soon 0", "soon 1", "usual 0", "usual 1"]


async def test_a_request_that_fails_or_is_not_waited_for_stops_no_other():
    async def fail():
        raise OSError("no Airflow")

    done = []

    async def work():
        done.append(1)

    queue = RequestQueue()
    failing = asyncio.ensure_future(queue.run(fail))
    cancelled = asyncio.ensure_future(queue.run(work))
    await asyncio.sleep(0)
    cancelled.cancel()
    last = asyncio.ensure_future(queue.run(work))

    with pytest.raises(OSError, match="no Airflow"):
        await failing
    await last
    assert done == [1]


async def test_a_request_runs_in_the_context_of_the_task_that_makes_it():
    task, found = ContextVar("task"), []
    queue = RequestQueue()

    async def report(name):
        task.set(name)

        async def work():
            found.append((name, await ask(task.get)))

        await queue.run(work)

    await asyncio.gather(*(report(name) for name in "ab"))

    assert found == [("a", "a"), ("b", "b")]


async def test_log_lines_do_not_wait_for_a_pause_while_no_job_ends(clock, monkeypatch):
    monkeypatch.setattr(f"{RequestQueue.__module__}._LONGEST_PAUSE", 3600)
    queue = RequestQueue()

    async def take_an_hour():
        clock(3600)

    await queue.run(take_an_hour)
    usual = asyncio.ensure_future(queue.run(take_an_hour))
    await asyncio.sleep(0.01)

    await with_timeout(queue.run(lambda: asyncio.sleep(0), Turn.SOON), 60)

    assert not usual.done()
    usual.cancel()
