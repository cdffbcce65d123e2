"""The metadata database: a copy of a template that is made once for each Airflow version."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tools.airflow_runner.settings import environment, write_config


def cache_folder() -> Path:
    """Return the folder that outlives a checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airflow-trainer-provider"


def copy_template(target: Path) -> None:
    """
    Put a fresh metadata database there, as ``airflow db migrate`` makes it.

    :param target: path of the SQLite file.
    """
    template = cache_folder() / f"metadata-{version('apache-airflow-core')}.db"
    if not template.exists():
        _make(template)
    shutil.copyfile(template, target)


def _make(template: Path) -> None:
    template.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        home = Path(folder)
        database = home / "airflow.db"
        write_config(
            home / "airflow.cfg",
            {
                "core": {"load_examples": "False"},
                "database": {"sql_alchemy_conn": f"sqlite:///{database}"},
                "logging": {"base_log_folder": str(home / "logs")},
            },
        )
        subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env=environment(home, marker="template", extra={}),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        connection = sqlite3.connect(database)
        # Kept in the file: with a write-ahead log, the processes that read don't block the one that writes.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
        database.replace(template)
