"""What kills healthy jobs elsewhere: processes of Airflow that stall, lose contact and come back.

After each: every job trained once, every task succeeded in its first or its next try, and nothing is left in the
cluster. ``TRAINER_TEST_SCALE=full`` runs each with as many jobs and rounds as a nightly pipeline has.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from dataclasses import dataclass

import pytest

from airflow_trainer_provider.kinds.objects.labels import TASK
from tests.airflow.jobs import JobFolder
from tests.airflow.tasks import worker_processes
from tests.airflow_version import AIRFLOW_V_3_3
from tests.cluster.account import WORKER, revocable_token, with_token
from tests.cluster.airflow.conftest import HEARTBEAT_TIMEOUT
from tests.cluster.airflow.jobs import wait_until_gone
from tests.scale import FULL
from tools.airflow_runner.api import AirflowApiError, wait_until

#: One job on each backend; the whole number on all of them together.
KUBEFLOW = ("trainer", "training-operator", "native")
pytestmark = [pytest.mark.no_second_chance, pytest.mark.timeout(1800 if FULL else 900)]
_STATES = frozenset({"success", "failed"})


@dataclass
class Training:
    """A run whose job trains until it is let go."""

    backend: str
    dag_id: str
    run_id: str
    folder: JobFolder
    #: The label by which the task's jobs are found.
    key: str = ""


@pytest.fixture
def airflow(on_cluster, cluster):
    return on_cluster.airflow


@pytest.fixture
def train(on_cluster, airflow, tmp_path):
    """Start runs, one for each of these backends, and wait until all train and their tasks wait."""
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o777)
    trainings = []

    def start(dag_id, backends, **params):
        # For the pods of twenty jobs this machine has no room otherwise.
        nodes, begun = 2 if len(backends) < 10 else 1, []
        for backend in backends:
            folder = JobFolder(tmp_path / str(len(trainings)))
            folder.path.mkdir()
            folder.path.chmod(0o777)
            run = on_cluster.run(dag_id, backend, folder=str(folder), timeout="1800", nodes=nodes, **params)
            trainings.append(Training(backend, dag_id, run, folder))
            begun.append(trainings[-1])
        for each in begun:
            each.folder.wait_for_training(seconds=180 + 60 * len(begun))
            handle = wait_until(lambda each=each: has_handle(airflow, each), 180, lambda: "no handle in XCom")
            each.key = handle["name"].split("-")[-2]
        if "deferred" in dag_id:
            for each in begun:
                airflow.wait_for_task(dag_id, each.run_id, "train", "deferred")
                wait_until(lambda each=each: trigger_follows(airflow, each), 180, lambda: "no line of its trigger")
        return begun

    yield start
    for each in trainings:
        each.folder.go()


def has_handle(airflow, training):
    return airflow.xcom(training.dag_id, training.run_id, "train", "job")


def trigger_follows(airflow, training):
    return ": running." in airflow.task_log(training.dag_id, training.run_id, "train") or None


def story(airflow, training):
    """All that a task's log page and its state say."""
    task = airflow.task_instance(training.dag_id, training.run_id, "train")
    tries = range(1, task["try_number"] + 1)
    logs = [airflow.task_log(training.dag_id, training.run_id, "train", number) for number in tries]
    logs = [re.sub(r"(?sm)^::group::.*?^::endgroup::\n|^\[[^\n]*\n", "", log) for log in logs]
    return "\n".join([f"{training.backend}: {task['state']} in try {task['try_number']}", *logs])


def adopted(airflow, training):
    """Whether the latest try of a task has adopted the job of an earlier one."""
    latest = airflow.task_instance(training.dag_id, training.run_id, "train")["try_number"]
    if latest == 1:
        return None
    return "Adopted training job" in airflow.task_log(training.dag_id, training.run_id, "train", latest) or None


