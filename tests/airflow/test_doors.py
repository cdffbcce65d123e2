"""The doors by which a DAG author runs a task without a scheduler: its job ends with it, and no listener complains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.jobs import JobFolder, job_processes
from tests.airflow.tasks import GRACE, SIGNALLING
from tools.airflow_runner import AirflowInstance
from tools.airflow_runner.api import wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local, pytest.mark.slow]

DAG_FILE = Path(__file__).parent / "dags" / "train_jobs.py"
DAG_TEST = f"""
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("train_jobs", {str(DAG_FILE)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
getattr(module, sys.argv[1]).test(run_conf=json.loads(sys.argv[2]))
"""
AIRFLOW = [sys.executable, "-m", "airflow"]


def dag_test(dag, conf):
    return [sys.executable, "-c", DAG_TEST, dag, conf]


def dags_test(dag, conf):
    return [*AIRFLOW, "dags", "test", dag, "--conf", conf]


def tasks_test(dag, conf):
    return [*AIRFLOW, "tasks", "test", dag, "train", "--task-params", conf]


#: The DAG whose task would train for longer than it may.
LIMITED = "train_too_long"
DOORS = (dag_test, dags_test, tasks_test)


@pytest.fixture
def environments(tmp_path):
    """An Airflow for each door, with no scheduler, which would run the task, and with a database of its own."""
    homes = [AirflowInstance(tmp_path / f"home-{number}", [DAG_FILE.parent]) for number in range(len(DOORS))]
    first, *others = homes
    first.prepare()
    subprocess.run([*AIRFLOW, "dags", "reserialize"], env=first.env, check=True)
    for each in others:
        each.prepare(like=first)
    yield [each.env for each in homes]
    for each in homes:
        each.stop()


@pytest.fixture
def try_doors(environments, tmp_path):
    """Run a DAG of one task through each door, at the same time; gives for each its folder and what it printed."""

    def go(dag, mode):
        folders, running = [], []
        for door, env in zip(DOORS, environments, strict=True):
            folder = JobFolder(tmp_path / f"{dag}-{mode}-{door.__name__}")
            folder.path.mkdir()
            if dag != LIMITED:
                folder.go()
            argv = door(dag, json.dumps({"folder": str(folder), "mode": mode}))
            running.append(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            folders.append(folder)
        return [(folder, process.communicate(timeout=720)[0]) for folder, process in zip(folders, running, strict=True)]

    yield go
    wait_until(lambda: not job_processes() or None, GRACE + SIGNALLING, lambda: str(job_processes()))


def assert_no_listener_complains(text):
    assert "error calling listener" not in text, text
    assert "DetachedInstanceError" not in text, text


def test_a_task_whose_time_is_over_ends_its_job(try_doors):
    for folder, text in try_doors(LIMITED, "train"):
        assert len(folder.trainings()) == 1, text
        assert "AirflowTaskTimeout" in text, text
        assert_no_listener_complains(text)


def test_a_deferred_task_goes_on_with_the_end_of_its_job(try_doors):
    for folder, text in try_doors("train_deferred_once", "train"):
        assert len(folder.trainings()) == 1, text
        assert "Traceback" not in text, text
        assert_no_listener_complains(text)
    for _, text in try_doors("train_deferred_once", "raise"):
        assert "rank 1 has had enough" in text, text
        assert "TypeError" not in text, text
        assert_no_listener_complains(text)
