"""Real jobs through a real scheduler and triggerer, undisturbed."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from tests.airflow.jobs import job_processes, line_numbers, supervisor_of, time_of
from tests.airflow_version import AIRFLOW_V_3_3
from tools.airflow_runner.api import TIMEOUT, wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local]

#: The states of a task whose trigger has fired.
WAKENED = frozenset({"scheduled", "queued", "running", "success", "failed"})


@pytest.fixture(params=["train_waiting", "train_deferred"])
def dag_id(request):
    return request.param


def test_functions_that_are_mapped_and_deferred_return_their_values(airflow):
    run = airflow.trigger_dag("train_function", {})

    assert airflow.wait_for_run("train_function", run) == "success"
    assert airflow.xcom("train_function", run, "add_up") == {"sum": 30, "texts": ["train_function"] * 2}


@pytest.mark.slow
def test_what_no_database_keeps_ends_as_its_training_did(airflow):
    run = airflow.trigger_dag("train_odd", {})

    assert airflow.wait_for_run("train_odd", run) == "failed"
    for how in ("waiting", "deferred"):
        found = [airflow.xcom("train_odd", run, f"succeeds_{how}", map_index=index) for index in range(4)]
        problems = ["U+0000", "U+D800", "'__classname__'", "50 levels"]
        assert all(problem in each["result_error"] for problem, each in zip(problems, found, strict=True)), found
        failure = airflow.xcom("train_odd", run, f"fails_{how}", "failure")
        # No line shows a NUL; Python itself writes the lone surrogate as an escape sequence.
        assert failure["traceback"][-1] == r"ValueError: ab\ud800", failure
        assert failure["kind"] == "user"
    # The triggerer lives: it fires others.
    run = airflow.trigger_dag("train_function", {})
    assert airflow.wait_for_run("train_function", run) == "success"


def test_the_result_reaches_xcom_and_the_lines_the_log(airflow, dag_id, folder):
    run = airflow.trigger_dag(dag_id, {"folder": str(folder)})
    folder.wait_for_training()
    if dag_id == "train_deferred":
        airflow.wait_for_task(dag_id, run, "train", "deferred")
    handle = wait_until(lambda: airflow.xcom(dag_id, run, "train", "job"), TIMEOUT, lambda: "no handle in XCom")
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
    assert time_of(outcome["queued_at"]) <= time_of(outcome["started_at"])
    log = airflow.task_log(dag_id, run, "train")
    for replica, rank in (("master-0", 0), ("worker-0", 1)):
        assert line_numbers(log, replica, rank) == list(range(folder.lines_of(log, replica)))


@contextmanager
def slow(pid: int) -> Iterator[None]:
    """Give a process a twentieth of the time."""
    over = threading.Event()

    def hold_up() -> None:
        while not over.wait(0.01):
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.2)
            os.kill(pid, signal.SIGCONT)

    with ThreadPoolExecutor() as pool:
        held_up = pool.submit(hold_up)
        try:
            yield
        finally:
            over.set()
        held_up.result()


@pytest.mark.slow
def test_the_last_of_many_lines_are_in_the_log_of_a_deferred_task(airflow, folder):
    run = airflow.trigger_dag("train_deferred", {"folder": str(folder), "mode": "talk"})
    airflow.wait_for_task("train_deferred", run, "train", "deferred")
    # The process that writes the lines into the file, which reads 4 KiB of them at each of its turns.
    with slow(airflow.pid("triggerer")):
        folder.go()
        airflow.wait_for_task("train_deferred", run, "train", WAKENED)

    assert airflow.wait_for_run("train_deferred", run) == "success"
    log = airflow.task_log("train_deferred", run, "train")
    for replica, rank in (("master-0", 0), ("worker-0", 1)):
        assert line_numbers(log, replica, rank) == list(range(folder.lines_of(log, replica)))


def test_a_rank_that_raises_fails_the_task_at_once(airflow, folder):
    dag_id = "train_rarely_retried"
    run = airflow.trigger_dag(dag_id, {"folder": str(folder), "mode": "raise"})
    task = airflow.wait_for_task(dag_id, run, "train", "up_for_retry")

    failure = airflow.xcom(dag_id, run, "train", "failure")
    assert failure["replica"] == "worker-0"
    assert failure["rank"] == 1
    assert failure["exit_code"] == 1
    assert failure["traceback"][0] == "Traceback (most recent call last):"
    assert failure["traceback"][-1] == "ValueError: rank 1 has had enough"
    assert failure["others"] == [{"replica": "master-0", "exit_code": None, "signal": "SIGTERM", "reason": "Stopped"}]
    assert failure["retry_can_help"] == "unknown"
    status = airflow.status_of(airflow.xcom(dag_id, run, "train", "job")["name"])
    ended = next(replica.finished_at for replica in status.replicas if replica.name == "worker-0")
    # The other rank would go on for minutes.
    assert (time_of(task["end_date"]) - ended).total_seconds() < 30
    assert job_processes() == []


def test_a_spec_that_no_retry_can_cure_is_not_tried_again(airflow):
    run = airflow.trigger_dag("train_wrong")
    task = airflow.wait_for_task("train_wrong", run, "train")

    assert (task["state"], task["try_number"]) == ("failed", 1)
    log = airflow.task_log("train_wrong", run, "train")
    assert "framework: got 'pytroch'" in log
    assert "Did you mean 'pytorch'?" in log


def test_a_script_that_would_fail_in_each_try_is_not_tried_again(airflow, folder):
    conf = {"folder": str(folder), "mode": "hopeless"}
    runs = {dag_id: airflow.trigger_dag(dag_id, conf) for dag_id in ("train_waiting", "train_deferred")}

    for dag_id, run in runs.items():
        # It has a try left.
        task = airflow.wait_for_task(dag_id, run, "train", frozenset({"failed", "up_for_retry"}))
        assert (task["state"], task["try_number"], task["max_tries"]) == ("failed", 1, 1), dag_id
        failure = airflow.xcom(dag_id, run, "train", "failure")
        assert (failure["retry_can_help"], failure["traceback"][-1]) == ("no", "ImportError: no module named so")
    assert job_processes() == []


@pytest.mark.slow
def test_a_job_out_of_memory_is_tried_again_where_the_next_try_has_more_or_a_policy_says_so(airflow, folder):
    dag_id = "train_out_of_memory"
    run = airflow.trigger_dag(dag_id, {"folder": str(folder)})
    expected = {"waiting": ("success", 2), "deferred": ("success", 2), "fixed": ("failed", 1)}
    if AIRFLOW_V_3_3:
        expected |= {"ruled": ("failed", 2), "shipped": ("failed", 1)}

    tasks = {each: airflow.wait_for_task(dag_id, run, each, frozenset({"success", "failed"})) for each in expected}

    logs = {each: airflow.task_log(dag_id, run, each) for each in expected}
    for each, task in tasks.items():
        log = airflow.task_log(dag_id, run, each, task["try_number"])
        assert (each, task["state"], task["try_number"]) == (each, *expected[each]), log
    for each in ("waiting", "deferred"):
        assert "The next try asks for other limits, as its templates say." in logs[each]
        assert "held 200 MiB" in airflow.task_log(dag_id, run, each, 2)
    assert "The next try would ask for the same." in logs["fixed"]
    failure = airflow.xcom(dag_id, run, "fixed", "failure")
    assert (failure["reason"], failure["kind"], failure["retry_can_help"]) == ("OOMKilled", "memory", "no")
    if AIRFLOW_V_3_3:
        # The delay of the policy, and not the hour of the task.
        folder.wait_for_training()
        handle = wait_until(lambda: airflow.xcom(dag_id, run, "lost", "job"), TIMEOUT, lambda: "no handle in XCom")
        supervisor_of(handle["name"]).kill()
        folder.wait_for_training(2)
        folder.go()
        task = airflow.wait_for_task(dag_id, run, "lost", try_number=2)
        assert (task["state"], task["try_number"]) == ("success", 2)


def test_a_job_is_managed_by_tasks_and_who_waits_is_notified(airflow, folder):
    run = airflow.trigger_dag("train_managed", {"folder": str(folder)})

    assert airflow.wait_for_task("train_managed", run, "delete")["state"] == "success"

    airflow.wait_for_run("train_managed", run)
    states = {"train": "success", "suspend": "failed", "delete": "success", "failing": "failed", "soft": "skipped"}
    assert airflow.task_states("train_managed", run) == states
    # Jobs of this backend cannot be suspended, in no try.
    assert airflow.task_instance("train_managed", run, "suspend")["try_number"] == 1
    who = "deleted by task delete of DAG train_managed"
    for sensor in ("failing", "soft"):
        failure = airflow.xcom("train_managed", run, sensor, "failure")
        assert (failure["phase"], failure["reason"]) == ("cancelled", "Cancelled")
        # The last lines may come after the end of the run.
        log = partial(airflow.task_log, "train_managed", run, sensor)
        wait_until(lambda log=log: who in log() or None, TIMEOUT, log)
    assert job_processes() == []


def test_a_submitted_job_is_waited_for_by_sensors_of_every_mode(airflow, folder):
    dag_id, sensors = "train_handed_over", ("poking", "rescheduled", "deferred")
    run = airflow.trigger_dag(dag_id, {"folder": str(folder)})
    folder.wait_for_training()
    assert airflow.wait_for_task(dag_id, run, "train")["state"] == "success"
    airflow.wait_for_task(dag_id, run, "rescheduled", "up_for_reschedule")
    airflow.wait_for_task(dag_id, run, "deferred", "deferred")
    assert airflow.wait_for_task(dag_id, run, "limited")["state"] == "failed"
    log = partial(airflow.task_log, dag_id, run, "limited")
    wait_until(lambda: "execution_timeout (1 s) had passed" in log() or None, TIMEOUT, log)
    folder.go()

    airflow.wait_for_run(dag_id, run)
    assert airflow.task_states(dag_id, run) == {**dict.fromkeys(("train", *sensors), "success"), "limited": "failed"}
    for sensor in sensors:
        assert airflow.xcom(dag_id, run, sensor)["result"]["trainings"] == 1
        log = airflow.task_log(dag_id, run, sensor)
        assert line_numbers(log, "worker-0", 1) == list(range(folder.lines_of(log, "worker-0"))), sensor


@pytest.mark.slow
def test_sensors_say_the_same_whether_they_wait_here_or_in_the_triggerer(airflow, folder):
    dag_id = "train_reported"
    run = airflow.trigger_dag(dag_id, {"folder": str(folder), "mode": "raise"})

    assert airflow.wait_for_run(dag_id, run) == "failed"
    ways = ("waiting", "deferred")
    sensors = {f"{what}_{how}": "failed" for what in ("unnamed", "silent") for how in ways}
    assert airflow.task_states(dag_id, run) == {"wrong": "failed", "train": "success", **sensors}
    for how in ways:
        log = partial(airflow.task_log, dag_id, run, f"unnamed_{how}")
        wait_until(lambda log=log: "job: got None" in log() or None, TIMEOUT, log)
        assert "name: got None" not in log()
        failure = airflow.xcom(dag_id, run, f"silent_{how}", "failure")
        assert failure["traceback"][-1] == "ValueError: rank 1 has had enough", (how, failure)


@pytest.mark.slow
def test_lines_of_megabytes_are_bounded_and_lock_files_do_not_pile_up(airflow, folder):
    dag_id = "train_rarely_retried"
    for _ in range(2):
        run = airflow.trigger_dag(dag_id, {"folder": str(folder), "mode": "shout"})
        airflow.wait_for_task(dag_id, run, "train", "up_for_retry")

    failure = airflow.xcom(dag_id, run, "train", "failure")
    assert failure["traceback"][-1].startswith("ValueError: yyy")
    assert len(json.dumps(failure)) < 50_000
    log = airflow.task_log(dag_id, run, "train")
    assert "[worker-0] xxx" in log
    assert max(map(len, log.splitlines())) < 50_000
    # That of the last submit is removed by the next one.
    assert len(list((airflow.home / "trainer").glob(".*.lock"))) == 1


def test_a_subclass_that_fails_with_a_result_gets_it_again_from_the_same_job(airflow, folder):
    tasks = ("waiting", "deferred", "extended")
    folder.go()
    run = airflow.trigger_dag("train_subclassed", {"folder": str(folder)})

    assert airflow.wait_for_run("train_subclassed", run) == "success"
    assert len(folder.trainings()) == len(tasks)
    for task in tasks:
        assert airflow.task_instance("train_subclassed", run, task)["try_number"] == 2
        assert airflow.xcom("train_subclassed", run, task).keys() == {"uploaded"}
        assert "no room for the model" in airflow.task_log("train_subclassed", run, task)


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
