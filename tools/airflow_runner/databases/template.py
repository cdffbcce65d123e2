"""Templates for all instances: an empty database for each kind and Airflow version, with Airflow's tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.airflow_runner.settings import environment, write_config


def cache_folder() -> Path:
    """Return the folder for files that outlive a checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airflow-trainer-provider"


def migrate(home: Path, url: str) -> None:
    """
    Create Airflow's tables.

    :param home: an AIRFLOW_HOME that is used for nothing else.
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
