"""Starting and ending clusters on this machine: what is left, and what a killed run leaves to the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster import cluster
from tests.cluster.cgroups import NAME
from tests.cluster.debian import which
from tests.cluster.node import Node
from tests.cluster.paths import ROOT, STATE
from tests.cluster.runner import NO_CLUSTER, PROFILE_VARIABLE

pytestmark = [
    pytest.mark.profile(NO_CLUSTER),
    pytest.mark.skipif(
        os.environ.get(PROFILE_VARIABLE) != NO_CLUSTER, reason="ends the running cluster: only in make test-cluster"
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module", autouse=True)
def nothing_left():
    yield
    _harness("down")


@pytest.fixture
def nothing_running():
    _harness("down")


@pytest.fixture
def running():
    """A cluster is up: that of the test before, where it left one."""
    _harness("up", "--profile", "mpi")


def _command(*argv):
    return [sys.executable, "-m", "tests.cluster", *argv]


def _harness(*argv):
    done = subprocess.run(_command(*argv), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _machine():
    """What the cluster could leave on the machine."""
    return {
        "processes": _processes(),
        "mounts": sorted(Path("/proc/self/mounts").read_text().splitlines()),
        "links": _lines("ip", "-oneline", "link"),
        "addresses": _lines("ip", "-oneline", "address"),
        "routes": _lines("ip", "route"),
        "iptables": [line for line in _lines("iptables-save") if line.startswith("-")],
        "kernel": [Path("/proc/sys", name).read_text() for name in ("vm/overcommit_memory", "kernel/panic")],
        "control groups": [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{NAME}")],
    }


def _processes():
    """Command lines that speak of the cluster, and the namespaces that processes live in.

    All of ours have namespaces of their own, whatever they are called. Not all processes of the machine: other work
    comes and goes.
    """
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if "tests.cluster" in line or str(STATE) in line:
                    found.add(line)
                found |= {str((entry / "ns" / kind).readlink()) for kind in ("pid", "net", "mnt")}
    return sorted(found)


def _lines(program, *argv):
    found = which(program)
    assert found, program
    return subprocess.run([found, *argv], capture_output=True, text=True, check=True).stdout.splitlines()


def test_down_leaves_nothing(nothing_running):
    before = _machine()
    _harness("up", "--profile", "mpi")
    assert Node().running
    during = _machine()
    assert during["processes"] != before["processes"]
    _harness("down")
    assert _machine() == before
    assert not STATE.exists()


def test_down_without_cluster_is_no_error(nothing_running):
    _harness("down")


@pytest.mark.parametrize("after", [(0.3, 2.0), (6.0,)])
def test_up_recovers_from_runs_killed_in_the_middle(nothing_running, after):
    for seconds in after:
        started = subprocess.Popen(_command("up", "--profile", "mpi"), cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(seconds)
        started.send_signal(signal.SIGKILL)
        started.wait()
    _harness("up", "--profile", "mpi")
    assert all(state["exit"] is None for state in Node().components().values())


def test_second_up_keeps_cluster(running):
    before = Node().components()
    started = time.monotonic()
    _harness("up", "--profile", "mpi")
    assert Node().components() == before
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_up_replaces_broken_cluster(running, fault):
    """As a test leaves it that was killed while a fault was on."""
    Node().send("etcd", fault)
    _harness("up", "--profile", "mpi")
    assert cluster.api_ready()
