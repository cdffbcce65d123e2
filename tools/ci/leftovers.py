"""What earlier runs of any checkout have left on this machine: processes, folders and the test cluster."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from pathlib import Path

from tools.ci import processes
from tools.ci.processes import MARK, Process

#: A process of an Airflow that was started by tools/airflow_runner has this variable, and so has each of its jobs.
INSTANCE = "TRAINER_RUNNER_INSTANCE"
#: Each run has a temporary folder: this with the run's name behind it.
FOLDER_PREFIX = "airflow-ci-"
#: Where tests/cluster has what belongs to a running cluster.
CLUSTER_STATE = Path("/var/lib/airflow-trainer-provider/cluster")
_GRACE = 10.0


def end_leftovers(folders: Path) -> list[str]:
    """End the processes of runs that have ended, and Airflows that no run has started; remove their folders.

    What belongs to a run that goes on is left alone, so a run inside of a stage of another run ends nothing.

    :param folders: where the temporary folders of runs are.
    :return: a line for each process and each folder.
    """
    if MARK in os.environ:
        return []
    lines = [f"ended: {process}" for process in processes.end(_left, _GRACE)]
    for folder in folders.glob(f"{FOLDER_PREFIX}*"):
        run = folder.name.removeprefix(FOLDER_PREFIX)
        if re.fullmatch(r"\d+\.\d+", run) and not processes.is_alive(run):
            shutil.rmtree(folder, ignore_errors=True)
            lines.append(f"removed: {folder}")
    return lines


def cluster_is_left() -> bool:
    """Whether there is something of a test cluster that no run uses, and that this user may end."""
    if MARK in os.environ or others() or os.geteuid() != 0 or not CLUSTER_STATE.exists():
        return False
    lock = CLUSTER_STATE.with_name("test.lock")
    if not lock.exists():
        return True
    with lock.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def others() -> list[Process]:
    """The processes of other runs that go on."""
    return [process for process in processes.running() if processes.is_alive(process.environment.get(MARK, ""))]


def _left() -> list[Process]:
    return [process for process in processes.running() if _is_left(process)]


def _is_left(process: Process) -> bool:
    mark = process.environment.get(MARK)
    return INSTANCE in process.environment if mark is None else not processes.is_alive(mark)
