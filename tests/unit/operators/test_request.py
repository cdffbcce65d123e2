"""XCom ``request``: what the task has asked for, without what is secret in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.plan.layout import lay_out
from airflow_trainer_provider.kinds.manifest import plan_manifest
from airflow_trainer_provider.kinds.objects.labels import GROUPS
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.operators.request import request_of
from airflow_trainer_provider.spec import parse_manifest_spec, parse_spec

HANDLE = JobHandle(
    name="j",
    uid="u",
    backend="native",
    framework="pytorch",
    leader="worker-0",
    owner=1,
    location="job/training/kube",
    tools={"tb": "http://tb.example/"},
)
CLUSTER, LOCAL = ClusterBackend("native", None, "training"), LocalBackend(Path("/var/lib/trainer"), 1, None)
SPEC = {
    "framework": "pytorch",
    "image": "registry.example/train:1",
    "num_nodes": 4,
    "num_proc_per_node": 2,
    "env": {"TOKEN": "PLANTED"},
    "command": ["python", "train.py", "--token=PLANTED"],
    "resources_per_node": {"cpu": "500m", "memory": "4Gi", "gpu": 2},
    "scheduling": {"queue_name": "team-nlp"},
    "run_policy": {"startup_timeout_seconds": 600},
}


def _plan(**fields):
    return lay_out(parse_spec({**SPEC, **fields}), get_framework("pytorch"))


def test_size_resources_and_place_are_there_and_no_variable():
    request = request_of(CLUSTER, HANDLE, _plan(), 3, 3600.0)

    assert request == {
        "framework": "pytorch",
        "backend": "native",
        "can_suspend": True,
        "namespace": "training",
        "queue": "team-nlp",
        "image": "registry.example/train:1",
        "name": "j",
        "nodes": 4,
        "processes_per_node": 2,
        "gpus": 8,
        "requested": {"gpu": 2, "cpu": 0.5, "memory_bytes": 4 * 2**30},
        "tools": {"tb": "http://tb.example/"},
        "max_tries": 3,
        "timeout_seconds": 3600.0,
        "startup_timeout_seconds": 600,
    }
    assert "PLANTED" not in json.dumps(request)


@pytest.mark.parametrize(
    ("resources", "gpus", "requested"),
    [
        (None, 0, {"gpu": None, "cpu": None, "memory_bytes": None}),
        ({"gpu": {"amd.com/gpu": 4}}, 16, {"gpu": 4, "cpu": None, "memory_bytes": None}),
        ({"gpu": {"fraction": 0.5}}, 0, {"gpu": 0.5, "cpu": None, "memory_bytes": None}),
        ({"cpu": {"limits": 2}}, 0, {"gpu": 0, "cpu": 2.0, "memory_bytes": None}),
        (
            {"cpu": {"requests": 1, "limits": 2}, "memory": {"requests": "1Gi", "limits": "2Gi"}},
            0,
            {"gpu": 0, "cpu": 1.0, "memory_bytes": 2**30},
        ),
    ],
)
def test_what_a_node_asks_for(resources, gpus, requested):
    request = request_of(CLUSTER, HANDLE, _plan(resources_per_node=resources), 1, None)

    assert (request["gpus"], request["requested"]) == (gpus, requested)


def test_a_job_on_this_machine_has_no_namespace_and_cannot_be_suspended():
    handle = HANDLE.model_copy(update={"backend": "local", "location": "/var/lib/trainer"})

    request = request_of(LOCAL, handle, _plan(), 1, None)

    assert (request["namespace"], request["can_suspend"]) == (None, False)


def test_of_a_manifest_what_is_known_is_there():
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}},
        "spec": {
            "pytorchReplicaSpecs": {
                name: {"replicas": count, "template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}}
                for name, count in (("Master", 1), ("Worker", 3))
            }
        },
    }
    request = request_of(CLUSTER, HANDLE, plan_manifest(parse_manifest_spec({"manifest": manifest})), 1, None)

    assert (request["nodes"], request["queue"], request["gpus"], request["image"]) == (4, "team", None, None)


def test_the_size_of_a_manifest_is_not_that_of_an_earlier_job():
    manifest = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"annotations": {GROUPS: '{"node": 9}'}},
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 3}},
    }

    request = request_of(CLUSTER, HANDLE, plan_manifest(parse_manifest_spec({"manifest": manifest})), 1, None)

    assert (request["nodes"], request["queue"]) == (3, None)
