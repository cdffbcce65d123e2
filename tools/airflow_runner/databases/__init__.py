"""Where the metadata of an instance is: in SQLite, or in a PostgreSQL of its own."""

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
    """A metadata database of an instance alone."""

    def prepare(self, env: Mapping[str, str], like: Any = None) -> None:
        """
        Make it, as ``airflow db migrate`` does.

        :param env: of its processes.
        :param like: a database of the same kind whose rows it gets.
        """

    def url(self, lock_seconds: int) -> str:
        """
        Return how SQLAlchemy reaches it.

        :param lock_seconds: after which a client gives up that waits for another one's lock on all of the database.
        """

    def is_held_by(self, component: str) -> bool:
        """
        Return whether a component that is stopped would keep others waiting.

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
