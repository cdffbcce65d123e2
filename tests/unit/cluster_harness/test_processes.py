"""Processes are distinguished by more than their pid."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.processes import Process, boot_id

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def sleeper():
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def _identity(pid):
    return Process.from_stat(Path(f"/proc/{pid}/stat").read_text(), boot_id())


def test_running_process_is_alive(sleeper):
    assert _identity(sleeper.pid).alive


def test_other_process_under_same_pid_is_not_ours(sleeper):
    ours = _identity(sleeper.pid)
    for other in (replace(ours, started=ours.started - 1), replace(ours, boot="another")):
        assert not other.alive
        other.kill()
    assert sleeper.poll() is None


def test_killed_process_is_not_alive(sleeper):
    process = _identity(sleeper.pid)
    process.kill()
    sleeper.wait()
    assert not process.alive


def test_zombie_is_not_alive(sleeper):
    process = _identity(sleeper.pid)
    process.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive


def test_name_with_spaces_and_parentheses():
    stat = "42 (a b) c) S " + " ".join(str(number) for number in range(1, 40))
    assert Process.from_stat(stat, "boot\n") == Process(42, 19, "boot")
