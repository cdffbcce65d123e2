"""What tests/loop_checks.py is for fails a test, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loop_checks import LONGEST, THOROUGH

_CONFTEST = """\
from tests import loop_checks

def pytest_configure(config):
    loop_checks.register(config)
"""
_TESTS = f"""\
import asyncio, gc, os, time
import aiohttp
import pytest

KEPT = [[] for _ in range(1_000_000)]

async def test_an_exception_that_is_never_retrieved():
    async def fails():
        raise ValueError("lost")
    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    del task
    gc.collect()

async def test_a_session_that_is_not_closed():
    session = aiohttp.ClientSession()
    del session
    gc.collect()

async def keep_the_loop():
    end = time.thread_time() + {2 * LONGEST}
    while time.thread_time() < end:
        pass

async def test_a_callback_that_keeps_the_loop():
    await keep_the_loop()

async def test_a_callback_that_keeps_the_loop_of_a_worker_thread():
    await asyncio.to_thread(asyncio.run, keep_the_loop())

@pytest.mark.loop_errors
async def test_one_that_is_exempt_in_debug_mode():
    session = aiohttp.ClientSession()
    del session
    gc.collect()

async def test_one_that_waits():
    await asyncio.sleep({2 * LONGEST})

async def test_one_that_collects_garbage():
    for _ in range(5):
        gc.collect()

async def test_one_that_another_process_holds_up_is_not_measured_by_the_wall_clock(caplog):
    asyncio.get_running_loop().call_soon(time.sleep, {2 * LONGEST})
    await asyncio.sleep({2 * LONGEST})
    assert "Executing" not in caplog.text

async def test_the_debug_mode_of_the_tests_loop_and_of_others():
    others = asyncio.new_event_loop()
    others.close()
    is_thorough = "{THOROUGH}" in os.environ
    assert (asyncio.get_running_loop().get_debug(), others.get_debug()) == (is_thorough, is_thorough)

async def test_an_exception_that_only_a_collection_of_garbage_finds():
    gc.disable()
    async def fails():
        raise ValueError("in a circle")
    circle = [asyncio.create_task(fails())]
    circle.append(circle)
    await asyncio.sleep(0)
"""


@pytest.fixture
def failed(tmp_path):
    """Function (variables) -> which of the tests have failed, with what."""
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_loops.py").write_text(_TESTS)
    root = Path(__file__).parents[2]
    argv = [sys.executable, "-m", "pytest", "-c", str(root / "pyproject.toml"), f"--rootdir={tmp_path}", str(tmp_path)]

    def run(**variables):
        env = {name: value for name, value in os.environ.items() if name not in (THOROUGH, "PYTHONASYNCIODEBUG")}
        env |= {"PYTHONPATH": str(root), "PYTEST_ADDOPTS": "-p no:cacheprovider -p no:xdist", **variables}
        text = subprocess.run(argv, env=env, check=False, capture_output=True, text=True, timeout=120).stdout
        lines = [line for line in text.splitlines() if line.startswith("ERROR ") and "::test_" in line]
        assert f"10 passed, {len(lines)} error" in text, text
        return {line.partition("::")[2].partition(" ")[0]: text for line in lines}

    return run


def test_what_is_only_logged_fails_the_test(failed):
    found = failed()

    assert list(found) == [
        "test_an_exception_that_is_never_retrieved",
        "test_a_session_that_is_not_closed",
        "test_one_that_is_exempt_in_debug_mode",
    ]
    (text,) = set(found.values())
    assert "Task exception was never retrieved" in text
    assert 'ValueError("lost")' in text
    assert "Unclosed client session" in text


def test_a_thorough_run_also_finds_callbacks_that_take_long_and_what_only_a_collection_of_garbage_shows(failed):
    found = failed(**{THOROUGH: "1"})

    assert "test_a_callback_that_keeps_the_loop" in found
    assert len(found) == 4
    assert "coro=<test_a_callback_that_keeps_the_loop() " in found["test_a_callback_that_keeps_the_loop"]
    assert "kept the event loop for 0.2" in found["test_a_callback_that_keeps_the_loop"]
    assert 'ValueError("in a circle")' in found["test_an_exception_that_only_a_collection_of_garbage_finds"]
