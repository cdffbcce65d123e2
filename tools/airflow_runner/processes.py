"""Finds and ends all processes of an instance, including those that have left its process tree.

A training job's processes have sessions and parents of their own, so neither a process group nor a process tree
contains all of them. They are found by their environment: every process that an instance starts inherits its marker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

from tools.airflow_runner.settings import MARKER

#: Seconds until a process that got SIGKILL has ended, also on a busy machine.
_END_SECONDS = 30.0


def of_instance(marker: str) -> list[psutil.Process]:
    """
    Return the living processes of an instance, without the calling process.

    :param marker: identity of the instance.
    """
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARKER) == marker and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end_all(marker: str, grace: float = 10.0) -> None:
    """
    End all processes of an instance: SIGTERM, and SIGKILL for those that are left after the grace period.

    :param marker: identity of the instance.
    :param grace: seconds between the two.
    :raises RuntimeError: a process survived SIGKILL.
    """
    deadline = time.monotonic() + grace
    killed_at: float | None = None
    asked: set[psutil.Process] = set()
    while remaining := of_instance(marker):
        now = time.monotonic()
        if killed_at is None and now > deadline:
            killed_at = now
        if killed_at is not None and now - killed_at > _END_SECONDS:
            raise RuntimeError(f"still there after SIGKILL: {remaining}")
        for process in remaining:
            with contextlib.suppress(psutil.NoSuchProcess):
                if killed_at is not None:
                    process.kill()
                elif process not in asked:
                    process.send_signal(signal.SIGTERM)
                    asked.add(process)
        psutil.wait_procs(remaining, timeout=0.1)
