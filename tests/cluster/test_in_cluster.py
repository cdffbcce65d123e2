"""The command line in a pod of the cluster, with the account of that pod and nothing else to reach the cluster by."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cluster.account import WORKER, make_worker
from tests.cluster.jobs import wait_until
from tests.cluster.paths import ROOT

_JOB = {
    "framework": "jax",
    "name": "inside",
    "image": "trainer.test/tiny:test",
    "command": ["echo", "hello from the job"],
    "resources_per_node": {"cpu": {"requests": "20m"}},
    "run_policy": {"grace_period_seconds": 1},
}
#: First without a connection, then by one of Airflow's.
_SCRIPT = """
set -e
command="$PYTHON -m airflow_trainer_provider"
echo "$JOB" | $command submit - --namespace $NAMESPACE --backend native --wait
$command list --namespace $NAMESPACE --conn-id in_cluster
"""


def _folders():
    """What Python needs of this machine: itself, the libraries of the system, and the package."""
    wanted = [Path(each) for each in ("/usr", sys.base_prefix, sys.prefix, ROOT)]
    return [each for each in dict.fromkeys(wanted) if not any(other in each.parents for other in wanted)]


def test_a_pods_account_is_taken_without_a_connection_and_by_one_that_says_in_cluster(cluster, namespace):
    if cluster.own is None:
        pytest.skip("the pod runs this machine's Python: only on the project's own")
    make_worker(cluster, namespace)
    connection = {"conn_type": "kubernetes", "extra": {"in_cluster": True}}
    env = {
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "JOB": json.dumps(_JOB),
        "NAMESPACE": namespace,
        "AIRFLOW_HOME": "/tmp/airflow",
        "AIRFLOW_CONN_IN_CLUSTER": json.dumps(connection),
    }
    folders = {f"folder-{number}": str(folder) for number, folder in enumerate(_folders())}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "inside"},
        "spec": {
            "serviceAccountName": WORKER,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()],
            "containers": [
                {
                    "name": "main",
                    "image": "trainer.test/worker:test",
                    "command": ["sh", "-c", _SCRIPT],
                    "env": [{"name": name, "value": value} for name, value in env.items()],
                    "volumeMounts": [
                        {"name": name, "mountPath": path, "readOnly": True} for name, path in folders.items()
                    ],
                    "resources": {"requests": {"cpu": "50m"}},
                }
            ],
        },
    }
    cluster.kubectl.apply([pod], f"--namespace={namespace}")

    ended = wait_until(
        cluster.kubectl,
        "pod",
        "inside",
        namespace,
        lambda found: found["status"].get("phase") in ("Succeeded", "Failed"),
        seconds=360,
    )

    output = cluster.kubectl("logs", "inside", f"--namespace={namespace}")
    assert ended["status"]["phase"] == "Succeeded", output
    assert "[worker-0] hello from the job" in output
    # The list, by the connection.
    (row,) = [line for line in output.splitlines() if line.startswith("inside")]
    assert "succeeded" in row
