"""Places for those who read logs, and turns at the processor."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from airflow_trainer_provider.cluster.logs import streams as log_streams
from airflow_trainer_provider.cluster.logs.pace import Pace
from airflow_trainer_provider.cluster.logs.streams import LogStreams
from tests.unit.cluster.api_server import until


@pytest.fixture
async def streams(monkeypatch):
    monkeypatch.setattr(log_streams, "_LOOK", 0.001)
    monkeypatch.setattr(LogStreams, "limit", 2)
    return LogStreams.here()


class Reader:
    """Holds a permit until it is asked to release it."""

    def __init__(self, streams, leaves=True):
        self.leaves = leaves
        self.asked = 0
        self.reads = False
        self.had_to_wait = None
        self.may_go = asyncio.Event()
        self.task = asyncio.create_task(self._run(streams))

    async def _run(self, streams):
        async with streams.permit(self._leave) as self.had_to_wait:
            self.reads = True
            await self.may_go.wait()
        self.reads = False

    def _leave(self, had):
        assert had >= 0
        self.asked += 1
        if self.leaves:
            self.may_go.set()
        return self.leaves

    async def end(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def readers(streams, count, **options):
    made = [Reader(streams, **options) for _ in range(count)]
    await asyncio.sleep(0)
    return made


async def test_no_reader_is_asked_to_leave_where_none_waits(streams):
    both = await readers(streams, 2)
    await asyncio.sleep(0.01)
    assert [(each.reads, each.had_to_wait, each.asked) for each in both] == [(True, False, 0)] * 2
    for each in both:
        await each.end()


async def test_those_who_wait_get_the_permits_of_those_who_leave_in_their_order(streams):
    two = await readers(streams, 2, leaves=False)
    late = await readers(streams, 3, leaves=False)
    await asyncio.sleep(0.01)
    assert [each.reads for each in late] == [False, False, False]
    two[1].leaves = True
    await asyncio.wait({two[1].task})
    await until(lambda: late[0].reads and two[0].asked)
    assert [each.reads for each in late] == [True, False, False]
    assert late[0].had_to_wait
    await two[0].end()
    await until(lambda: late[1].reads)
    assert [each.reads for each in late] == [True, True, False]
    for each in late:
        await each.end()


async def test_only_as_many_are_asked_as_wait(streams):
    two = await readers(streams, 2)
    late = await readers(streams, 1)
    await asyncio.wait({two[0].task})
    await until(lambda: late[0].reads)
    await asyncio.sleep(0.01)
    assert (late[0].reads, two[1].reads, two[1].asked) == (True, True, 0)
    for each in (two[1], late[0]):
        await each.end()


async def test_a_reader_that_is_cancelled_leaves_no_gap(streams):
    two = await readers(streams, 2, leaves=False)
    late = await readers(streams, 3, leaves=False)
    await late[0].end()
    # Its permit comes just before it is cancelled.
    two[0].may_go.set()
    await asyncio.sleep(0)
    late[1].task.cancel()
    await until(lambda: late[2].reads)
    for each in (*two, *late):
        await each.end()
    async with AsyncExitStack() as stack:
        for _ in range(2):
            assert not await stack.enter_async_context(streams.permit(lambda had: False))


async def test_one_piece_of_work_in_each_round_of_the_loop():
    rounds, done = 0, []

    async def count():
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    async def work(name):
        for _ in range(20):
            await Pace.here().turn()
            done.append((rounds, name))

    counting = asyncio.create_task(count())
    lost = asyncio.create_task(Pace.here().turn())
    workers = [asyncio.create_task(work(name)) for name in range(5)]
    await asyncio.sleep(0)
    lost.cancel()
    await asyncio.gather(*workers)
    counting.cancel()

    assert len({at for at, _ in done}) == len(done) == 100
    assert [name for _, name in done[:10]] == [0, 1, 2, 3, 4] * 2
