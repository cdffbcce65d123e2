"""What the tests see of the jobs that Airflow runs."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil

from airflow_trainer_provider.local.processes import UID_VARIABLE
from tools.airflow_runner.api import TIMEOUT, wait_until

SCRIPT = Path(__file__).parent / "scripts" / "job.py"
_SUPERVISOR = "airflow_trainer_provider.local.supervisor.run"
#: Names the process that runs these tests. Its Airflows inherit it, and each job has the environment of its Airflow:
#: others may run the same tests on this machine.
_TEST_PROCESS = "TRAINER_TEST_PROCESS"
os.environ[_TEST_PROCESS] = secrets.token_hex(8)


class JobFolder:
    """Where the test job meets its test.

    :param path: the folder that the job is given.
    """

    script = SCRIPT

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def go(self) -> None:
        """Let the job come to its end."""
        (self.path / "go").touch()

    def stay(self) -> None:
        """Keep the jobs that begin from now on from coming to their end."""
        (self.path / "go").unlink()

    def trainings(self) -> list[str]:
        """The job of each training that began."""
        try:
            return (self.path / "trainings").read_text().split()
        except FileNotFoundError:
            return []

    def wait_for_training(self, count: int = 1, seconds: float = TIMEOUT) -> None:
        """Wait until so many trainings have begun."""
        wait_until(lambda: len(self.trainings()) >= count or None, seconds, lambda: f"trainings: {self.trainings()}")

    def lines_of(self, log: str, replica: str) -> int:
        """How many lines the replica says that it wrote."""
        found = re.search(rf"\[{replica}\] (\d+) lines of rank", log)
        assert found, log
        return int(found[1])


def line_numbers(log: str, replica: str, rank: int) -> list[int]:
    """The numbers of the replica's lines in a task's log, in the order in which they stand there."""
    return [int(number) for number in re.findall(rf"\[{replica}\] line (\d+) of rank {rank}\b", log)]


def job_processes(uid: str | None = None) -> list[psutil.Process]:
    """The living processes of the test's job script, of one job or of all that this process's tests have started."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(SCRIPT) not in process.cmdline():
                continue
            env = process.environ()
            if env.get(_TEST_PROCESS) == os.environ[_TEST_PROCESS] and uid in (None, env.get(UID_VARIABLE)):
                found.append(process)
        except psutil.Error:
            continue
    return found


def supervisor_of(job: str) -> psutil.Process:
    """The supervisor of a local job.

    :param job: its name.
    """
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if _SUPERVISOR in words and Path(words[-1]).name == job:
                return process
    raise LookupError(job)


def time_of(text: str) -> datetime:
    """A time as Airflow and the provider write it; Python 3.10 does not know ``Z``."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
