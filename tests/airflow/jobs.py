"""What the tests see of the jobs that Airflow runs."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from airflow_trainer_provider.local.processes import UID_VARIABLE
from tools.airflow_runner.api import wait_until

SCRIPT = Path(__file__).parent / "scripts" / "job.py"


class JobFolder:
    """Where the test job meets its test.

    :param path: the folder that the job is told.
    """

    script = SCRIPT

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def go(self) -> None:
        """Let the job come to its end."""
        (self.path / "go").touch()

    def trainings(self) -> list[str]:
        """The job of each training that began."""
        try:
            return (self.path / "trainings").read_text().split()
        except FileNotFoundError:
            return []

    def wait_for_training(self, count: int = 1) -> None:
        """Wait until so many trainings have begun."""
        wait_until(lambda: len(self.trainings()) >= count or None, 60, lambda: f"trainings: {self.trainings()}")

    def lines_of(self, log: str, replica: str) -> int:
        """How many lines the replica says that it wrote."""
        found = re.search(rf"\[{replica}\] (\d+) lines of rank", log)
        assert found, log
        return int(found[1])


def line_numbers(log: str, replica: str, rank: int) -> list[int]:
    """The numbers of the replica's lines in a task's log, in the order in which they stand there."""
    return [int(number) for number in re.findall(rf"\[{replica}\] line (\d+) of rank {rank}\b", log)]


def job_processes(uid: str | None = None) -> list[psutil.Process]:
    """The living processes of the test's job script, of one job or of all."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(SCRIPT) in process.cmdline() and uid in (None, process.environ().get(UID_VARIABLE)):
                found.append(process)
        except psutil.Error:
            continue
    return found
