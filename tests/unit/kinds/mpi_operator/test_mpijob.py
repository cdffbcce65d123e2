"""MPIJob in its two versions; the launcher's script is run for real, with a stand-in for ssh."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.job.monitor import Monitor
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import Facts, Manifest, ReplicaRef
from airflow_trainer_provider.kinds.mpi_operator.mpijob import MPIJOB_V1, MPIJOB_V2BETA1
from airflow_trainer_provider.kinds.status.job_status import job_status
from tests.golden_files import assert_golden
from tests.unit.kinds.specs import job_of, meta

NOW = datetime(2026, 11, 21, 8, tzinfo=timezone.utc)
BOTH = pytest.mark.parametrize("kind", [MPIJOB_V1, MPIJOB_V2BETA1], ids=lambda kind: kind.key)


def main_of(kind, **fields: Any) -> Manifest:
    job = job_of("mpi", **fields)
    kind.renderer.check(job)
    return kind.renderer.render(job, meta(job, "train"), Facts()).main


def container_of(main: Manifest, group: str) -> Manifest:
    return main["spec"]["mpiReplicaSpecs"][group]["template"]["spec"]["containers"][0]


def test_golden_v2beta1():
    job = job_of("mpi")
    MPIJOB_V2BETA1.renderer.check(job)

    rendered = MPIJOB_V2BETA1.renderer.render(job, meta(job), Facts())

    assert_golden("mpi-operator/mpi.yaml", yaml.safe_dump_all([rendered.main], sort_keys=False))


@BOTH
def test_the_launcher_is_no_node(kind):
    main = main_of(kind, resources_per_node={"gpu": 2})

    assert "resources" not in container_of(main, "Launcher")
    assert container_of(main, "Worker")["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    own = main_of(kind, replicas={"launcher": {"resources": {"cpu": 1}}})
    assert container_of(own, "Launcher")["resources"]["requests"] == {"cpu": "1"}


@BOTH
def test_all_ranks_get_the_launchers_variables(kind):
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    template = {"spec": {"containers": [{"name": "mpi", "env": [secret]}]}}
    command = container_of(main_of(kind, pod_template=template), "Launcher")["command"]

    forwarded = {word for flag, word in pairwise(command) if flag == "-x"}
    assert forwarded >= {"STAGE", "TOKEN", "TRAINER_RESULT_PATH", "TRAINER_REPLICA", "TRAINER_FILES"}
    assert command[-4:] == ["python", "train.py", "--epochs", "4"]
    assert "$(TRAINER_FILES)/hostfile" in command


@BOTH
def test_a_command_that_begins_with_mpirun_is_not_touched(kind):
    words = ["mpirun", "-np", "2", "python", "train.py"]
    command = container_of(main_of(kind, command=words, args=[]), "Launcher")["command"]

    assert command[-5:] == words
    assert "-x" not in command


@BOTH
def test_an_images_entry_point_stays(kind):
    main = main_of(kind, command=None)

    assert "command" not in container_of(main, "Launcher")
    assert container_of(main, "Launcher")["args"] == ["--epochs", "4"]


def test_v2beta1_starts_the_launcher_again_in_a_new_pod():
    specs = main_of(MPIJOB_V2BETA1, run_policy={"backoff_limit": 2})["spec"]

    # A limit that is left out would be the Job's own, 6.
    assert main_of(MPIJOB_V2BETA1)["spec"]["runPolicy"]["backoffLimit"] == 0
    assert specs["runPolicy"]["backoffLimit"] == 2
    assert specs["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] == "Never"
    # The limit is the launcher's: nothing would bound the restarts of a worker.
    assert specs["mpiReplicaSpecs"]["Worker"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"replicas": {"worker": {"overrides": [{"index": 1, "image": "other"}]}}}, "replicas.worker.overrides[0]"),
        ({"runtime_ref": "mpi"}, "runtime_ref"),
        ({"run_policy": {"backoff_limit": 1, "exit_codes": {"fail": [3]}}}, "run_policy.exit_codes"),
        ({"env": {"OMPI_MCA_plm_rsh_args": "-p 2222"}}, "env"),
        (
            {"pod_template": {"spec": {"securityContext": {"runAsUser": 5000}}}},
            "pod_template.spec.securityContext.runAsUser",
        ),
        (
            {"pod_template": {"spec": {"containers": [{"name": "mpi", "securityContext": {"runAsNonRoot": True}}]}}},
            "pod_template.spec.containers[name=mpi].securityContext.runAsNonRoot",
        ),
    ],
)
def test_what_v2beta1_cannot_do_is_refused(fields, field):
    with pytest.raises(UnsupportedField, match="'mpi-operator'") as raised:
        MPIJOB_V2BETA1.renderer.check(job_of("mpi", **fields))

    assert raised.value.problems[0].field == field


def test_v2beta1_runs_as_root():
    MPIJOB_V2BETA1.renderer.check(
        job_of("mpi", pod_template={"spec": {"securityContext": {"runAsUser": 0, "fsGroup": 7}}})
    )


def test_v2beta1_takes_a_queue():
    main = main_of(MPIJOB_V2BETA1, scheduling={"queue_name": "gpus"})
    assert main["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"


@pytest.mark.parametrize(
    ("labels", "trains", "ref"),
    [
        ({"job-role": "launcher"}, False, ReplicaRef("launcher", 0)),
        ({"job-role": "worker", "replica-index": "2"}, False, ReplicaRef("worker", 2)),
        # A launcher that trains too takes index 0.
        ({"job-role": "launcher", "replica-index": "0"}, True, ReplicaRef("launcher", 0)),
        ({"job-role": "worker", "replica-index": "2"}, True, ReplicaRef("worker", 1)),
        ({"job-role": "worker"}, False, None),
        ({}, False, None),
    ],
)
def test_replica_references_of_v2beta1(labels, trains, ref):
    pod = {"metadata": {"labels": {f"training.kubeflow.org/{name}": value for name, value in labels.items()}}}

    assert MPIJOB_V2BETA1.replica_ref(pod, {"spec": {"runLauncherAsWorker": trains}}) == ref


def _pod(group: str, phase: str, index: int = 0, **metadata: Any) -> Manifest:
    labels = {
        "training.kubeflow.org/job-role": group,
        **({"training.kubeflow.org/replica-index": str(index)} if group == "worker" else {}),
    }
    return {"metadata": {"labels": labels, **metadata}, "spec": {"containers": []}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "replicas", "ref"),
    [
        ([_pod("worker", "Running"), _pod("worker", "Failed", 1)], {"Worker": {"failed": 1}}, ReplicaRef("worker", 1)),
        ([_pod("worker", "Failed")], {}, ReplicaRef("worker", 0)),
        ([_pod("worker", "Pending"), _pod("worker", "Running", 1)], {"Worker": {}}, None),
        # The operator creates another one.
        ([_pod("worker", "Failed", deletionTimestamp="2026-01-01T00:00:00Z")], {}, None),
        # There is a launcher, which may go on, or fails the job.
        ([_pod("worker", "Failed")], {"Launcher": {}}, None),
        ([_pod("worker", "Failed"), _pod("launcher", "Pending")], {}, None),
    ],
)
def test_v2beta1_creates_no_launcher_beside_a_worker_that_has_failed(pods, replicas, ref):
    main = main_of(MPIJOB_V2BETA1) | {"status": {"replicaStatuses": replicas}}

    assert MPIJOB_V2BETA1.controller.blocked_by(main, pods) == ref
    main["spec"]["launcherCreationPolicy"] = "AtStartup"
    assert MPIJOB_V2BETA1.controller.blocked_by(main, pods) is None


def test_a_job_of_v2beta1_whose_worker_cannot_fetch_its_data_is_blocked():
    file = Path(__file__).parents[1] / "status" / "pods" / "init-failed.json"
    failed = json.loads(file.read_text())
    failed["metadata"]["labels"] = _pod("worker", "Failed")["metadata"]["labels"]
    main = main_of(MPIJOB_V2BETA1)
    main["metadata"]["creationTimestamp"] = failed["metadata"]["creationTimestamp"]
    groups = MPIJOB_V2BETA1.groups(main)

    found = job_status(MPIJOB_V2BETA1, main, [failed], groups=groups, ranked=False)

    assert (found.phase, found.reason, found.blocked_by) == (JobPhase.STARTING, "Init:Error", "worker-0")
    assert found.message == "worker-0: init container prepare ended with exit code 2: no data"
    main["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]}
    assert job_status(MPIJOB_V2BETA1, main, [failed], groups=groups, ranked=False).blocked_by is None


@pytest.mark.parametrize(
    ("restart_policy", "end", "said"),
    [
        ("Never", {"exitCode": 3, "reason": "Error", "message": "no room"}, "ended with exit code 3: no room"),
        ("Never", {"exitCode": 0, "reason": "Completed"}, "ended with exit code 0"),
        ("OnFailure", {"exitCode": 0, "reason": "Completed"}, "ended with exit code 0"),
        # The kubelet starts it again.
        ("OnFailure", {"exitCode": 3, "reason": "Error"}, None),
        (None, {"exitCode": 0, "reason": "Completed"}, None),
    ],
)
def test_a_job_of_v2beta1_is_blocked_by_a_worker_whose_sidecar_has_ended(restart_policy, end, said):
    file = Path(__file__).parents[1] / "status" / "pods" / "running.json"
    pod = json.loads(file.read_text())
    pod["metadata"]["labels"] = _pod("worker", "Running")["metadata"]["labels"]
    pod["spec"] |= {"containers": [*pod["spec"]["containers"], {"name": "shipper"}], "restartPolicy": restart_policy}
    pod["status"]["containerStatuses"].append({"name": "shipper", "state": {"terminated": end}})
    main = main_of(MPIJOB_V2BETA1)
    main["metadata"]["creationTimestamp"] = pod["metadata"]["creationTimestamp"]
    groups = MPIJOB_V2BETA1.groups(main)

    found = job_status(MPIJOB_V2BETA1, main, [pod], groups=groups, ranked=False)

    assert found.phase is JobPhase.STARTING
    if said is None:
        assert (found.blocked_by, found.reason) == (None, None)
        return
    assert (found.blocked_by, found.reason) == ("worker-0", f"Sidecar:{end['reason']}")
    assert found.message.startswith(f"worker-0: sidecar shipper {said}; the job starts once all its pods are ready")
    # The launcher comes first.
    worker = found.replicas[1]
    assert (worker.reason, worker.finished_at) == (found.reason, None)
    monitor = Monitor(None)
    assert monitor.observe(found, NOW) is None
    verdict = monitor.observe(found, NOW + timedelta(minutes=1))
    assert (verdict.reason, verdict.replica, verdict.message) == (found.reason, "worker-0", worker.message)


class Pods:
    """The launcher's script on this machine; each host is a folder, and a file ``up`` in it makes it answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.result = folder / "result"
        (folder / "hostfile").write_text("one slots=2\ntwo slots=2\n")
        for host in ("one", "two"):
            (folder / host).mkdir()
            (folder / host / "up").touch()
        agent = folder / "agent"
        agent.write_text(
            f'#!/bin/sh\ncd {folder}/"$1" || exit 1\n[ -e up ] || {{ touch refused; echo refused >&2; exit 255; }}\n'
            'shift; [ "$1" = cat ] && exec cat result; exec "$@"\n'
        )
        agent.chmod(0o755)

    def start(self, *command: str, timeout: int = 60) -> subprocess.Popen[str]:
        script = container_of(main_of(MPIJOB_V1), "Launcher")["command"][:4]
        environment = {
            "PATH": os.environ["PATH"],
            "TRAINER_FILES": str(self.folder),
            "TRAINER_RESULT_PATH": str(self.result),
            "OMPI_MCA_plm_rsh_agent": str(self.folder / "agent"),
        }
        argv = [*script, str(timeout), *command]
        return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *command: str, **fields: Any) -> tuple[int, str]:
        process = self.start(*command, **fields)
        output, _ = process.communicate(timeout=90)
        return process.returncode, output


