"""The command line against the real cluster, in processes of its own that know nothing of Airflow."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial

import pytest
import yaml

from tests.cluster.jobs import conditions, wait_until
from tests.cluster.node import wait_for

_WORKER = "trainer.test/worker:test"
_SMALL = {"cpu": "50m", "memory": "64Mi"}
_POD = {
    "image": _WORKER,
    "num_nodes": 2,
    "resources_per_node": _SMALL,
    "run_policy": {"grace_period_seconds": 1},
}


@pytest.fixture
def run(cluster, namespace, tmp_path):
    """Function (words) -> exit code, standard output, standard error.

    ``meanwhile`` is called once the command has printed a line, while it runs.
    """

    def run(*words, where=cluster.kubectl.kubeconfig, meanwhile=None, seconds=450):
        command = [sys.executable, "-m", "airflow_trainer_provider", words[0], "--kubeconfig", str(where)]
        # Without an Airflow to configure, none is written down either.
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        words = [*command, "--namespace", namespace, *words[1:]]
        first, pipe = b"", subprocess.PIPE
        # Without a buffer, which communicate() would leave unread.
        with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0) as process:
            try:
                if meanwhile:
                    first = process.stdout.readline()
                    meanwhile()
                rest, err = process.communicate(timeout=seconds)
            finally:
                process.kill()
        out, err = (first + rest).decode(), err.decode()
        assert "Traceback" not in err.replace('Traceback (most recent call last):\n  File "<string>"', "")
        assert not (tmp_path / "airflow").exists()
        return process.returncode, out, err

    return run


@pytest.fixture
def go(cluster, namespace):
    """Function that lets the job of the namespace come to its end: see ``_STEPS``."""

    def go():
        for pod in cluster.kubectl.list("pods", namespace):
            words = ("exec", pod["metadata"]["name"], f"--namespace={namespace}", "--", "touch", "/tmp/go")
            wait_for(partial(cluster.kubectl.ok, *words), f"a shell in {words[1]}", seconds=180)

    return go


@pytest.fixture
def job(tmp_path):
    """Function (script, fields) -> the file of a job whose replicas run a script."""

    def job(script, **fields):
        file = tmp_path / "job.yaml"
        values = {"framework": "jax", **_POD, "command": ["python3", "-u", "-c", script], **fields}
        file.write_text(yaml.safe_dump(values))
        return str(file)

    return job


@pytest.fixture
def wait(run):
    """Function (name, condition) that waits until what the description of a job says is as wanted."""

    def wait(name, condition):
        deadline = time.monotonic() + 180
        while True:
            found = json.loads(run("describe", name, "-o", "json")[1])
            if condition(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.5)

    return wait


def _jobs(run):
    return {job["name"]: job for job in json.loads(run("list", "-o", "json")[1])}


_RESULT = """
import json, os
print("hello from", os.environ["TRAINER_REPLICA"])
if os.environ["PROCESS_ID"] == "0":
    json.dump({"metrics": {"loss": 0.5}}, open(os.environ["TRAINER_RESULT_PATH"], "w"))
"""


@pytest.mark.parametrize("backend", ["native", "training-operator", "trainer"])
def test_a_job_is_submitted_followed_listed_and_deleted(run, job, backend):
    code, out, err = run("submit", job(_RESULT, name="hello"), "--backend", backend, "--wait")

    handle, *lines, summary = out.splitlines()
    name = json.loads(handle)["name"]
    assert (code, err) == (0, "")
    assert {line.partition("] ")[2].split()[0] for line in lines if line.startswith("[worker-")} == {"hello"}
    assert lines[-1] == f"Training job {name}: succeeded."
    assert json.loads(summary)["metrics"] == {"loss": 0.5}
    assert _jobs(run)[name]["status"]["phase"] == "succeeded"
    assert "Phase:      succeeded\n" in run("describe", name)[1]
    assert run("logs", name, "--replica", "worker-1", "--tail", "1")[1] == "[worker-1] hello from worker-1\n"
    assert run("delete", name)[0] == 0
    assert _jobs(run) == {}


_RAISES = """
import os, time
if os.environ["PROCESS_ID"] == "1":
    raise ValueError("no such file: /data/train.csv")
time.sleep(3600)
"""


@pytest.mark.parametrize("backend", ["native", "training-operator", "trainer"])
def test_a_failed_job_is_shown_with_its_verdict_now_and_later(run, job, backend):
    code, out, err = run("submit", job(_RAISES), "--backend", backend, "--wait")

    name = json.loads(out.splitlines()[0])["name"]
    assert code == 1
    assert "worker-1 (rank 1) failed first: it ended with exit code 1" in err
    assert err.rstrip().endswith("ValueError: no such file: /data/train.csv")
    code, later, _ = run("describe", name)
    assert code == 0
    assert f"Phase:      failed ({_jobs(run)[name]['status']['reason']}" in later
    assert "  ValueError: no such file: /data/train.csv" in later
    assert "Retry can help: unknown." in later


def test_what_keeps_a_job_from_starting_is_described(run, job, wait):
    code, out, _ = run("submit", job("", image="trainer.test/missing:1"), "--backend", "training-operator")
    assert code == 0
    name = json.loads(out)["name"]

    found = wait(name, lambda found: "Image" in (found["status"]["reason"] or ""))

    assert found["status"]["phase"] == "starting"
    assert any("trainer.test/missing:1" in warning["message"] for warning in found["warnings"])
    assert "starting (" in run("list")[1]
    assert "no log of container" in run("logs", name)[1]


#: Half of its lines come when the test wants it.
_STEPS = """
import os, time
for step in range(6):
    while step == 3 and not os.path.exists("/tmp/go"):
        time.sleep(0.05)
    print("step", step)
