"""The doors by which a DAG author runs a task without a scheduler: its job ends with it, and no listener complains."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.jobs import JobFolder, job_processes
from tests.airflow.tasks import GRACE, SIGNALLING
from tools.airflow_runner import AirflowInstance
from tools.airflow_runner.api import wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local]

DOORS = ("dag.test()", "airflow dags test", "airflow tasks test")
DAG_FILE = Path(__file__).parent / "dags" / "train_jobs.py"
DAG_TEST = f"""
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("train_jobs", {str(DAG_FILE)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.train_too_long.test(run_conf=json.loads(sys.argv[1]))
"""


def command(door, conf):
    airflow = [sys.executable, "-m", "airflow"]
    return {
        "dag.test()": [sys.executable, "-c", DAG_TEST, conf],
        "airflow dags test": [*airflow, "dags", "test", "train_too_long", "--conf", conf],
        "airflow tasks test": [*airflow, "tasks", "test", "train_too_long", "train", "--task-params", conf],
    }[door]


@pytest.fixture
def environments(tmp_path):
    """An Airflow for each door, with no scheduler, which would run the task, and with a SQLite of its own."""
    homes = [AirflowInstance(tmp_path / f"home-{number}", [DAG_FILE.parent]) for number in range(len(DOORS))]
    first, *others = homes
    first.prepare()
    subprocess.run([sys.executable, "-m", "airflow", "dags", "reserialize"], env=first.env, check=True)
    for each in others:
        each.prepare()
        shutil.copy(first.home / "airflow.db", each.home)
    yield [each.env for each in homes]
    for each in homes:
        each.stop()


def test_a_task_whose_time_is_over_ends_its_job(environments, tmp_path):
    folders, running = {}, {}
    for door, env in zip(DOORS, environments, strict=True):
        folders[door] = JobFolder(tmp_path / f"folder-{len(folders)}")
        folders[door].path.mkdir()
        argv = command(door, json.dumps({"folder": str(folders[door])}))
        running[door] = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    output = {door: process.communicate(timeout=720)[0] for door, process in running.items()}

    for door, text in output.items():
        assert len(folders[door].trainings()) == 1, (door, text)
        assert "AirflowTaskTimeout" in text, (door, text)
        assert "error calling listener" not in text, (door, text)
        assert "DetachedInstanceError" not in text, (door, text)
    wait_until(lambda: not job_processes() or None, GRACE + SIGNALLING, lambda: f"{job_processes()}: {output}")
