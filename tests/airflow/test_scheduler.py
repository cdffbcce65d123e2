"""What the scheduler pays for tasks of this provider that are over."""

from __future__ import annotations

import itertools
import json
import socket
import sqlite3
import statistics
import time
from datetime import datetime

import pytest

from tests.airflow.dags.many import COUNT
from tests.scale import FULL
from tools.airflow_runner.api import PATIENCE, wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1800 if FULL else 300)]

#: Seconds that a heartbeat may be later than it is with tasks that have nothing to do with training: one, in enough
#: rounds of each and on a machine that does nothing else. Airflow takes ten for so many on a busy machine; a listener
#: that waited for the cluster would take seconds for each of the 200.
MOST_LATE, ROUNDS = (1.0, 5) if FULL else (60.0, 2)
#: Seconds for which heartbeats are read after the last task has failed.
AFTERWARDS = 3
#: Seconds until all tasks have failed.
MOST_SECONDS = 360
#: When the lost workers were heard of, as SQLAlchemy writes it into SQLite.
LONG_AGO = "2026-01-01 00:00:00.000000"


@pytest.fixture
def black_hole(airflow):
    """A connection to a cluster that takes connections and never answers; returns how many it took."""
    with socket.create_server(("127.0.0.1", 0), backlog=COUNT) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        kubeconfig = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        extra = json.dumps({"kube_config": json.dumps(kubeconfig)})
        body = {"connection_id": "black_hole", "conn_type": "kubernetes", "extra": extra}
        airflow.request("POST", "/connections", json=body)
        server.setblocking(False)
        yield lambda: accepted(server)
        airflow.request("DELETE", "/connections/black_hole")


def accepted(server):
    """How many connections wait there."""
    taken = []
    try:
        while True:
            taken.append(server.accept()[0])
    except BlockingIOError:
        return len(taken)
    finally:
        for each in taken:
            each.close()


@pytest.fixture
def database(airflow):
    connection = sqlite3.connect(airflow.home / "airflow.db", timeout=90)
    yield connection
    connection.close()


def all_fail(airflow, database, dag_id):
    """Let the worker of every task of a run be lost; returns by how many seconds the heartbeat was late at most."""
    airflow.wait_for_dag(dag_id)
    run = airflow.trigger_dag(dag_id)
    count = "select count(*) from task_instance where dag_id = ? and run_id = ?"
    assert database.execute(count, (dag_id, run)).fetchone() == (COUNT,)
    (scheduler,) = database.execute("select max(id) from job where job_type = 'SchedulerJob'").fetchone()
    fields = {"backend": "native", "kubernetes_conn_id": "black_hole", "namespace": "training", "rendered_job": "..."}
    with database:
        if dag_id == "many_trainings":
            database.execute(
                "insert into rendered_task_instance_fields (dag_id, task_id, run_id, map_index, rendered_fields)"
                " select dag_id, task_id, run_id, map_index, ? from task_instance where run_id = ? and dag_id = ?",
                (json.dumps(fields), run, dag_id),
            )
        database.execute(
            "update task_instance set state = 'running', queued_by_job_id = ?, try_number = 1, max_tries = 0,"
            " start_date = ?, last_heartbeat_at = ? where run_id = ? and dag_id = ?",
            (scheduler, LONG_AGO, LONG_AGO, run, dag_id),
        )
        begun = "update dag_run set state = 'running', start_date = ? where run_id = ? and dag_id = ?"
        database.execute(begun, (LONG_AGO, run, dag_id))
    beats, end, most = set(), None, time.monotonic() + MOST_SECONDS
    while end is None or time.monotonic() < end:
        assert time.monotonic() < most, airflow.component_log("scheduler")[-3000:]
        beats |= set(database.execute("select latest_heartbeat from job where id = ?", (scheduler,)).fetchone())
        (failed,) = database.execute(f"{count} and state = 'failed'", (dag_id, run)).fetchone()
        if failed == COUNT and end is None:
            end = time.monotonic() + AFTERWARDS
        time.sleep(0.1)
    times = sorted(datetime.fromisoformat(beat) for beat in beats)
    return max((later - earlier).total_seconds() for earlier, later in itertools.pairwise(times))


def test_tasks_that_fail_while_a_cluster_does_not_answer_keep_no_scheduler_waiting(airflow, database, black_hole):
    # Airflow itself takes seconds for so many, and not always the same.
    rounds = [[all_fail(airflow, database, dag) for dag in ("many_others", "many_trainings")] for _ in range(ROUNDS)]
    usual, late = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    print(f"Between two heartbeats, in seconds, of other tasks and of trainings: {rounds}")

    # The jobs are ended in the background.
    wait_until(lambda: black_hole() or None, PATIENCE, lambda: "no request to end the jobs")
    assert late <= usual + MOST_LATE, rounds
