"""What a run needs of the machine, and what it finds there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

#: GB that have to be free: environments, the metadata databases and logs of the tests, and the cluster's images.
NEEDED_GB = 15


def missing(*folders: Path) -> list[str]:
    """A line for each thing that a run needs and this machine lacks.

    :param folders: where the run writes.
    """
    return [
        f"{folder} has {_free_gb(folder):.1f} GB left, and a run needs {NEEDED_GB}. `make clean` and "
        "`rm -r ~/.cache/airflow-trainer-provider ~/.cache/uv` free some."
        for folder in folders
        if _free_gb(folder) < NEEDED_GB
    ]


def found(*folders: Path) -> str:
    """What there is, in one line.

    :param folders: where the run writes.
    """
    free = ", ".join(f"{_free_gb(folder):.0f} GB free in {folder}" for folder in folders)
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {free}"


def _free_gb(folder: Path) -> float:
    return shutil.disk_usage(folder).free / 1e9
