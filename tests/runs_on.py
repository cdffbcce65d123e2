"""What a run of pytest runs on, where a stage of CI says what it has to be: a stage whose environment or database is
not the one that it is named for would test the usual one twice, and be green.
"""

from __future__ import annotations

import os
import platform
from importlib import metadata

import pytest

from tools.airflow_runner.databases import CHOICE, DEFAULT
from tools.ci.stages import RUNS_ON


def check() -> None:
    """Compare what the stage names with what is there.

    :raises pytest.UsageError: something differs.
    """
    wanted = dict(item.split("=") for item in os.environ.get(RUNS_ON, "").split())
    if not wanted:
        return
    found = {
        "python": platform.python_version().rpartition(".")[0],
        "airflow": metadata.version("apache-airflow"),
        "database": os.environ.get(CHOICE, DEFAULT),
    }
    if wrong := [f"{name} {found[name]} instead of {value}" for name, value in wanted.items() if found[name] != value]:
        raise pytest.UsageError(f"This run is on {', '.join(wrong)}, as {RUNS_ON} has it.")
