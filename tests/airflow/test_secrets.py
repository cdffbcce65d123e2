"""The secrets in the input of a job are masked in all that Airflow stores and logs."""

from __future__ import annotations

import subprocess

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.local]


@pytest.mark.parametrize(
    ("how", "mode"),
    [
        ("waiting", "fail"),
        pytest.param("waiting", "succeed", marks=pytest.mark.slow),
        pytest.param("deferred", "fail", marks=pytest.mark.slow),
        ("deferred", "succeed"),
    ],
)
def test_no_file_of_airflow_holds_a_secret_of_a_job(airflow, planted, how, mode):
    dag_id = f"secrets_{how}"
    run = airflow.trigger_dag(dag_id, {"mode": mode})

    assert airflow.wait_for_run(dag_id, run) == ("failed" if mode == "fail" else "success")

    log = airflow.task_log(dag_id, run, "train")
    # In the rendered job, and in the output of the job.
    assert log.count("postgres://u:***@db/x") == 2
    assert f"{mode} --password=*** --token ***" in log
    fields = airflow.request("GET", f"/dags/{dag_id}/dagRuns/{run}/taskInstances/train")["rendered_fields"]
    assert fields["args"] == [mode, "--password=***", "--token", "***"]
    assert fields["env"]["DATABASE_URL"] == "postgres://u:***@db/x"
    # What the tab "Rendered Template" shows of the whole job.
    assert "DATABASE_URL: postgres://u:***@db/x\n" in fields["rendered_job"]
    assert "--password=***" in fields["rendered_job"]
    if mode == "fail":
        assert airflow.xcom(dag_id, run, "train", "failure")["traceback"][-1] == "ValueError: cannot log in with ***"
    else:
        found = airflow.xcom(dag_id, run, "train", "return_value")["result"]
        assert found == {"model": "m", "where": "postgres://u:***@db"}
    assert planted not in str(fields)
    assert _files_with(planted, airflow.home) == []


def _files_with(text, folder):
    """The files of Airflow that contain a text, including its database and logs, but not the folders of jobs."""
    options = ["--recursive", "--files-with-matches", "--text", "--fixed-strings", "--exclude-dir=trainer"]
    found = subprocess.run(["grep", *options, text, str(folder)], capture_output=True, text=True, check=False)
    return found.stdout.split()
