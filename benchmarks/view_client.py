"""One API server's answers: the Training page's list of jobs, and Airflow's own list of task instances, in turns.

``python -m benchmarks.view_client`` makes the tables of a database, fills them, and writes what it found as JSON. The
environment says which database, and how often it asks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import psutil
import sqlalchemy
from airflow import models, settings
from airflow.utils.db import initdb
from fastapi.testclient import TestClient

from airflow_trainer_provider.plugins.view.jobs import index
from benchmarks.view_jobs import fill

AIRFLOWS = "/api/v2/dags/~/dagRuns/~/taskInstances?limit=50"
#: What is asked for, by its name: all of them are pages of 50 jobs.
OURS = {
    "the page's first view": "/trainer/api/jobs",
    "all jobs, by duration": "/trainer/api/jobs?view=all&sort=-duration",
    "a search": "/trainer/api/jobs?view=all&q=model_7",
    "a filter, last page": "/trainer/api/jobs?view=all&framework=pytorch&page=99",
}


def app_client() -> TestClient:
    """A client of an API server in this process, with a login."""
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    client = TestClient(create_app(apps="core"))
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="bench", role="admin"))
    client.headers["Authorization"] = f"Bearer {token}"
    return client


class Clock:
    """Seconds of a processor: of this process, and of the database's.

    :param database: the id of the process whose children answer; None for a database within this one.
    """

    def __init__(self, database: int | None) -> None:
        self._database = psutil.Process(database) if database else None

    def seconds(self) -> float:
        """Those up to now."""
        if self._database is None:
            return time.process_time()
        children = [child.cpu_times() for child in self._database.children()]
        return time.process_time() + sum(each.user + each.system for each in children)


def ask(client: TestClient, clock: Clock, path: str) -> tuple[float, float]:
    """Seconds until the answer, and seconds of a processor."""
    begun, cpu = time.perf_counter(), clock.seconds()
    answer = client.get(path)
    found = time.perf_counter() - begun, clock.seconds() - cpu
    if answer.status_code != 200:
        raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
    return found


def main() -> None:
    """Measure."""
    wanted = json.loads(os.environ["BENCH_VIEW"])
    models.import_all_models()
    initdb()
    with settings.engine.begin() as connection:
        fill(connection, wanted["jobs"])
    with settings.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # As a database does by itself after some time.
        connection.execute(sqlalchemy.text("ANALYZE"))
    client, clock = app_client(), Clock(wanted["database"])
    found: dict[str, list[tuple[float, float]]] = {"first": [ask(client, clock, "/trainer/api/jobs")]}
    total = client.get("/trainer/api/jobs").json()["total"]
    # Each answer asks the database, as if there were one viewer.
    index.KEPT_SECONDS = -1.0
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        name: (lambda path=path: ask(client, clock, path)) for name, path in {"airflow": AIRFLOWS, **OURS}.items()
    }
    for turn in range(wanted["turns"] + 2):
        for name, way in ways.items():
            took = way()
            # The first ones pay for what is made once.
            if turn > 1:
                found.setdefault(name, []).append(took)
    index.KEPT_SECONDS = 60.0
    found["watched by others"] = [ask(client, clock, "/trainer/api/jobs") for _ in range(wanted["turns"])]
    json.dump({"total": total, "found": found}, sys.stdout)


if __name__ == "__main__":
    main()
