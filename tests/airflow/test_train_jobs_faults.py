"""Real jobs through a real scheduler and triggerer, with something killed, marked or cleared on the way.

After each: one training at a time, the right outcome, and no process left.
"""

from __future__ import annotations

import signal

import pytest

from airflow_trainer_provider.hooks.task import SKIPPED
from tests.airflow.jobs import job_processes, line_numbers
from tests.airflow.tasks import (
    GRACE,
    SIGNALLING,
    assert_adopted_and_trained_once,
    start,
    worker_processes,
)
from tests.airflow_version import AIRFLOW_V_3_3
from tools.airflow_runner.api import TIMEOUT, wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local]

#: Airflow notices a worker that is gone after half a minute.
_BOTH = pytest.param("task and worker", marks=pytest.mark.slow)


@pytest.fixture(params=["train_waiting", "train_deferred"])
def dag_id(request):
    return request.param


# Airflow 3.1 does not try a task again whose process alone was killed.
@pytest.mark.parametrize("killed", ["task", _BOTH] if AIRFLOW_V_3_3 else [_BOTH])
@pytest.mark.no_second_chance
def test_the_next_try_adopts_the_job_of_a_killed_worker(airflow, folder, killed):
    run = start(airflow, "train_waiting", folder)

    task, worker = worker_processes(airflow, "train_waiting", run)
    if killed == "task and worker":
        worker.kill()
    task.kill()

    assert_adopted_and_trained_once(airflow, "train_waiting", run, folder)


@pytest.mark.parametrize("killed", ["task", _BOTH])
def test_the_job_of_a_task_killed_in_its_last_try_is_ended(airflow, folder, killed):
    run = start(airflow, "train_once", folder)

    task, worker = worker_processes(airflow, "train_once", run)
    if killed == "task and worker":
        worker.kill()
    task.kill()

    assert airflow.wait_for_run("train_once", run) == "failed"
    wait_until(lambda: not job_processes() or None, SIGNALLING + GRACE, lambda: f"still there: {job_processes()}")


@pytest.mark.skipif(not AIRFLOW_V_3_3, reason="Airflow keeps a task's state from 3.3 on")
@pytest.mark.parametrize("then", ["native", 7], ids=["another backend", "fields that are not rendered"])
def test_a_last_try_that_submits_nothing_ends_the_job_of_the_first(airflow, folder, then):
    run = start(airflow, "train_changed", folder, then=then)

    worker_processes(airflow, "train_changed", run)[0].kill()

    assert airflow.wait_for_task("train_changed", run, "train", "failed")["try_number"] == 2
    wait_until(lambda: not job_processes() or None, SIGNALLING + GRACE, lambda: f"still there: {job_processes()}")
    assert len(folder.trainings()) == 1


@pytest.mark.no_second_chance
def test_a_job_outlives_its_scheduler(airflow, dag_id, folder):
    run = start(airflow, dag_id, folder)

    airflow.kill("scheduler")
    assert len(job_processes()) == 2
    airflow.restart("scheduler")
    folder.go()

    # Its worker may have outlived the scheduler too: then this is the same try still.
    assert airflow.wait_for_run(dag_id, run) == "success"
    assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == 1
    assert len(folder.trainings()) == 1


def test_marking_the_task_failed_ends_every_process_within_the_grace_period(airflow, dag_id, folder):
    run = start(airflow, dag_id, folder, mode="stubborn")
    assert len(job_processes()) == 2

    airflow.set_task_state(dag_id, run, "train", "failed")

    wait_until(lambda: not job_processes() or None, SIGNALLING + GRACE, lambda: f"still there: {job_processes()}")
    name = airflow.xcom(dag_id, run, "train", "job")["name"]
    wait_until(lambda: airflow.status_of(name).phase.ended or None, TIMEOUT, lambda: str(airflow.status_of(name)))
    assert airflow.status_of(name).phase == "cancelled"
    assert airflow.task_instance(dag_id, run, "train")["state"] == "failed"


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.no_second_chance
def test_a_deferred_job_outlives_its_triggerer(airflow, folder, number):
    run = start(airflow, "train_deferred", folder)
    wait_until(
        lambda: "line 5 of rank 1" in airflow.task_log("train_deferred", run, "train") or None,
        TIMEOUT,
        lambda: "no lines",
    )

    airflow.kill("triggerer", number)
    assert len(job_processes()) == 2
    airflow.restart("triggerer")
    folder.go()

    assert airflow.wait_for_run("train_deferred", run) == "success"
    assert airflow.xcom("train_deferred", run, "train")["result"]["trainings"] == 1
    log = airflow.task_log("train_deferred", run, "train")
    for replica, rank in (("master-0", 0), ("worker-0", 1)):
        numbers = line_numbers(log, replica, rank)
        # None is lost. Those of the last moment may be emitted again.
        assert sorted(set(numbers)) == list(range(folder.lines_of(log, replica)))


@pytest.mark.no_second_chance
def test_clearing_a_waiting_task_leaves_one_job(airflow, dag_id, folder):
    run = start(airflow, dag_id, folder)

    airflow.clear(dag_id, run, "train")
    airflow.wait_for_task(dag_id, run, "train", frozenset({"running", "deferred"}), try_number=2)
    wait_until(lambda: len(job_processes()) == 2 or None, TIMEOUT, lambda: str(job_processes()))
    folder.go()

    task = airflow.wait_for_task(dag_id, run, "train", "success", try_number=2)
    assert task["try_number"] == 2
    # Ended and started again, or adopted: which of the two comes first is up to Airflow.
    assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == len(folder.trainings()) <= 2
    assert job_processes() == []


