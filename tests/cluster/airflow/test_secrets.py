"""The connection's secret stays in the connection."""

from __future__ import annotations

import subprocess
from functools import partial

import pytest

from tests.cluster.airflow.jobs import handle_of, wait_until_gone
from tests.cluster.airflow.test_faults import start


def test_the_tokens_are_nowhere(on_cluster, tokens, folder, cluster):
    airflow, kubectl = on_cluster.airflow, on_cluster.access.kubectl
    dag_id, run = start(on_cluster, folder, "trainer", "deferred")

    # The trigger's row, logs so far, and every object of the job.
    found = [_files_with(token, airflow.home) for token in tokens.values()]
    objects = kubectl(
        "get", "all,trainjobs,trainingruntimes,events", f"--namespace={on_cluster.namespace}", "-o", "yaml"
    )
    folder.go()
    assert airflow.wait_for_run(dag_id, run) == "success"

    found += [_files_with(token, airflow.home) for token in tokens.values()]
    assert [each for each in found if each] == []
    log = airflow.task_log(dag_id, run, "train")
    task = str(airflow.request("GET", f"/dags/{dag_id}/dagRuns/{run}/taskInstances/train"))
    assert [account for account, token in tokens.items() if token in objects + log + task] == []
    wait_until_gone(on_cluster)


@pytest.mark.parametrize(
    ("how", "backend", "mode"),
    [
        ("waiting", "native", "fail"),
        ("deferred", "native", "fail"),
        ("deferred", "trainer", "fail"),
        ("deferred", "training-operator", "succeed"),
        ("waiting", "trainer", "succeed"),
    ],
)
def test_the_secrets_of_a_job_are_masked_in_all_that_airflow_stores_and_logs(
    on_cluster, planted, side_by_side, how, backend, mode
):
    side_by_side(partial(print_secrets, on_cluster, planted))


def print_secrets(on_cluster, planted, how, backend, mode):
    airflow, dag_id = on_cluster.airflow, f"secrets_{how}"
    run = on_cluster.run(dag_id, backend, mode=mode)

    assert airflow.wait_for_run(dag_id, run) == ("failed" if mode == "fail" else "success")

    log = airflow.task_log(dag_id, run, "train")
    # The rest of the lines stays readable.
    assert log.count("postgres://u:***@db/x") > 2
    assert "--password=***" in log
    assert "https://x/y?api_key=***&page=1" in log
    fields = airflow.request("GET", f"/dags/{dag_id}/dagRuns/{run}/taskInstances/train")["rendered_fields"]
    assert fields["args"] == [mode, "--password=***", "--token", "***"]
    if mode == "fail":
        assert "ValueError: cannot log in with ***" in airflow.xcom(dag_id, run, "train", "failure")["traceback"]
    else:
        found = airflow.xcom(dag_id, run, "train", "return_value")["result"]
        assert found == {"model": "m", "where": "postgres://u:***@db"}
    assert planted not in str(fields)
    assert _files_with(planted, airflow.home) == []
    wait_until_gone(on_cluster, handle_of(on_cluster, dag_id, run))


def _files_with(text, folder):
    """The files below a folder, the metadata database among them, that hold a text."""
    found = subprocess.run(
        ["grep", "--recursive", "--files-with-matches", "--text", "--fixed-strings", text, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()
