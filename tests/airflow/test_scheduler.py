"""What the scheduler pays for tasks of this provider that are over."""

from __future__ import annotations

import itertools
import json
import socket
import statistics
import time
from datetime import datetime

import pytest

from tests.airflow.dags.many import COUNT
from tests.scale import FULL
from tools.airflow_runner.api import TIMEOUT, wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(1800 if FULL else 300)]

#: Seconds that a heartbeat may be later than it is with tasks that have nothing to do with training: one, in enough
#: rounds of each and on a machine that does nothing else. Airflow takes ten for so many on a busy machine; a listener
#: that waited for the cluster would take seconds for each of the 200.
MOST_LATE, ROUNDS = (1.0, 5) if FULL else (60.0, 2)
#: Seconds for which heartbeats are read after the last task has failed.
AFTERWARDS = 3
#: Seconds until all tasks have failed.
MOST_SECONDS = 360
#: When the lost workers were heard of, as SQLAlchemy writes it into a database.
LONG_AGO = "2026-01-01 00:00:00.000000"
RENDERED = (
    "insert into rendered_task_instance_fields (dag_id, task_id, run_id, map_index, rendered_fields)"
    " values (:dag, :task, :run, :index, :fields)"
)
LOST = (
    "update task_instance set state = 'running', queued_by_job_id = :scheduler, try_number = 1, max_tries = 0,"
    " start_date = :long_ago, last_heartbeat_at = :long_ago where run_id = :run and dag_id = :dag"
)
BEGUN = "update dag_run set state = 'running', start_date = :long_ago where run_id = :run and dag_id = :dag"


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


def all_fail(airflow, dag_id):
    """Let the worker of every task of a run be lost; returns by how many seconds the heartbeat was late at most."""
    airflow.wait_for_dag(dag_id)
    its = {"dag": dag_id, "run": airflow.trigger_dag(dag_id)}
    tasks = airflow.sql("select task_id, map_index from task_instance where dag_id = :dag and run_id = :run", **its)
    assert len(tasks) == COUNT
    ((scheduler,),) = airflow.sql("select max(id) from job where job_type = 'SchedulerJob'")
    if dag_id == "many_trainings":
        fields = {"backend": "native", "kubernetes_conn_id": "black_hole", "namespace": "training"}
        for task, index in tasks:
            airflow.sql(RENDERED, **its, task=task, index=index, fields=json.dumps({**fields, "rendered_job": "..."}))
    airflow.sql(LOST, **its, scheduler=scheduler, long_ago=LONG_AGO)
    airflow.sql(BEGUN, **its, long_ago=LONG_AGO)
    failed = "select count(*) from task_instance where dag_id = :dag and run_id = :run and state = 'failed'"
    beats, end, most = set(), None, time.monotonic() + MOST_SECONDS
    while end is None or time.monotonic() < end:
        assert time.monotonic() < most, airflow.component_log("scheduler")[-3000:]
        beats |= {str(beat) for (beat,) in airflow.sql("select latest_heartbeat from job where id = :id", id=scheduler)}
        if end is None and airflow.sql(failed, **its)[0][0] == COUNT:
            end = time.monotonic() + AFTERWARDS
        time.sleep(0.1)
    times = sorted(datetime.fromisoformat(beat) for beat in beats)
    return max((later - earlier).total_seconds() for earlier, later in itertools.pairwise(times))


def test_tasks_that_fail_while_a_cluster_does_not_answer_keep_no_scheduler_waiting(airflow, black_hole):
    # Airflow itself takes seconds for so many, and not always the same.
    rounds = [[all_fail(airflow, dag) for dag in ("many_others", "many_trainings")] for _ in range(ROUNDS)]
    usual, late = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    print(f"Between two heartbeats, in seconds, of other tasks and of trainings: {rounds}")

    # The jobs are ended in the background.
    wait_until(lambda: black_hole() or None, TIMEOUT, lambda: "no request to end the jobs")
    assert late <= usual + MOST_LATE, rounds
