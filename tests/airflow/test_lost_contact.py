"""Triggerers and workers that lose contact with Airflow while a job trains, and come back: they end no job.

After each the job has trained once, the task has succeeded, and no process is left.
"""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.airflow.conftest import QUICK_TO_NOTICE
from tests.airflow.jobs import job_processes, line_numbers
from tests.airflow.tasks import SIGNALLING, start, worker_processes
from tools.airflow_runner.api import TIMEOUT, wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local, pytest.mark.slow, pytest.mark.no_second_chance]

#: Seconds without a heartbeat after which the scheduler takes a task from its worker.
LOST = float(QUICK_TO_NOTICE["scheduler"]["task_instance_heartbeat_timeout"])
#: Seconds in which a process that has come back would have ended the job.
BACK = 10


def finish(airflow, dag_id, run, folder):
    """Let the job come to its end, and see that it was the only one of its task."""
    assert len(job_processes()) == 2
    folder.go()
    task = airflow.wait_for_task(dag_id, run, "train")
    assert task["state"] == "success", airflow.task_log(dag_id, run, "train", task["try_number"])
    assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == len(folder.trainings()) == 1
    wait_until(lambda: not job_processes() or None, SIGNALLING, lambda: f"still there: {job_processes()}")


def last_line(log):
    """The number of the last line of rank 1 in a log; -1 where there is none."""
    return max(line_numbers(log, "worker-0", 1), default=-1)


def state_and_try(airflow, dag_id, run):
    """Of the task. Only the database has them while there is no API server."""
    query = "select state, try_number from task_instance where dag_id = :dag and run_id = :run"
    (found,) = airflow.sql(query, dag=dag_id, run=run)
    return tuple(found)


def wait_until_adopted(airflow, dag_id, run):
    """Wait until the latest try of a task, which is not its first, has adopted the job."""

    def log():
        latest = airflow.task_instance(dag_id, run, "train")["try_number"]
        return airflow.task_log(dag_id, run, "train", latest) if latest > 1 else ""

    wait_until(lambda: "Adopted training job" in log() or None, TIMEOUT, log)


def test_a_triggerer_that_comes_back_after_another_took_over_ends_no_job(airflow, folder):
    run = start(airflow, "train_deferred", folder)

    def log():
        return airflow.task_log("train_deferred", run, "train")

    def triggerer():
        return (airflow.task_instance("train_deferred", run, "train")["trigger"] or {}).get("triggerer_id")

    def of_run(component):
        return "\n".join(line for line in airflow.component_log(component).splitlines() if run in line)

    wait_until(lambda: "line 5 of rank 1" in log() or None, TIMEOUT, log)
    first = triggerer()
    airflow.add("triggerer-2", "triggerer")
    try:
        airflow.stall("triggerer")
        wait_until(lambda: triggerer() not in (first, None) or None, TIMEOUT, lambda: f"triggerer {triggerer()}")
        # One that has only begun to start has no heartbeat yet, and would lose the trigger to the first again.
        seen = last_line(log())
        wait_until(lambda: last_line(log()) > seen or None, TIMEOUT, log)
        airflow.send("triggerer", signal.SIGCONT)
        # Airflow 3.3 may have closed the task's log by the time at which the trigger has an answer.
        wait_until(lambda: "elsewhere: it goes on" in log() + of_run("triggerer") or None, TIMEOUT, log)
        time.sleep(BACK)
        finish(airflow, "train_deferred", run, folder)
    finally:
        airflow.send("triggerer", signal.SIGCONT)
        airflow.kill("triggerer-2", signal.SIGTERM)


def test_a_worker_that_comes_back_after_its_task_was_taken_from_it_ends_no_job(airflow, folder):
    run = start(airflow, "train_patient", folder)
    task, worker = worker_processes(airflow, "train_patient", run)

    os.kill(worker.pid, signal.SIGSTOP)
    try:
        wait_until_adopted(airflow, "train_patient", run)
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    # Its next heartbeat is refused, as the task is not its own any more; it ends the task's process.
    wait_until(lambda: not task.is_running() or None, TIMEOUT, lambda: f"still there: {task}")

    def log():
        return airflow.task_log("train_patient", run, "train", 1)

    wait_until(lambda: "shouldn't be running anymore" in log() or None, TIMEOUT, log)

    time.sleep(BACK)
    finish(airflow, "train_patient", run, folder)


def test_a_worker_that_loses_airflows_api_server_ends_no_job(airflow, folder):
    run = start(airflow, "train_patient", folder)

    airflow.kill("api-server", signal.SIGKILL)
    try:
        time.sleep(LOST)
        wait_until(
            lambda: state_and_try(airflow, "train_patient", run) != ("running", 1) or None,
            TIMEOUT,
            lambda: str(state_and_try(airflow, "train_patient", run)),
        )
    finally:
        airflow.restart("api-server")
    wait_until_adopted(airflow, "train_patient", run)

    time.sleep(BACK)
    finish(airflow, "train_patient", run, folder)