"""
_ALL_STEPS = "for step in range(6): print('step', step)"
_THEIRS = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "JAXJob",
    "metadata": {"name": "theirs"},
    "spec": {
        "jaxReplicaSpecs": {
            "Worker": {
                "replicas": 2,
                "restartPolicy": "Never",
                "template": {
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [
                            {
                                "name": "jax",
                                "image": _WORKER,
                                "command": ["python3", "-u", "-c", _STEPS],
                                "resources": {"requests": _SMALL},
                            }
                        ],
                    }
                },
            }
        }
    },
}


def test_a_job_that_something_else_made_is_managed_as_well(run, cluster, namespace, wait, go):
    cluster.kubectl.apply_until_accepted([_THEIRS], f"--namespace={namespace}", seconds=180)
    wait("theirs", lambda found: found["status"]["phase"] == "running")

    assert run("suspend", "theirs")[1] == f"Suspended jaxjob theirs in namespace {namespace}.\n"
    assert cluster.kubectl.list("pods", namespace) == []
    assert _jobs(run)["theirs"]["status"]["phase"] == "suspended"
    assert run("resume", "theirs", "--wait")[1].endswith(" It is running.\n")
    code, out, _ = run("logs", "theirs", "--follow", "--replica", "worker-1", meanwhile=go)

    assert (code, out.splitlines()) == (0, [f"[worker-1] step {step}" for step in range(6)])
    assert _jobs(run)["theirs"]["task"] is None
    main = wait_until(
        cluster.kubectl, "jaxjobs", "theirs", namespace, lambda job: "Succeeded" in conditions(job), seconds=90
    )
    assert not any("trainer-provider" in name for name in main["metadata"].get("annotations") or {})
    assert run("suspend", "theirs")[0] == 2
    assert run("delete", "theirs", "--kind", "JAXJob")[0] == 0


def test_following_goes_on_behind_the_last_lines(run, job, wait, go):
    name = json.loads(run("submit", job(_STEPS, num_nodes=1), "--backend", "native")[1])["name"]
    wait(name, lambda found: found["status"]["phase"] == "running")
    wait_for(lambda: "step 2" in run("logs", name)[1], "the first lines", seconds=180)

    out = run("logs", name, "--follow", "--tail", "1", meanwhile=go)[1]

    assert [int(line.split()[-1]) for line in out.splitlines()] == [2, 3, 4, 5]
    assert run("logs", name)[1].splitlines() == [f"[worker-0] step {step}" for step in range(6)]


_CRASHES_ONCE = """
import os, time
print("attempt", os.environ.get("TRAINER_ATTEMPT"), flush=True)
if not os.path.exists("/tmp/crashed/once"):
    open("/tmp/crashed/once", "w")
    raise SystemExit(3)
time.sleep(3600)
"""


def test_the_log_before_a_restart(run, job, wait):
    template = {
        "spec": {
            "volumes": [{"name": "kept", "emptyDir": {}}],
            "containers": [{"name": "train", "volumeMounts": [{"name": "kept", "mountPath": "/tmp/crashed"}]}],
        }
    }
    policy = {"backoff_limit": 3, "grace_period_seconds": 1}
    file = job(_CRASHES_ONCE, num_nodes=1, pod_template=template, run_policy=policy)
    name = json.loads(run("submit", file, "--backend", "training-operator")[1])["name"]
    wait(name, lambda found: found["ready"]["running"] == 1 and found["status"]["replicas"][0]["restarts"] == 1)

    assert len(run("logs", name, "--previous")[1].splitlines()) == 1
    assert len(run("logs", name)[1].splitlines()) == 1


def test_a_manifest_is_submitted_and_followed(run, tmp_path):
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(_THEIRS).replace(json.dumps(_STEPS), json.dumps(_ALL_STEPS)))

    code, out, _ = run("submit", str(file), "--wait")

    handle = json.loads(out.splitlines()[0])
    assert (code, handle["backend"]) == (0, "training-operator")
    assert handle["name"].startswith("theirs-")
    assert "[worker-0] step 5" in out


def test_what_the_cluster_refuses_is_reported(run, job):
    file = job("", pod_template={"spec": {"nodeSelecter": {"gpu": "yes"}}})
    code, out, err = run("submit", file, "--backend", "native")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "nodeSelecter" in err

    code, _, err = run("list", "--context", "nowhere")
    assert (code, "nowhere" in err) == (2, True)
    code, _, err = run("list", where="/nowhere")
    assert (code, "/nowhere" in err) == (2, True)


def test_a_cluster_that_does_not_answer_is_given_up(run, tmp_path, cluster):
    config = yaml.safe_load(cluster.kubectl.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    dead = tmp_path / "dead"
    dead.write_text(yaml.safe_dump(config))
    # What waits for jobs gives up after 300.
    code, _, err = run("list", where=dead, seconds=150)

    assert (code, err.count("error: ")) == (2, 1)
