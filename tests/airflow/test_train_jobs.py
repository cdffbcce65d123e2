"""Real jobs through a real scheduler and triggerer, undisturbed."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.airflow.jobs import job_processes, line_numbers
from tools.airflow_runner.api import wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local]


@pytest.fixture(params=["train_waiting", "train_deferred"])
def dag_id(request):
    return request.param


def test_the_result_reaches_xcom_and_the_lines_the_log(airflow, dag_id, folder):
    run = airflow.trigger_dag(dag_id, {"folder": str(folder)})
    folder.wait_for_training()
    if dag_id == "train_deferred":
        airflow.wait_for_task(dag_id, run, "train", "deferred")
    handle = wait_until(lambda: airflow.xcom(dag_id, run, "train", "job"), 30, lambda: "no handle in XCom")
    assert airflow.run_state(dag_id, run) == "running"
    folder.go()

    assert airflow.wait_for_run(dag_id, run) == "success"
    outcome = airflow.xcom(dag_id, run, "train")
    assert (outcome["name"], outcome["backend"], outcome["framework"]) == (handle["name"], "local", "pytorch")
    assert outcome["phase"] == "succeeded"
    assert outcome["result"]["trainings"] == 1
    assert outcome["metrics"] == {"loss": 0.5}
    assert [(row["group"], row["index"], row["exit_code"]) for row in outcome["replicas"]] == [
        ("master", 0, 0),
        ("worker", 0, 0),
    ]
    assert outcome["run_seconds"] > 0
    assert datetime.fromisoformat(outcome["queued_at"]) <= datetime.fromisoformat(outcome["started_at"])
    log = airflow.task_log(dag_id, run, "train")
    for replica, rank in (("master-0", 0), ("worker-0", 1)):
        assert line_numbers(log, replica, rank) == list(range(folder.lines_of(log, replica)))


def test_a_rank_that_raises_fails_the_task_at_once(airflow, folder):
    run = airflow.trigger_dag("train_waiting", {"folder": str(folder), "mode": "raise"})
    task = airflow.wait_for_task("train_waiting", run, "train", "up_for_retry")

    failure = airflow.xcom("train_waiting", run, "train", "failure")
    assert failure["replica"] == "worker-0"
    assert failure["rank"] == 1
    assert failure["exit_code"] == 1
    assert failure["traceback"][0] == "Traceback (most recent call last):"
    assert failure["traceback"][-1] == "ValueError: rank 1 has had enough"
    assert failure["others"] == [{"replica": "master-0", "exit_code": None, "signal": "SIGTERM", "reason": "Stopped"}]
    assert failure["retry_can_help"] == "unknown"
    name = airflow.xcom("train_waiting", run, "train", "job")["name"]
    status = airflow.status_of(name)
    ended = next(replica.finished_at for replica in status.replicas if replica.name == "worker-0")
    assert (datetime.fromisoformat(task["end_date"]) - ended).total_seconds() < 2
    assert job_processes() == []


def test_a_spec_that_no_retry_can_cure_is_not_tried_again(airflow):
    run = airflow.trigger_dag("train_wrong")
    task = airflow.wait_for_task("train_wrong", run, "train")

    assert (task["state"], task["try_number"]) == ("failed", 1)
    log = airflow.task_log("train_wrong", run, "train")
    assert "framework: got 'pytroch'" in log
    assert "Did you mean 'pytorch'?" in log


def test_a_submitted_job_is_waited_for_by_sensors_of_every_mode(airflow, folder):
    dag_id, sensors = "train_handed_over", ("poking", "rescheduled", "deferred")
    run = airflow.trigger_dag(dag_id, {"folder": str(folder)})
    folder.wait_for_training()
    assert airflow.wait_for_task(dag_id, run, "train")["state"] == "success"
    airflow.wait_for_task(dag_id, run, "rescheduled", "up_for_reschedule")
    airflow.wait_for_task(dag_id, run, "deferred", "deferred")
    folder.go()

    airflow.wait_for_run(dag_id, run)
    assert airflow.task_states(dag_id, run) == dict.fromkeys(("train", *sensors), "success")
    for sensor in sensors:
        assert airflow.xcom(dag_id, run, sensor)["result"]["trainings"] == 1
        log = airflow.task_log(dag_id, run, sensor)
        assert line_numbers(log, "worker-0", 1) == list(range(folder.lines_of(log, "worker-0"))), sensor


def test_mapped_tasks_have_jobs_of_their_own_and_render_them(airflow, folder):
    run = airflow.trigger_dag("train_mapped", {"folder": str(folder)})
    folder.wait_for_training()
    folder.go()

    assert airflow.wait_for_run("train_mapped", run) == "failed"
    trained = airflow.task_instance("train_mapped", run, "train", 0)
    assert trained["state"] == "success"
    assert f"python {folder.script} train {folder}" in trained["rendered_fields"]["rendered_job"]
    assert airflow.task_instance("train_mapped", run, "train", 1)["state"] == "failed"
    assert airflow.xcom("train_mapped", run, "train", "failure", map_index=1)["replica"] == "worker-0"