def finish(airflow, trainings, try_number=None):
    """Let all jobs come to their end, and see that each was the only one of its task.

    :param try_number: in which the tasks succeed at the earliest; None for the first, and no other.
    """
    least = try_number or 1
    for each in trainings:
        each.folder.go()
    for each in trainings:
        task = airflow.wait_for_task(each.dag_id, each.run_id, "train", _STATES, timeout=720, try_number=least)
        log = airflow.task_log(each.dag_id, each.run_id, "train", task["try_number"])
        assert (each.backend, task["state"]) == (each.backend, "success"), log
        assert try_number or task["try_number"] == 1, story(airflow, each)
        assert (each.backend, len(each.folder.trainings())) == (each.backend, 1), log
        assert airflow.xcom(each.dag_id, each.run_id, "train")["result"]["trainings"] == 1


def test_a_triggerer_that_comes_back_after_another_took_over_ends_no_job(on_cluster, airflow, train):
    backends = KUBEFLOW if not FULL else [KUBEFLOW[number % 3] for number in range(20)]
    trainings = train("watched_deferred", backends)

    def triggerers():
        tasks = [airflow.task_instance(each.dag_id, each.run_id, "train") for each in trainings]
        return {(task["trigger"] or {}).get("triggerer_id") for task in tasks}

    (first,) = triggerers()
    airflow.add("triggerer-2", "triggerer")
    try:
        airflow.stall("triggerer")
        wait_until(lambda: first not in triggerers() or None, 270, lambda: f"triggerers: {triggerers()}")
        airflow.send("triggerer", signal.SIGCONT)

        def left_alone():
            logs = [airflow.task_log(each.dag_id, each.run_id, "train") for each in trainings]
            # Airflow 3.3 may have closed the log by the time at which the trigger has an answer, or is asked.
            ends = ("elsewhere: it goes on", "invoking on_kill", "trigger completed")
            return all(any(end in log for end in ends) for log in logs) or None

        wait_until(left_alone, 180, lambda: "\n".join(story(airflow, each) for each in trainings))
        time.sleep(10)  # by then it would have ended them
        finish(airflow, trainings)
    finally:
        airflow.send("triggerer", signal.SIGCONT)
        airflow.kill("triggerer-2", signal.SIGTERM)
    wait_until_gone(on_cluster)


def test_a_worker_that_loses_airflows_api_server_ends_no_job(on_cluster, airflow, train):
    backends = KUBEFLOW if not FULL else 3 * KUBEFLOW
    *trainings, marked = train("patient_waiting", [*backends, "native"])

    airflow.kill("api-server", signal.SIGKILL)
    time.sleep(HEARTBEAT_TIMEOUT + 10)  # so long they have no heartbeat
    for each in (*trainings, marked):
        wait_until(lambda each=each: has_another_try(airflow, each), 180, lambda each=each: f"no other try: {each}")
    airflow.restart("api-server")
    wait_until(lambda: mark(airflow, marked, "failed"), 180, lambda: "the mark is refused")

    for each in trainings:
        wait_until(lambda each=each: adopted(airflow, each), 360, lambda each=each: story(airflow, each))
    # Longer than it takes until an old worker has heard that its task is not its own any more.
    time.sleep(10)
    wait_until(lambda: not pods_of(on_cluster, marked) or None, 180, lambda: "the job of the marked task runs on")
    finish(airflow, trainings, try_number=2)
    wait_until_gone(on_cluster)


def has_another_try(airflow, training):
    """Whether the scheduler has taken a task from its worker. Only the database says so without an API server."""
    query = "select state, try_number from task_instance where dag_id = :dag and run_id = :run"
    (found,) = airflow.sql(query, dag=training.dag_id, run=training.run_id)
    return tuple(found) != ("running", 1) or None


def mark(airflow, training, state):
    """Mark the task; None where the mark was not taken, or was lost to a try that began at the same moment."""
    try:
        airflow.set_task_state(training.dag_id, training.run_id, "train", state)
    except AirflowApiError as error:
        # 409: it has this state already. SQLite is locked now and then.
        if error.status not in (409, 500):
            raise
    time.sleep(3)
    return airflow.task_instance(training.dag_id, training.run_id, "train")["state"] == state or None


def pods_of(on_cluster, training):
    """The pods of all jobs that the task has had."""
    return on_cluster.access.kubectl.list("pods", on_cluster.namespace, f"{TASK}={training.key}")


