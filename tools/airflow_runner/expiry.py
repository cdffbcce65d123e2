"""Ends an instance after a time, whatever happens to the command, the shell and the checkout that started it.

``python -m tools.airflow_runner.expiry HOME SECONDS`` runs as a process of the instance itself, so whatever ends
the instance ends it too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tools.airflow_runner import processes
from tools.airflow_runner.record import Record, read_record
from tools.airflow_runner.settings import MARKER

#: Distinguishes the process from the other processes of the instance.
_MODULE = "tools.airflow_runner.expiry"


def start_expiry(record: Record, seconds: float) -> None:
    """
    End an instance after a time, which replaces any time that was set before.

    :param record: the instance.
    :param seconds: from now.
    """
    stop_expiry(record)
    subprocess.Popen(
        [sys.executable, "-m", _MODULE, record.home, str(seconds)],
        env=os.environ | {MARKER: record.marker},
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def stop_expiry(record: Record) -> None:
    """
    Keep an instance running, without a limit of time.

    :param record: the instance.
    """
    running = _running(record)
    for process in running:
        process.kill()
    psutil.wait_procs(running, timeout=30)


def expires(record: Record) -> bool:
    """
    Return whether a time was set.

    :param record: the instance.
    """
    return bool(_running(record))


def _running(record: Record) -> list[psutil.Process]:
    return [process for process in processes.of_instance(record.marker) if _MODULE in process.cmdline()]


def main() -> None:
    """Sleep, and end the instance that is in the home now. Everything that this needs is loaded before the sleep."""
    home, seconds = Path(sys.argv[1]), float(sys.argv[2])
    if record := read_record(home):
        time.sleep(seconds)
        record.end()


if __name__ == "__main__":
    main()
