"""The Airflow that the other tests rely on runs, defers, survives the loss of a part, and leaves no trace."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.airflow.conftest import QUICK_TO_NOTICE
from tools.airflow_runner import AirflowInstance, processes
from tools.airflow_runner.databases.sqlite import Sqlite
from tools.airflow_runner.record import end_recorded, recorded_url

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

DAG = "toy_deferral"


def test_a_run_goes_through_scheduler_and_triggerer(airflow):
    run = airflow.trigger_dag(DAG, {"word": "hello"})

    assert airflow.wait_for_run(DAG, run) == "success"
    assert airflow.task_states(DAG, run) == {"say": "success", "wait": "success"}
    assert airflow.xcom(DAG, run, "say") == "hello"
    assert airflow.xcom(DAG, run, "say", "no such key") is None
    assert "said: hello" in airflow.task_log(DAG, run, "say").splitlines()


def test_a_cleared_task_runs_again(airflow):
    run = airflow.trigger_dag(DAG, {"word": "again"})
    airflow.wait_for_run(DAG, run)

    airflow.clear(DAG, run, "say")

    assert airflow.wait_for_task(DAG, run, "say", "success", try_number=2)["try_number"] == 2


def test_a_deferred_task_survives_the_triggerer(airflow):
    run = airflow.trigger_dag(DAG, {"word": "on"})
    airflow.wait_for_task(DAG, run, "wait", frozenset({"deferred", "success"}))

    airflow.kill("triggerer")
    airflow.restart("triggerer")

    assert airflow.wait_for_run(DAG, run) == "success"


def test_an_api_server_whose_requests_block_each_other_goes_on_before_the_scheduler_counts_as_dead(airflow):
    if not isinstance(airflow.database, Sqlite):
        pytest.skip("only SQLite has one lock for all requests")
    token = httpx.get(f"{airflow.url}/auth/token").raise_for_status().json()["access_token"]
    client = httpx.Client(base_url=f"{airflow.url}/api/v2", headers={"Authorization": f"Bearer {token}"})
    # A value that is there already is not written.
    is_paused = client.get(f"/dags/{DAG}").raise_for_status().json()["is_paused"]
    threshold = float(QUICK_TO_NOTICE["scheduler"]["scheduler_health_check_threshold"])

    with closing(sqlite3.connect(airflow.database.file, timeout=30)) as other_request:
        other_request.execute("begin immediate")
        began = time.monotonic()
        answer = client.patch(f"/dags/{DAG}", json={"is_paused": not is_paused}, timeout=threshold)
        if answer.is_success:
            # Airflow 3.1 commits behind its answer.
            time.sleep(max(0.0, began + threshold - time.monotonic()))
        else:
            assert (answer.status_code, "Database error" in answer.text) == (500, True)

    if answer.is_success:
        # A write that still waited is done by now.
        time.sleep(2)
    assert client.get(f"/dags/{DAG}").raise_for_status().json()["is_paused"] is is_paused


def test_another_process_finds_it_and_ends_all_of_it(tmp_path):
    airflow = AirflowInstance(tmp_path / "home", [tmp_path]).start()
    # What a training job does: a session of its own, and a parent that is gone.
    orphan = "import os, subprocess, sys; subprocess.Popen(['sleep', '300'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", orphan], env=airflow.env, check=True)
    assert recorded_url(airflow.home) == airflow.url
    assert "sleep" in {process.name() for process in processes.of_instance(airflow.marker)}

    assert end_recorded(airflow.home)

    assert processes.of_instance(airflow.marker) == []
    assert recorded_url(airflow.home) is None
    outside = airflow.database.outside
    assert not outside or not Path(outside).exists()
    airflow.stop()
