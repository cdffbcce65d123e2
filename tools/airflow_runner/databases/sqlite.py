"""A metadata database in one file, with one writer at a time."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from tools.airflow_runner.databases.template import cache_folder, migrate


class Sqlite:
    """
    A metadata database in SQLite.

    :param file: where it is.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def prepare(self, env: Mapping[str, str], like: Sqlite | None = None) -> None:
        """Copy the file of another database, or the template."""
        if like:
            shutil.copyfile(like.file, self.file)
        else:
            copy_template(self.file)

    def url(self, lock_seconds: int) -> str:
        """Return its address."""
        return f"sqlite:///{self.file}?timeout={lock_seconds}"

    def is_held_by(self, component: str) -> bool:
        """Return whether its one lock is held: the components that run release it soon, and only a stopped one keeps
        it.
        """
        with closing(sqlite3.connect(self.file, timeout=2)) as database:
            try:
                database.execute("begin immediate")
            except sqlite3.OperationalError:
                return True
        return False

    @property
    def outside(self) -> str:
        """Empty: its file is in the instance's home."""
        return ""


def copy_template(target: Path) -> None:
    """
    Copy a new metadata database to a path, as ``airflow db migrate`` creates it.

    :param target: path of the file.
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
        migrate(home, f"sqlite:///{database}")
        connection = sqlite3.connect(database)
        # The file keeps this setting: with a write-ahead log, processes that read do not block the one that writes.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
        database.replace(template)
