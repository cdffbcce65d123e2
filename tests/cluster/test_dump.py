"""A failed test leaves its objects, pods, events and logs behind."""

from __future__ import annotations

from tests.cluster.dump import dump
from tests.cluster.jobs import wait_until

_SCRIPT = "echo last words; exit 3"
_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "speaker"},
    "spec": {
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "trainer.test/tiny:test", "command": ["sh", "-c", _SCRIPT]}],
            }
        },
    },
}


def test_dump_holds_what_explains_failure(cluster, namespace, tmp_path):
    cluster.kubectl.apply([_JOB], f"--namespace={namespace}")
    wait_until(cluster.kubectl, "job", "speaker", namespace, lambda job: job["status"].get("failed"), seconds=180)
    dump(cluster, namespace, tmp_path, seconds=300)

    assert "name: speaker" in (tmp_path / "jobs.batch.yaml").read_text()
    assert "exitCode: 3" in (tmp_path / "pods.yaml").read_text()
    assert "speaker" in (tmp_path / "events.txt").read_text()
    logs = "".join(path.read_text() for path in (tmp_path / "logs").iterdir())
    assert "last words" in logs
    assert list((tmp_path / "controllers").iterdir())
    # Only what is there: no file for a kind that the namespace has no object of would mislead.
    assert (tmp_path / "pytorchjobs.kubeflow.org.yaml").read_text().count("kind: PyTorchJob") == 0


def test_dump_of_unknown_namespace_is_no_error(cluster, tmp_path):
    dump(cluster, "trainer-test-no-such-namespace", tmp_path)
