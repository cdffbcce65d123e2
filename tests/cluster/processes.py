"""Identify a process for certain: a pid alone is no identity, as the kernel gives it out again."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process on this machine.

    :param pid: its id.
    :param started: kernel ticks between boot and its start.
    :param boot: id of the boot in which it ran.
    """

    pid: int
    started: int
    boot: str

    @classmethod
    def from_stat(cls, stat: str, boot: str) -> Process:
        """From the text of ``/proc/<pid>/stat``."""
        pid, _, rest = stat.partition(" ")
        # The program's name, in parentheses, may hold spaces.
        fields = rest.rpartition(")")[2].split()
        return cls(int(pid), int(fields[19]), boot.strip())

    @property
    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        state = stat.rpartition(")")[2].split()[0]
        return state != "Z" and Process.from_stat(stat, boot_id()) == self

    def kill(self) -> None:
        """End it at once, if it still runs."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)

    def children(self) -> list[int]:
        """Pids of its direct children."""
        try:
            return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            return []


def boot_id() -> str:
    """Identity of the machine's current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pid_namespace(pid: int) -> str | None:
    """Identity of a process's PID namespace, or None when it is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


def in_namespace(namespace: str) -> list[int]:
    """Pids of all processes in a PID namespace."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if pid_namespace(pid) == namespace]


def wait_until_empty(namespace: str, seconds: float = 90) -> None:
    """Wait until no process is left in a PID namespace.

    :raises TimeoutError: naming those that remain.
    """
    deadline = time.monotonic() + seconds
    while left := in_namespace(namespace):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the test cluster was killed, but these processes of it remain: {left}")
        time.sleep(0.05)
