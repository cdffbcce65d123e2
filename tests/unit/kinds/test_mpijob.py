"""MPIJob in its two versions; the launcher's script is run for real, with a stand-in for ssh."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.kinds.base import Facts, Manifest
from airflow_trainer_provider.kinds.mpijob import MPIJOB_V1, MPIJOB_V2BETA1
from tests.golden_files import assert_golden
from tests.unit.kinds.specs import job_of, meta

BOTH = pytest.mark.parametrize("kind", [MPIJOB_V1, MPIJOB_V2BETA1], ids=lambda kind: kind.key)


def main_of(kind, **fields: Any) -> Manifest:
    job = job_of("mpi", **fields)
    kind.check(job)
    return kind.render(job, meta(job, "train"), Facts()).main


def container_of(main: Manifest, group: str) -> Manifest:
    return main["spec"]["mpiReplicaSpecs"][group]["template"]["spec"]["containers"][0]


def test_golden_v2beta1():
    job = job_of("mpi")
    MPIJOB_V2BETA1.check(job)

    rendered = MPIJOB_V2BETA1.render(job, meta(job), Facts())

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
    assert specs["mpiReplicaSpecs"]["Worker"]["restartPolicy"] == "OnFailure"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"replicas": {"worker": {"overrides": [{"index": 1, "image": "other"}]}}}, "replicas.worker.overrides[0]"),
        ({"runtime_ref": "mpi"}, "runtime_ref"),
        ({"env": {"OMPI_MCA_plm_rsh_args": "-p 2222"}}, "env"),
    ],
)
def test_what_v2beta1_cannot_do_is_refused(fields, field):
    with pytest.raises(UnsupportedField, match="'mpi-operator'") as raised:
        MPIJOB_V2BETA1.check(job_of("mpi", **fields))

    assert raised.value.problems[0].field == field


def test_v2beta1_takes_a_queue():
    assert main_of(MPIJOB_V2BETA1, queue_name="gpus")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"


@pytest.mark.parametrize(
    ("labels", "trains", "place"),
    [
        ({"job-role": "launcher"}, False, ("launcher", 0)),
        ({"job-role": "worker", "replica-index": "2"}, False, ("worker", 2)),
        # A launcher that trains too takes index 0.
        ({"job-role": "launcher", "replica-index": "0"}, True, ("launcher", 0)),
        ({"job-role": "worker", "replica-index": "2"}, True, ("worker", 1)),
        ({"job-role": "worker"}, False, None),
        ({}, False, None),
    ],
)
def test_places_of_v2beta1(labels, trains, place):
    pod = {"metadata": {"labels": {f"training.kubeflow.org/{name}": value for name, value in labels.items()}}}

    assert MPIJOB_V2BETA1.place(pod, {"spec": {"runLauncherAsWorker": trains}}) == place


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
            f'#!/bin/sh\ncd {folder}/"$1" || exit 1\n[ -e up ] || {{ echo refused >&2; exit 255; }}\n'
            'shift; [ "$1" = cat ] && exec cat result; exec "$@"\n'
        )
        agent.chmod(0o755)

    def start(self, *command: str, patience: int = 20) -> subprocess.Popen[str]:
        script = container_of(main_of(MPIJOB_V1), "Launcher")["command"][:4]
        environment = {
            "PATH": os.environ["PATH"],
            "TRAINER_FILES": str(self.folder),
            "TRAINER_RESULT_PATH": str(self.result),
            "OMPI_MCA_plm_rsh_agent": str(self.folder / "agent"),
        }
        argv = [*script, str(patience), *command]
        return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *command: str, **fields: Any) -> tuple[int, str]:
        process = self.start(*command, **fields)
        output, _ = process.communicate(timeout=30)
        return process.returncode, output


@pytest.fixture
def pods(tmp_path):
    return Pods(tmp_path)


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
    (pods.folder / "two" / "up").unlink()
    process = pods.start("cat", str(pods.folder / "two" / "up"))
    (pods.folder / "two" / "up").write_text("seen")

    assert process.communicate(timeout=30)[0] == "seen"


def test_a_worker_that_never_answers_is_named(pods):
    (pods.folder / "two" / "up").unlink()

    assert pods.run("echo", "started", patience=1) == (1, "two does not answer: refused\n")


def test_sigterm_reaches_the_command(pods):
    trap = f'trap "echo ended; exit 7" TERM; touch {pods.folder}/ready; while :; do sleep 0.05; done'
    process = pods.start("sh", "-c", trap)
    deadline = time.monotonic() + 20
    while not (pods.folder / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)

    process.send_signal(signal.SIGTERM)

    assert process.communicate(timeout=30)[0] == "ended\n"
    assert process.returncode == 7
