"""The connection's secret stays in the connection."""

from __future__ import annotations

import subprocess

from tests.cluster.airflow.test_faults import start, wait_until_gone


def test_the_token_is_nowhere(on_cluster, token, folder, cluster):
    airflow, kubectl = on_cluster.airflow, on_cluster.access.kubectl
    dag_id, run = start(on_cluster, folder, "trainer", "deferred")

    # The trigger's row, logs so far, and every object of the job.
    found = _files_with(token, airflow.home)
    objects = kubectl(
        "get", "all,trainjobs,trainingruntimes,events", f"--namespace={on_cluster.namespace}", "-o", "yaml"
    )
    folder.go()
    assert airflow.wait_for_run(dag_id, run) == "success"

    assert found == []
    assert token not in objects
    assert _files_with(token, airflow.home) == []
    assert token not in airflow.task_log(dag_id, run, "train")
    assert token not in str(airflow.request("GET", f"/dags/{dag_id}/dagRuns/{run}/taskInstances/train"))
    wait_until_gone(on_cluster)


def _files_with(text, folder):
    """The files below a folder, the metadata database among them, that hold a text."""
    found = subprocess.run(
        ["grep", "--recursive", "--files-with-matches", "--text", "--fixed-strings", text, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()
