"""What the tests see of the tasks that have the jobs, and of their workers."""

from __future__ import annotations

import psutil

from tests.airflow.jobs import job_processes, line_numbers
from tools.airflow_runner.api import TIMEOUT, wait_until

#: Seconds: the jobs' grace period, and what it takes to signal them to end.
GRACE = 3
SIGNALLING = 30


def start(airflow, dag_id, folder, mode="train", **params):
    """A run whose job trains, and whose task has recorded its job and waits."""
    run = airflow.trigger_dag(dag_id, {"folder": str(folder), "mode": mode, **params})
    folder.wait_for_training()
    wait_until(lambda: airflow.xcom(dag_id, run, "train", "job"), TIMEOUT, lambda: "no handle in XCom")
    if dag_id not in ("train_waiting", "train_once", "train_patient", "train_changed"):
        airflow.wait_for_task(dag_id, run, "train", "deferred")
    return run


def worker_processes(airflow, dag_id, run):
    """The task's own process, and LocalExecutor's that supervises it."""
    task = airflow.task_instance(dag_id, run, "train")["id"]
    family = psutil.Process(airflow.pid("scheduler")).children(recursive=True)
    found = [process for process in family if any(is_id(part, task) for part in title(process).split())]
    assert len(found) == 2, family
    return sorted(found, key=lambda process: process.ppid() in {other.pid for other in found}, reverse=True)


def is_id(word, task):
    """Whether a word of a process's title is a task's id, which is cut off where the command line was short."""
    return len(word) >= 20 and task.startswith(word)


def title(process):
    try:
        return process.cmdline()[0]
    except (psutil.Error, IndexError):
        return ""  # it has ended, or waits to be reaped


def assert_adopted_and_trained_once(airflow, dag_id, run, folder):
    """A task whose second try has adopted the job of the first, which then comes to its end."""
    airflow.wait_for_task(dag_id, run, "train", "running", try_number=2)

    def log() -> str:
        return airflow.task_log(dag_id, run, "train", 2)

    wait_until(lambda: "Adopted training job" in log() or None, TIMEOUT, log)
    folder.go()
    task = airflow.wait_for_task(dag_id, run, "train", "success", try_number=2)
    assert task["try_number"] == 2
    assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == 1
    assert len(folder.trainings()) == 1
    log = airflow.task_log(dag_id, run, "train", 2)
    assert line_numbers(log, "worker-0", 1) == list(range(folder.lines_of(log, "worker-0")))
    assert job_processes() == []
