"""The metadata database of an instance: SQLite, or a PostgreSQL server of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tools.airflow_runner.databases.postgresql import Postgresql
from tools.airflow_runner.databases.sqlite import Sqlite

#: The environment variable that names the database of all instances.
CHOICE = "TRAINER_RUNNER_DATABASE"
DEFAULT = "sqlite"


class Database(Protocol):
    """A metadata database that only one instance uses."""

    def prepare(self, env: Mapping[str, str], like: Any = None) -> None:
        """
        Create the database, as ``airflow db migrate`` does.

        :param env: of its processes.
        :param like: a database of the same kind, whose rows are copied into this one.
        """

    def url(self, lock_seconds: int) -> str:
        """
        Return the URL of the database, for SQLAlchemy.

        :param lock_seconds: how long a client waits for another client's lock on the whole database before it gives up.
        """

    def is_held_by(self, component: str) -> bool:
        """
        Return whether a stopped component holds a lock that others would wait for.

        :param component: a key of :data:`~tools.airflow_runner.instance.COMPONENTS`.
        """

    @property
    def outside(self) -> str:
        """The folder of its files that are not in the instance's home; empty for none."""


def chosen_database(home: Path, marker: str) -> Database:
    """
    Return the database of an instance.

    :param home: its AIRFLOW_HOME.
    :param marker: its identity.
    :raises ValueError: the environment names an unknown one.
    """
    name = os.environ.get(CHOICE, DEFAULT)
    if name == "sqlite":
        return Sqlite(home / "airflow.db")
    if name == "postgresql":
        return Postgresql(marker)
    raise ValueError(f"{CHOICE} is {name!r}; allowed: sqlite, postgresql")
