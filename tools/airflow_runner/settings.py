"""The ``airflow.cfg`` and the environment of an instance."""

from __future__ import annotations

import configparser
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

#: The environment variable with the identity of an instance. Each process of the instance has it, and so has each
#: process that these start. Its name must not begin with AIRFLOW_: the local backend keeps such variables from training
#: jobs.
MARKER = "TRAINER_RUNNER_INSTANCE"

Config = Mapping[str, Mapping[str, str]]

#: Seconds for which a process waits until it may write. SQLite has one writer at a time; on a busy machine the others
#: wait longer than the default 5 s.
LOCK_SECONDS = 30
#: The same for the API server. It writes its audit log in its event loop. If another of its requests holds the lock and
#: waits for the event loop, the two wait for each other, and all of Airflow waits for them, until this time is over. It
#: has to be over before the scheduler counts as dead. The client sends the request again.
API_SERVER_LOCK_SECONDS = 5


def base_config(
    home: Path, port: int, dags: Sequence[Path], database: str, path: str = ""
) -> dict[str, dict[str, str]]:
    """
    Return the settings that make a small, quick Airflow that only this machine reaches.

    :param home: its AIRFLOW_HOME.
    :param port: the API server's port on 127.0.0.1.
    :param dags: the folders with DAG files, each becomes a DAG bundle of its own.
    :param database: the URL of its metadata database, for SQLAlchemy.
    :param path: below which the API server answers, such as ``/team/airflow``; empty for none.
    """
    url = f"http://127.0.0.1:{port}{path}"
    bundles = [
        {
            "name": f"{folder.parent.name}-{folder.name}",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(folder)},
        }
        for folder in dags
    ]
    return {
        "core": {
            "executor": "LocalExecutor",
            "parallelism": "4",
            "load_examples": "False",
            "dags_are_paused_at_creation": "False",
            "simple_auth_manager_all_admins": "True",
            "execution_api_server_url": f"{url}/execution/",
        },
        "database": {"sql_alchemy_conn": database},
        "logging": {"base_log_folder": str(home / "logs")},
        "api": {
            "host": "127.0.0.1",
            "port": str(port),
            "base_url": url,
            "workers": "1",
            "secret_key": secrets.token_urlsafe(32),
        },
        "api_auth": {"jwt_secret": secrets.token_urlsafe(64)},
        "dag_processor": {
            "dag_bundle_config_list": json.dumps(bundles),
            "refresh_interval": "5",
            # A changed file is parsed at once. Parsing the others every 5 s would take half a core.
            "min_file_process_interval": "600",
            "parsing_processes": "1",
        },
    }


def write_config(path: Path, *layers: Config) -> None:
    """
    Write an ``airflow.cfg``; of two layers that set the same option, the later one wins.

    :param path: of the file.
    :param layers: section -> option -> value.
    """
    parser = configparser.ConfigParser(interpolation=None)
    for layer in layers:
        for section, options in layer.items():
            if not parser.has_section(section):
                parser.add_section(section)
            for option, value in options.items():
                # Airflow interpolates %(name)s when it reads.
                parser.set(section, option, value.replace("%", "%%"))
    with path.open("w") as file:
        parser.write(file)


def environment(home: Path, marker: str, extra: Mapping[str, str]) -> dict[str, str]:
    """
    Return the environment of an instance's processes: the caller's own, without the settings of its Airflow.

    :param home: AIRFLOW_HOME.
    :param marker: identity of the instance.
    :param extra: what the caller adds.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AIRFLOW_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return inherited | {
        "AIRFLOW_HOME": str(home),
        MARKER: marker,
        # Airflow sets process titles, which by default overwrites the environment that ps and we read.
        "SPT_NOENV": "1",
        "PYTHONUNBUFFERED": "1",
        **extra,
    }