class RotatingToken:
    """The connection ``rotating``, whose token can be replaced."""

    def __init__(self, on_cluster):
        self.airflow, self.cluster, self.namespace = on_cluster.airflow, on_cluster.access, on_cluster.namespace
        self.current = None

    def rotate(self):
        """Put a new token into the connection, and revoke the one before it."""
        before, self.current = self.current, f"token-{time.monotonic_ns()}"
        token = revocable_token(self.cluster, self.namespace, WORKER, self.current)
        extra = json.dumps({"kube_config": json.dumps(with_token(self.cluster, token))})
        body = {"connection_id": "rotating", "conn_type": "kubernetes", "extra": extra}
        if before is None:
            self.airflow.request("POST", "/connections", json=body)
        else:
            self.airflow.request("PATCH", "/connections/rotating", json=body)
            self.cluster.kubectl("delete", "secret", before, f"--namespace={self.namespace}")


def test_jobs_survive_random_restarts_of_both_api_servers_and_a_rotated_token(on_cluster, airflow, train, faults):
    backends = KUBEFLOW if not FULL else [KUBEFLOW[number % 3] for number in range(20)]
    half = len(backends) // 2
    # Airflow 3.1.0 cannot log that a heartbeat has failed: it loses the worker by that, and the task by the next one.
    waiting = "watched_waiting" if AIRFLOW_V_3_3 else "watched_deferred"
    token, rotations = RotatingToken(on_cluster), 0
    token.rotate()
    trainings = [
        *train("watched_deferred", backends[half:], conn_id="rotating"),
        *train(waiting, backends[:half], conn_id="rotating"),
    ]
    (marked,) = train("watched_deferred", backends[:1], conn_id="rotating")

    seed = os.environ.get("CHAOS_SEED") or str(random.randrange(2**32))
    print(f"CHAOS_SEED={seed}")
    chance = random.Random(seed)
    begin, seconds = time.monotonic(), 300 if FULL else 30
    while (passed := time.monotonic() - begin) < seconds or not rotations:
        if not rotations and passed > seconds / 2:
            token.rotate()
            rotations += 1
            faults.restart_api_server()  # it asks for credentials where a watch begins
        elif chance.random() < 0.5:
            faults.restart_api_server()
        else:
            airflow.kill("api-server", signal.SIGKILL)
            time.sleep(chance.uniform(0, 5))
            airflow.restart("api-server")
        time.sleep(chance.uniform(0, 5))

    for each in trainings:
        assert len(each.folder.trainings()) == 1
    wait_until(lambda: mark(airflow, marked, "failed"), 180, lambda: "the mark is refused")
    wait_until(lambda: not pods_of(on_cluster, marked) or None, 180, lambda: "the job of the marked task runs on")
    finish(airflow, trainings)
    wait_until_gone(on_cluster)


def test_marks_end_the_jobs_of_tasks_in_every_state(on_cluster, airflow, train):
    """Skipped and success while they wait, the run while it runs and while a retry is due; on different backends."""
    deferred = train("watched_deferred", KUBEFLOW)
    waiting = train("watched_waiting", KUBEFLOW[:1])
    (delayed,) = train("delayed_waiting", KUBEFLOW[1:2])
    # Without its worker: Airflow before 3.3 fails a task for good whose own process alone is killed.
    for process in reversed(worker_processes(airflow, delayed.dag_id, delayed.run_id)):
        process.kill()
    airflow.wait_for_task(delayed.dag_id, delayed.run_id, "train", "up_for_retry")
    assert pods_of(on_cluster, delayed)

    airflow.set_task_state(deferred[0].dag_id, deferred[0].run_id, "train", "skipped")
    airflow.set_task_state(deferred[1].dag_id, deferred[1].run_id, "train", "success")
    for each in (deferred[2], delayed):
        airflow.request("PATCH", f"/dags/{each.dag_id}/dagRuns/{each.run_id}", json={"state": "success"})
    airflow.set_task_state(waiting[0].dag_id, waiting[0].run_id, "train", "skipped")

    wait_until_gone(on_cluster)
