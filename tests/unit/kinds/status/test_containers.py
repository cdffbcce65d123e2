"""Which container is the training's, by its name."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.kinds.native.batch_job import BATCH_JOB
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.status.containers import failed_container_of, training_container_of
from airflow_trainer_provider.kinds.trimmed import trimmed

_DEFAULT = "kubectl.kubernetes.io/default-container"


def _pod(*names, init=(), annotations=None, statuses=(), phase="Running"):
    return {
        "metadata": {"name": "p", "labels": {"training.kubeflow.org/job-role": "launcher"}, "annotations": annotations},
        "spec": {"containers": [{"name": name} for name in names]},
        "status": {"phase": phase, "containerStatuses": list(statuses), "initContainerStatuses": list(init)},
    }


def _ended(name, code, last=False):
    terminated = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}
    states = {"state": {"waiting": {}}, "lastState": terminated} if last else {"state": terminated}
    return {"name": name, **states}


def _template(*names, annotations=None):
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": name} for name in names]}}


def _batch_job(template):
    return trimmed({"metadata": {"name": "j"}, "spec": {"template": template}})


@pytest.mark.parametrize(
    ("template", "names", "annotations", "expected"),
    [
        (_template("train"), ("train",), None, "train"),
        (_template("train"), ("istio-proxy", "train"), None, "train"),
        (_template("train"), ("istio-proxy", "train"), {_DEFAULT: "istio-proxy"}, "train"),
        (_template("logs", "train", annotations={_DEFAULT: "train"}), ("logs", "train"), None, "train"),
        # Renamed on the way: no more is known.
        (_template("train"), ("proxy", "other"), {_DEFAULT: "other"}, "other"),
        (_template("train"), ("proxy", "other"), {_DEFAULT: "none"}, "proxy"),
        (_template(), ("proxy", "other"), None, "proxy"),
    ],
)
def test_of_a_job_of_the_users_own(template, names, annotations, expected):
    assert training_container_of(BATCH_JOB, _batch_job(template), _pod(*names, annotations=annotations)) == expected


def test_of_an_mpijob_of_the_users_own():
    replicas = {"Launcher": {"template": _template("main")}, "Worker": {"template": _template("node")}}
    main = trimmed({"metadata": {"name": "j"}, "spec": {"mpiReplicaSpecs": replicas}})

    kind = KINDS["mpijob-v2beta1"]
    assert training_container_of(kind, main, _pod("proxy", "main")) == "main"


@pytest.mark.parametrize(
    ("statuses", "init", "phase", "expected"),
    [
        ([_ended("train", 1), _ended("proxy", 2)], [], "Failed", "train"),
        ([_ended("train", 0), _ended("proxy", 2)], [], "Failed", "proxy"),
        ([_ended("train", 0), _ended("proxy", 0)], [], "Succeeded", "train"),
        ([{"name": "train", "state": {"running": {}}}, _ended("proxy", 2)], [], "Running", "train"),
        ([{"name": "train", "state": {"waiting": {}}}], [_ended("a", 0), _ended("b", 1)], "Failed", "b"),
        ([{"name": "train", "state": {"waiting": {}}}], [_ended("a", 1, last=True)], "Pending", "a"),
        ([], [], "Failed", "train"),
    ],
)
def test_whose_log_says_why_a_pod_has_failed(statuses, init, phase, expected):
    pod = _pod("proxy", "train", statuses=statuses, init=init, phase=phase)

    assert failed_container_of(pod, "train") == expected
