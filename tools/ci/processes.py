"""The processes of a run, however far they went from the one that started them.

A training job's processes have sessions and parents of their own, so neither a process group nor a process tree holds
all of them. The environment does: whatever a stage starts inherits its mark, ``<run>/<stage>``. A run inside of a stage
adds to the mark of that stage.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: The environment variable with the mark.
MARK = "CI_RUN"
_KILLED_WITHIN = 10.0
#: States of a process that has ended, and that its parent has not asked about.
_ENDED = ("Z", "X")


@dataclass(frozen=True)
class Process:
    """A process of this machine.

    :param pid: its id.
    :param command: its command line.
    :param environment: what it was started with.
    """

    pid: int
    command: str
    environment: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.pid} {self.command[:150]}"


def running() -> Iterator[Process]:
    """Each process whose environment can be read, except for this one."""
    for folder in Path("/proc").glob("[0-9]*"):
        # A process that has ended meanwhile, or belongs to another user.
        with suppress(OSError):
            content = (folder / "environ").read_text(errors="replace")
            words = (folder / "cmdline").read_text(errors="replace").split("\0")
            environment = dict(entry.split("=", 1) for entry in content.split("\0") if "=" in entry)
            if int(folder.name) != os.getpid():
                yield Process(int(folder.name), " ".join(words).strip(), environment)


def new_run() -> str:
    """A name for the run that this process makes; :func:`is_alive` knows by it whether the process still runs."""
    own = f"{os.getpid()}.{_started(os.getpid())}"
    return f"{os.environ[MARK]}/{own}" if MARK in os.environ else own


def is_alive(mark: str) -> bool:
    """Whether the outermost run of a mark goes on.

    :param mark: of a process.
    """
    pid, _, started = mark.partition("/")[0].partition(".")
    return pid.isdecimal() and _started(int(pid)) == started


def of_mark(mark: str) -> list[Process]:
    """The processes of a run, or of one of its stages.

    :param mark: ``<run>`` or ``<run>/<stage>``.
    """
    return [process for process in running() if f"{process.environment.get(MARK)}/".startswith(f"{mark}/")]


def end(find: Callable[[], list[Process]], grace: float) -> list[Process]:
    """End processes: SIGTERM, then SIGKILL.

    :param find: returns those that are left.
    :param grace: seconds between the two.
    :return: all that were there.
    """
    ended: dict[int, Process] = {}
    begun = time.monotonic()
    while (left := find()) and time.monotonic() - begun < grace + _KILLED_WITHIN:
        for process in left:
            late = time.monotonic() - begun > grace
            if late or process.pid not in ended:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL if late else signal.SIGTERM)
            ended[process.pid] = process
        time.sleep(0.1)
    return list(ended.values())


def _started(pid: int) -> str:
    """When a process was started, in ticks since the machine was; empty where there is none, or it has ended."""
    try:
        # Behind the name, which may have spaces and parentheses.
        state, *words = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in _ENDED else words[18]