def wait_for_reports(airflow, dag_id, run, count):
    """Wait until so many processes of a run's task have ended for the scheduler.

    A process ends after its task has succeeded, or is deferred. Airflow takes its report for one of the task that has
    this name by then, and fails that one.
    """
    which = f"TaskInstanceKey(dag_id='{dag_id}', task_id='train', run_id='{run}'"
    report = f"Received executor event with state success for task instance {which}"

    def reported():
        return airflow.component_log("scheduler").count(report)

    wait_until(lambda: reported() == count or None, TIMEOUT, lambda: f"{reported()} reports")


@pytest.mark.slow
@pytest.mark.no_second_chance
def test_a_deferred_task_of_a_run_that_is_deleted_and_made_again_has_a_job_of_its_own(airflow, folder):
    dag_id = "train_deferred"
    run = start(airflow, dag_id, folder)
    wait_for_reports(airflow, dag_id, run, 1)
    first, earlier = airflow.xcom(dag_id, run, "train", "job"), job_processes()

    # Airflow deletes no run that goes on.
    airflow.request("PATCH", f"/dags/{dag_id}/dagRuns/{run}", json={"state": "failed"})
    assert airflow.wait_for_run(dag_id, run) == "failed"
    airflow.delete_run(dag_id, run)
    airflow.trigger_dag(dag_id, {"folder": str(folder)}, run_id=run)

    folder.wait_for_training(2)
    airflow.wait_for_task(dag_id, run, "train", "deferred")
    wait_until(lambda: not [each for each in earlier if each.is_running()] or None, TIMEOUT, lambda: str(earlier))
    # What ends the earlier job leaves the later one.
    assert len(job_processes()) == 2
    folder.go()
    task = airflow.wait_for_task(dag_id, run, "train", "success")
    assert task["try_number"] == 1
    assert airflow.xcom(dag_id, run, "train", "job")["uid"] != first["uid"]
    assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == len(folder.trainings()) == 2
    assert job_processes() == []


@pytest.mark.no_second_chance
def test_a_task_that_does_not_wait_trains_once_for_each_clear_and_each_run_of_its_id(airflow, folder):
    def again(trainings, try_number):
        folder.wait_for_training(trainings)
        airflow.wait_for_task("train_forgotten", run, "train", "success", try_number=try_number)
        assert airflow.wait_for_run("train_forgotten", run) == "success"
        wait_for_reports(airflow, "train_forgotten", run, trainings)

    conf = {"folder": str(folder)}
    run = airflow.trigger_dag("train_forgotten", conf)
    again(1, try_number=1)
    folder.go()
    wait_until(lambda: not job_processes() or None, TIMEOUT, lambda: f"still there: {job_processes()}")

    airflow.clear("train_forgotten", run, "train")
    again(2, try_number=2)
    wait_until(lambda: not job_processes() or None, TIMEOUT, lambda: f"still there: {job_processes()}")
    folder.stay()

    for trainings in (3, 4):
        earlier = job_processes()
        airflow.delete_run("train_forgotten", run)
        airflow.trigger_dag("train_forgotten", conf, run_id=run)
        again(trainings, try_number=1)
        assert not [process for process in earlier if process.is_running()]
    assert len(job_processes()) == 2
    folder.go()
    wait_until(lambda: not job_processes() or None, TIMEOUT, lambda: f"still there: {job_processes()}")
    assert len(folder.trainings()) == 4


def test_execution_timeout_ends_the_job_of_a_deferred_task(airflow, folder):
    run = start(airflow, "train_limited", folder)

    task = airflow.wait_for_task("train_limited", run, "train")

    assert task["state"] == "failed"
    wait_until(lambda: not job_processes() or None, SIGNALLING + GRACE, lambda: f"still there: {job_processes()}")

    def log() -> str:
        return airflow.task_log("train_limited", run, "train")

    wait_until(lambda: "execution_timeout" in log() or None, TIMEOUT, log)


def test_the_timeout_of_the_run_ends_the_job_of_a_deferred_task(airflow, folder):
    run = start(airflow, "train_run_limited", folder)
    # However long it has taken to begin, its time is over now.
    begun = "update dag_run set start_date = '2026-01-01 00:00:00.000000' where dag_id = :dag and run_id = :run"
    airflow.sql(begun, dag="train_run_limited", run=run)

    name = airflow.xcom("train_run_limited", run, "train", "job")["name"]
    assert airflow.wait_for_run("train_run_limited", run) == "failed"
    wait_until(lambda: not job_processes() or None, SIGNALLING + GRACE, lambda: f"still there: {job_processes()}")
    wait_until(lambda: airflow.status_of(name).phase.ended or None, TIMEOUT, lambda: str(airflow.status_of(name)))
    # Whether the trigger or the scheduler ends it first is chance.
    assert airflow.status_of(name).message in (SKIPPED, "the run of its task is over")


def test_two_runs_at_once_have_a_job_each(airflow, folder):
    runs = [airflow.trigger_dag("train_waiting", {"folder": str(folder)}) for _ in range(2)]
    folder.wait_for_training(2)
    folder.go()

    assert [airflow.wait_for_run("train_waiting", run) for run in runs] == ["success", "success"]
    assert len(set(folder.trainings())) == 2
