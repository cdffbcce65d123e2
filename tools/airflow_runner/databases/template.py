"""What is kept for all instances: an empty database of each kind and Airflow version, with its tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.airflow_runner.settings import environment, write_config


def cache_folder() -> Path:
    """Return the folder that outlives a checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airflow-trainer-provider"


def migrate(home: Path, url: str) -> None:
    """
    Make Airflow's tables.

    :param home: an AIRFLOW_HOME for this alone.
    :param url: of the database.
    """
    write_config(
        home / "airflow.cfg",
        {
            "core": {"load_examples": "False"},
            "database": {"sql_alchemy_conn": url},
            "logging": {"base_log_folder": str(home / "logs")},
        },
    )
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env=environment(home, marker="template", extra={}),
        check=True,
        stdout=subprocess.DEVNULL,
    )