@pytest.fixture
def pods(tmp_path):
    return Pods(tmp_path)


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, f"{file.name} has not come"
        time.sleep(0.01)


def test_the_first_workers_result_becomes_the_launchers(pods):
    (pods.folder / "one" / "result").write_text('{"metrics": {}}')

    assert pods.run("sh", "-c", 'echo "$@"', "sh", "a b", "$c") == (0, "a b $c\n")
    assert pods.result.read_text() == '{"metrics": {}}'


def test_a_result_of_the_launchers_own_stays(pods):
    (pods.folder / "one" / "result").write_text("the worker's")

    assert pods.run("sh", "-c", f"echo mine > {pods.result}")[0] == 0
    assert pods.result.read_text() == "mine\n"


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_the_commands_exit_code_is_the_launchers(pods, command, code):
    (pods.folder / "one" / "result").write_text("of a failure")

    assert pods.run("sh", "-c", command)[0] == code
    assert not pods.result.exists()


def test_the_command_waits_for_every_worker(pods):
    up = pods.folder / "two" / "up"
    up.unlink()
    process = pods.start("cat", str(up))
    wait_for(up.with_name("refused"))
    whole = up.with_name("whole")
    whole.write_text("seen")
    whole.rename(up)

    assert process.communicate(timeout=90)[0] == "seen"


def test_a_worker_that_never_answers_is_named(pods):
    (pods.folder / "two" / "up").unlink()

    assert pods.run("echo", "started", timeout=1) == (1, "two does not answer: refused\n")


def test_sigterm_reaches_the_command(pods):
    trap = f'trap "echo ended; exit 7" TERM; touch {pods.folder}/ready; while :; do sleep 0.05; done'
    process = pods.start("sh", "-c", trap)
    wait_for(pods.folder / "ready")

    process.send_signal(signal.SIGTERM)

    assert process.communicate(timeout=90)[0] == "ended\n"
    assert process.returncode == 7
