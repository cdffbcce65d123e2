"""Requests to Airflow from threads do not overlap."""

from __future__ import annotations

import asyncio
import threading
import time

from airflow_trainer_provider.hooks.supervisor import ask as module
from airflow_trainer_provider.hooks.supervisor.ask import ask, finish_asking
from tests.unit.hooks.interrupting import interrupted_at_each_line

TIMEOUT = 60


async def test_threads_ask_one_after_the_other(monkeypatch):
    # Longer than a busy machine stalls.
    monkeypatch.setattr(module, "_WAIT_SECONDS", 60)
    asking = []

    def request():
        asking.append(1)
        assert len(asking) == 1
        time.sleep(0.01)
        asking.pop()

    await asyncio.gather(*(ask(request) for _ in range(5)))


async def test_the_last_of_several_requests_that_were_given_up_is_waited_for(monkeypatch):
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.01)
    begun, ended = threading.Barrier(3), []

    def request(seconds):
        begun.wait()
        time.sleep(seconds)
        ended.append(seconds)

    # The second does not wait for the first, which takes long.
    asking = [asyncio.ensure_future(ask(request, seconds)) for seconds in (0.2, 0.4)]
    await asyncio.to_thread(begun.wait)
    for each in asking:
        each.cancel()
    finish_asking()

    assert sorted(ended) == [0.2, 0.4]


def test_a_signal_handler_that_raises_between_any_two_lines_leaves_requests_to_others():
    def begin(request):
        thread = threading.Thread(target=lambda: asyncio.run(ask(request)), daemon=True)
        thread.start()
        return thread

    def begin_one_that_is_waited_for():
        begun = threading.Event()
        thread = begin(lambda: (begun.set(), time.sleep(0.01)))
        begun.wait(TIMEOUT)
        return thread

    given_up, interrupted = begin_one_that_is_waited_for(), 0
    for each in interrupted_at_each_line(finish_asking):
        interrupted += each
        for thread in (given_up, begin(int)):
            thread.join(TIMEOUT)
            assert not thread.is_alive()
        given_up = begin_one_that_is_waited_for()
    assert interrupted > 2
