"""The loop in the background: one for all callers, interrupted by whatever interrupts its caller, new after a fork."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import threading

import pytest

from airflow_trainer_provider.hooks import loop as module
from airflow_trainer_provider.hooks.loop import run, run_aside
from tests.unit.hooks.interrupting import Interrupted, interrupted_at_each_line

TIMEOUT = 60


async def _loop():
    return asyncio.get_running_loop()


class Work:
    """Waits until it is cancelled, and then takes its time."""

    def __init__(self):
        self.began, self.cleaned_up = threading.Event(), False

    async def __call__(self):
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            self.cleaned_up = True


@pytest.fixture
def on_signal():
    """Sets what the process does on SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


def _signal_when(began):
    def kill():
        began.wait(TIMEOUT)
        os.kill(os.getpid(), signal.SIGUSR1)

    threading.Thread(target=kill).start()


def test_all_callers_share_one_loop_which_belongs_to_none_of_them():
    seen = [run(_loop())]
    thread = threading.Thread(target=lambda: seen.append(run(_loop())))
    thread.start()
    thread.join()

    assert seen[0] is seen[1]
    assert seen[0].is_running()


def test_threads_that_need_the_first_loop_at_once_get_the_same(monkeypatch):
    monkeypatch.setattr(module, "_loops", {})
    together, found = threading.Barrier(8), []

    def ask():
        together.wait(TIMEOUT)
        found.append(run(_loop(), timeout=TIMEOUT))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)

    assert len(found) == 8
    assert len(set(found)) == 1
    (one,) = module._loops.values()
    one.end()


async def test_a_caller_may_sit_in_a_loop_of_its_own():
    assert run(_loop()) is not asyncio.get_running_loop()


def test_what_the_coroutine_raises_is_raised():
    async def fail():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        run(fail(), timeout=TIMEOUT)


def test_a_coroutine_that_takes_too_long_is_ended():
    work = Work()

    with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"):
        run(work(), timeout=0.05)

    assert work.cleaned_up


def test_what_a_coroutine_raises_after_its_caller_has_gone_is_not_reported_as_never_retrieved(caplog):
    async def fail_late():
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("late")

    with pytest.raises(TimeoutError):
        run(fail_late(), timeout=0.02)
    gc.collect()
    run(asyncio.sleep(0))

    assert "never retrieved" not in caplog.text


def test_a_signal_handler_that_raises_ends_the_coroutine_before_the_caller_goes_on(on_signal):
    work = Work()

    def interrupt(*_):
        raise Interrupted

    on_signal(interrupt)
    _signal_when(work.began)

    with pytest.raises(Interrupted):
        run(work())

    assert work.cleaned_up


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_signal_handler_that_raises_between_any_two_lines_leaves_the_loop_to_others():
    async def work():
        await asyncio.sleep(0.001)
        return "done"

    # To make the loop takes locks of the library, which only a trace function leaves locked.
    loop, interrupted = run(_loop()), 0
    for each in interrupted_at_each_line(lambda: run(work(), timeout=TIMEOUT)):
        interrupted += each
        assert run(_loop(), timeout=TIMEOUT) is loop
        # Another thread, too, which shares no reentrant lock with this one.
        other = threading.Thread(target=run, args=(asyncio.sleep(0),), kwargs={"timeout": TIMEOUT}, daemon=True)
        other.start()
        other.join(TIMEOUT)
        assert not other.is_alive()
    assert interrupted > 50


def test_a_signal_handler_uses_the_loop_while_its_thread_waits_for_it(on_signal):
    began, called, over = threading.Event(), [], threading.Event()

    async def main():
        began.set()
        return await asyncio.to_thread(over.wait, TIMEOUT)

    async def note(how):
        called.append(how)

    def handler(*_):
        run(note("run"))
        run_aside(note("aside"), TIMEOUT)
        over.set()

    on_signal(handler)
    _signal_when(began)

    assert run(main())
    assert called == ["run", "aside"]


def test_what_is_done_aside_goes_on_after_its_callers_timeout(caplog):
    go, ended = threading.Event(), threading.Event()

    async def work():
        await asyncio.to_thread(go.wait, TIMEOUT)
        ended.set()
        raise ValueError("for the log")

    run_aside(work(), 0.02)
    assert not ended.is_set()
    with caplog.at_level(logging.ERROR):
        go.set()
        assert ended.wait(TIMEOUT)
        run(asyncio.sleep(0))

    assert "for the log" in caplog.text


def test_a_fork_has_a_loop_of_its_own_and_leaves_its_parents_alone():
    mine = run(_loop())
    child = os.fork()
    if child == 0:
        # Whatever happens, it does not go on with the tests.
        try:
            other = run(_loop(), timeout=TIMEOUT)
            os._exit(0 if other is not mine and not mine.is_closed() else 1)
        finally:
            os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run(_loop(), timeout=TIMEOUT) is mine


def test_what_is_in_the_loop_is_closed_before_the_interpreter_ends():
    script = """
from airflow_trainer_provider.hooks.loop import at_end, run

async def close():
    print("closed")

async def work():
    pass

at_end(close)
at_end(close)
run(work())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("closed\n", "")
