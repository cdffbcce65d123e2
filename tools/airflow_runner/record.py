"""The file that an instance writes to its home, so that other processes find the instance."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.airflow_runner import processes


@dataclass(frozen=True)
class Record:
    """
    An instance, for other processes than the one that started it.

    :param home: its AIRFLOW_HOME.
    :param marker: its identity; see :mod:`tools.airflow_runner.processes`.
    :param url: its address.
    :param code: :func:`~tools.airflow_runner.code.code_digest` when it was started.
    :param outside: the folder of its files that are not in its home; empty for none.
    """

    home: str
    marker: str
    url: str
    code: str
    outside: str = ""

    def write(self) -> None:
        """Write the record to the home."""
        _file(Path(self.home)).write_text(json.dumps(asdict(self)))

    def end(self, grace: float = 10) -> None:
        """
        End the instance, and remove its files outside its home.

        The record is removed, unless the home is gone or belongs to another instance.

        :param grace: seconds between SIGTERM and SIGKILL.
        """
        processes.end_all(self.marker, grace)
        if self.outside:
            shutil.rmtree(self.outside, ignore_errors=True)
        if read_record(Path(self.home)) == self:
            _file(Path(self.home)).unlink(missing_ok=True)


def read_record(home: Path) -> Record | None:
    """
    Return the instance that was started in a home, whether it still runs or not.

    :param home: its AIRFLOW_HOME. A copy of another instance's home counts as a home without a record.
    """
    try:
        record = Record(**json.loads(_file(home).read_text()))
    except FileNotFoundError:
        return None
    return record if record.home == str(home.absolute()) else None


def recorded_url(home: Path) -> str | None:
    """
    Return the address of the instance that runs in a home; None where none runs.

    :param home: its AIRFLOW_HOME.
    """
    record = read_record(home)
    return record.url if record and processes.of_instance(record.marker) else None


def end_recorded(home: Path) -> bool:
    """
    End the instance that was started in a home, whichever process started it.

    :param home: its AIRFLOW_HOME.
    :return: whether there was one.
    """
    if record := read_record(home):
        record.end()
    return record is not None


def _file(home: Path) -> Path:
    return home / "instance.json"
