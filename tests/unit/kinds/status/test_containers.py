"""Which container is the training's, by its name."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.kinds.native.batch_job import BATCH_JOB
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.status.containers import training_container_of
from airflow_trainer_provider.kinds.trimmed import trimmed

_DEFAULT = "kubectl.kubernetes.io/default-container"


def _pod(*names, annotations=None):
    return {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [{"name": name} for name in names]},
    }


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


@pytest.mark.parametrize(
    ("key", "spec", "names", "expected"),
    [
        ("mpijob-v2beta1", {}, ("proxy", "main"), "main"),
        ("mpijob-v1", {}, ("proxy", "main"), "main"),
        ("mpijob-v1", {"mainContainer": "mpi"}, ("main", "mpi"), "mpi"),
    ],
)
def test_of_an_mpijob_of_the_users_own(key, spec, names, expected):
    replicas = {"Launcher": {"template": _template("main", "mpi")}, "Worker": {"template": _template("node")}}
    main = trimmed({"metadata": {"name": "j"}, "spec": {"mpiReplicaSpecs": replicas, **spec}})
    pod = _pod(*names)
    role = "training.kubeflow.org/" + ("job-role" if key == "mpijob-v2beta1" else "replica-type")
    pod["metadata"]["labels"] = {role: "launcher"}

    assert training_container_of(KINDS[key], main, pod) == expected
