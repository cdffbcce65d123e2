"""The control group below which the kubelet puts its pods: one place, so that all of it can be removed."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: Name of the group, as the kubelet's ``cgroupRoot``.
NAME = "trainer-test-cluster"
_MOUNT = Path("/sys/fs/cgroup")
#: Four times the kernel's default, by file: all pods together would else get no more than one process of the tests.
_WEIGHTS = {"cpu.shares": "4096", "cpu.weight": "400"}
#: Seconds in which the kernel has released a group whose last process has just ended.
_FREED_WITHIN = 30


def version() -> int:
    """1 for a hierarchy per controller, 2 for the unified one."""
    return 2 if (_MOUNT / "cgroup.controllers").exists() else 1


def create() -> None:
    """Make the group in every hierarchy: the kubelet wants it to exist."""
    for hierarchy in _hierarchies():
        if version() == 2:
            _delegate(hierarchy)
        (hierarchy / NAME).mkdir(exist_ok=True)
        for setting, weight in _WEIGHTS.items():
            if (hierarchy / NAME / setting).exists():
                (hierarchy / NAME / setting).write_text(weight)
        if hierarchy.name == "cpuset":
            # A new cpuset starts empty, and nothing can be put into it or below it until it has these.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                inherited = (hierarchy / setting).read_text().strip()
                with suppress(FileNotFoundError):
                    (hierarchy / NAME / setting).write_text(inherited)


def remove() -> None:
    """Remove the group with all below it; no process may be left in it."""
    deadline = time.monotonic() + _FREED_WITHIN
    for hierarchy in _hierarchies():
        for folder, _, _ in os.walk(hierarchy / NAME, topdown=False):
            _remove(Path(folder), deadline)


def _remove(group: Path, deadline: float) -> None:
    while True:
        try:
            return group.rmdir()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _hierarchies() -> Iterator[Path]:
    if version() == 2:
        yield _MOUNT
        return
    # cpu and cpuacct are often links to one common hierarchy.
    yield from {path.resolve() for path in _MOUNT.iterdir() if path.is_dir() and (path / "cgroup.procs").exists()}


def _delegate(root: Path) -> None:
    for controller in (root / "cgroup.controllers").read_text().split():
        with suppress(OSError):  # Some cannot be handed down here; the kubelet names those that it misses.
            (root / "cgroup.subtree_control").write_text(f"+{controller}")
