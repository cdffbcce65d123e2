"""A lock that another process holds is waited for, and its holder is named."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cluster.locks import locked
from tests.cluster.paths import ROOT

_HOLDS = """
import sys
from pathlib import Path
from tests.cluster.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "not" / "there" / "it.lock"


@pytest.fixture
def holder(path):
    """A process that holds the lock until its input ends."""
    argv = [sys.executable, "-c", _HOLDS, str(path)]
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_lock_is_taken_again_after_its_end(path):
    for _ in range(2):
        with locked(path, seconds=0):
            assert path.read_text().startswith(f"pid {os.getpid()}: ")


def test_the_holder_is_named_at_once_and_when_the_time_is_over(path, holder, capsys):
    held = rf"for 0 s .*it\.lock has been held by pid {holder.pid}: -c"
    with pytest.raises(TimeoutError, match=held), locked(path, seconds=0.4):
        pass
    assert capsys.readouterr().out == f"waiting for {path}, held by pid {holder.pid}: -c {path} ...\n"


def test_a_lock_ends_with_its_holder(path, holder):
    holder.kill()
    with locked(path):
        assert path.read_text().startswith(f"pid {os.getpid()}: ")
