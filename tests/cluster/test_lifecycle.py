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
from tests.cluster.node import Node, wait_for
from tests.cluster.paths import ROOT, STATE
from tests.cluster.runner import NO_CLUSTER, PROFILE_VARIABLE

#: Which a kubelet changes.
_SETTINGS = ("vm/overcommit_memory", "kernel/panic")
pytestmark = [
    pytest.mark.profile(NO_CLUSTER),
    pytest.mark.skipif(
        os.environ.get(PROFILE_VARIABLE) != NO_CLUSTER, reason="ends the running cluster: only in make test-cluster"
    ),
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
        "kernel": [f"{name}={Path('/proc/sys', name).read_text()}" for name in _SETTINGS],
        "control groups": [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{NAME}")],
    }


def _new_since(before):
    """What the machine has now and did not have then; other work on it ends at any time."""
    new = {what: sorted(set(now) - set(before[what])) for what, now in _machine().items()}
    return {what: found for what, found in new.items() if found}


def _processes():
    """Command lines that speak of the cluster, and the namespaces that processes live in.

    All of ours have namespaces of their own, whatever they are called.
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
    assert _new_since(before)["processes"]
    _harness("down")
    assert not STATE.exists()
    # Other work on the machine comes and goes: what it began meanwhile may still go on for a while.
    wait_for(lambda: not _new_since(before), f"the end of {_new_since(before)}", seconds=30)


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
    _harness("up", "--profile", "mpi")
    # With the same process ids.
    assert Node().components() == before


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_up_replaces_broken_cluster(running, fault):
    """As a test leaves it that was killed while a fault was on."""
    Node().send("etcd", fault)
    _harness("up", "--profile", "mpi")
    assert cluster.api_ready()
