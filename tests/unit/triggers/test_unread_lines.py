"""The lines that a triggerer's supervisor has not read, on a real socket."""

from __future__ import annotations

import asyncio
import logging
import socket
from types import SimpleNamespace

import pytest

from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.triggers import unread_lines

_LINE = b"a line\n" * 100
TASK = Identity(dag_id="d", run_id="r", task_id="train")


@pytest.fixture
def pipe(monkeypatch):
    """Both ends of the socket that the root logger's lines go through."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("w") as stream:
        handler = logging.StreamHandler(stream)
        monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler(), handler])
        yield ours, theirs


@pytest.fixture
def supervisor(pipe, monkeypatch):
    """One that reads up to 4 KiB of the log, and then answers: with an error."""
    case = SimpleNamespace(answers=0, is_cancelled=False, read=b"", others=b"")
    case.has_read, case.may_answer, case.is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()
    case.may_answer.set()

    async def state_of(identity):
        assert identity == TASK
        case.read += pipe[1].recv(4096)
        case.has_read.set()
        if case.others:
            pipe[0].sendall(case.others)
        try:
            await case.may_answer.wait()
        except asyncio.CancelledError:
            case.is_cancelled = True
            raise
        finally:
            case.is_over.set()
        await asyncio.sleep(0)
        case.answers += 1
        raise ConnectionError("the database is away")

    monkeypatch.setattr(unread_lines, "state_of", state_of)
    return case


async def test_a_trigger_waits_until_its_lines_have_been_read(pipe, supervisor):
    for _ in range(50):
        pipe[0].sendall(_LINE)

    await unread_lines.lines_are_written(TASK)

    assert supervisor.read == 50 * _LINE
    # Nothing more is asked than needed.
    assert supervisor.answers == 9


async def test_lines_of_other_triggers_do_not_keep_it_waiting(pipe, supervisor):
    supervisor.others = b"x" * 5000
    for _ in range(50):
        pipe[0].sendall(_LINE)

    await unread_lines.lines_are_written(TASK)

    assert supervisor.read.startswith(50 * _LINE)
    # The kernel counts more than the bytes.
    assert supervisor.answers <= 50


async def test_triggers_that_finish_together_share_the_requests(pipe, supervisor):
    for _ in range(50):
        pipe[0].sendall(_LINE)

    await asyncio.gather(*(unread_lines.lines_are_written(TASK) for _ in range(100)))

    assert supervisor.answers == 9


async def test_a_turn_that_has_begun_is_not_counted_for_lines_that_are_logged_meanwhile(pipe, supervisor):
    supervisor.may_answer.clear()
    pipe[0].sendall(_LINE)
    first = asyncio.create_task(unread_lines.lines_are_written(TASK))
    await supervisor.has_read.wait()
    pipe[0].sendall(_LINE)
    second = asyncio.create_task(unread_lines.lines_are_written(TASK))
    await asyncio.sleep(0)
    supervisor.may_answer.set()

    await first
    assert supervisor.read == _LINE
    await second
    assert supervisor.read == 2 * _LINE


async def test_a_request_outlives_the_trigger_that_made_it(pipe, supervisor):
    supervisor.may_answer.clear()
    pipe[0].sendall(_LINE)
    trigger = asyncio.create_task(unread_lines.lines_are_written(TASK))
    await supervisor.has_read.wait()

    trigger.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trigger
    supervisor.may_answer.set()
    await supervisor.is_over.wait()

    assert not supervisor.is_cancelled


async def test_a_log_that_is_a_file_is_not_waited_for(monkeypatch, tmp_path):
    with (tmp_path / "log").open("w") as stream:
        monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler(stream)])

        assert unread_lines.unread_bytes() == 0
