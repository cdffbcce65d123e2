"""What a trigger waits for before it fires, on a real socket."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from types import SimpleNamespace

import pytest

from airflow_trainer_provider.triggers import firing

_LINE = b"a line\n" * 100
TASK = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1)


@pytest.fixture
def pipe(monkeypatch):
    """Both ends of the socket that the root logger's lines go through."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("w") as stream:
        handler = logging.StreamHandler(stream)
        monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler(), handler])
        yield ours, theirs


@pytest.fixture
def triggerer(pipe, monkeypatch):
    """One that reads up to 4 KiB of the log whenever it answers; each answer is an error."""
    case = SimpleNamespace(answers=0, read=b"", others=b"")

    async def state_of(identity):
        case.answers += 1
        await asyncio.sleep(0)
        case.read += pipe[1].recv(4096)
        if case.others:
            pipe[0].sendall(case.others)
        raise ConnectionError("the database is away")

    monkeypatch.setattr(firing, "state_of", state_of)
    return case


async def test_a_trigger_waits_until_its_lines_have_been_read(pipe, triggerer):
    for _ in range(50):
        pipe[0].sendall(_LINE)

    await firing.lines_are_written(TASK)

    assert triggerer.read == 50 * _LINE
    # Nothing more is asked than needed.
    assert triggerer.answers == 9


async def test_lines_of_other_triggers_do_not_keep_it_waiting(pipe, triggerer):
    triggerer.others = b"x" * 5000
    for _ in range(50):
        pipe[0].sendall(_LINE)

    await firing.lines_are_written(TASK)

    assert triggerer.read.startswith(50 * _LINE)


async def test_a_log_that_is_a_file_is_not_waited_for(monkeypatch, tmp_path):
    with (tmp_path / "log").open("w") as stream:
        monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler(stream)])

        assert firing._unread() == 0


@pytest.fixture
def waits(monkeypatch):
    """What was waited for, in turn."""
    found = []

    async def sleep(seconds):
        found.append(seconds)

    async def lines_are_written(ti):
        found.append("lines")

    monkeypatch.setattr(firing.asyncio, "sleep", sleep)
    monkeypatch.setattr(firing, "lines_are_written", lines_are_written)
    return found


async def test_a_job_that_ends_at_once_wakes_its_task_when_the_worker_is_gone(waits, monkeypatch):
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "7")

    await firing.ready_to_fire(SimpleNamespace(task_instance="ti"), time.monotonic() - 2)

    assert waits == [pytest.approx(8, abs=1), "lines"]


async def test_a_job_that_has_run_for_long_wakes_its_task_as_soon_as_its_lines_are_written(waits):
    await firing.ready_to_fire(SimpleNamespace(task_instance="ti"), time.monotonic() - 60)

    assert waits == [0, "lines"]


async def test_where_no_triggerer_runs_the_trigger_it_waits_for_nothing(waits):
    await firing.ready_to_fire(SimpleNamespace(task_instance=None), time.monotonic())

    assert waits == []
