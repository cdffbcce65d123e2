"""Through Airflow: a job of two roles with placement, volumes, secrets, a user, devices, shared memory and a tool."""

from __future__ import annotations

import json

import pytest

from tests.cluster import pins, tensorboard
from tests.cluster.airflow.jobs import handle_of, wait_until_gone
from tests.cluster.contract.jobs import HIGH, offer
from tests.cluster.data import served
from tests.cluster.network import NODE_NAME
from tests.cluster.shell import CommandFailed
from tools.airflow_runner.api import wait_until

_DEVICE = "trainer.test/whole-request"
_GROUP = "airflow-trainer-provider/group"
_ENV = {
    "TOKEN": {"secret": {"name": "hub", "key": "token"}},
    "URL": "https://user:$(TOKEN)@hub",
    "RATE": {"config_map": {"name": "settings", "key": "a.yaml"}},
    "PYTHONPATH": tensorboard.MOUNT_PATH,
}
_REPLICAS = {
    "master": {
        "replicas": 1,
        "env": {"STAGE": "first"},
        "scheduling": {
            "node_selector": {"kubernetes.io/hostname": NODE_NAME},
            "priority_class": HIGH["metadata"]["name"],
        },
    },
    "worker": {
        "replicas": 1,
        "scheduling": {"tolerations": [{"key": "trainer.test/taint", "value": "x", "effect": "NoExecute"}]},
        "pod": {"security": {"run_as_user": 5001}},
    },
}


@pytest.fixture
def data(on_cluster, cluster, folder):
    if cluster.own is None:
        pytest.skip("changes the node: only on the project's own")
    with served(cluster, on_cluster.namespace, folder.path) as data:
        yield data


def test_a_whole_request_reaches_the_pods_and_its_tool_answers(on_cluster, cluster, folder, data):
    airflow, kubectl = on_cluster.airflow, cluster.kubectl
    offer(cluster, _DEVICE, 8)
    kubectl.apply([HIGH])
    fields = {
        "resources_per_node": {"memory": "1Gi", "shared_memory": "320Mi", "extended": {_DEVICE: 1}},
        "scheduling": {"node_affinity": [{"key": "kubernetes.io/os", "values": ["linux"]}]},
        "volumes": [
            data.claim(),
            {
                "mount_path": "/in/settings",
                "config_map": {"name": "settings", "items": [{"key": "a.yaml", "path": "a"}]},
            },
            {"mount_path": "/in/hub", "secret": {"name": "hub"}, "read_only": True},
            data.git(),
            data.s3(),
            {"mount_path": "/scripts", "config_map": {"name": "scripts"}},
            {"mount_path": "/shared", "host_path": str(folder)},
            {"mount_path": tensorboard.MOUNT_PATH, "host_path": str(tensorboard.folder(pins.load()))},
        ],
        "pod": {"security": {"run_as_user": 5000, "supplemental_groups": [7000]}, "labels": {"team": "vision"}},
        "env": _ENV,
        "replicas": _REPLICAS,
        "tools": {"tensorboard": {"port": 6006, "access": "node_port"}},
    }
    run = on_cluster.run("whole_request", "training-operator", **fields)
    handle = handle_of(on_cluster, "whole_request", run)
    wait_until(
        lambda: {each.name for each in folder.path.glob("*.json")} == {"master-0.json", "worker-0.json"} or None,
        360,
        lambda: airflow.task_log("whole_request", run, "train"),
    )
    pods = {
        each["metadata"]["labels"][_GROUP]: each
        for each in kubectl.list("pods", on_cluster.namespace)
        if _is_of(each, handle)
    }
    curves = wait_until(lambda: _curves(cluster, on_cluster.namespace, pods, handle), 180, lambda: handle.tools)
    folder.go()

    assert airflow.wait_for_run("whole_request", run) == "success", airflow.task_log("whole_request", run, "train")
    assert curves == ["loss"]
    reports = airflow.xcom("whole_request", run, "train")["result"]
    files = {
        "/in/hub/token": "s3cret",
        "/in/sets/deep/a": "1",
        "/in/settings/a": "rate",
        "/in/src/train.py": "print()",
    }
    for replica, uid, stage in (("master-0", 5000, "first"), ("worker-0", 5001, None)):
        seen = reports[replica]
        assert seen["files"] == files
        assert seen["uid"] == uid
        assert 7000 in seen["groups"]
        assert seen["env"] == {"TOKEN": "s3cret", "URL": "https://user:s3cret@hub", "RATE": "rate", "STAGE": stage}
    assert reports["read"] == {"numbers": 2 * 25 * 2**20}
    master, worker = (pods[group]["spec"] for group in ("master", "worker"))
    assert master["nodeSelector"] == {"kubernetes.io/hostname": NODE_NAME}
    assert master["priority"] == HIGH["value"]
    assert "nodeSelector" not in worker
    assert "trainer.test/taint" in [each["key"] for each in worker["tolerations"]]
    for spec in (master, worker):
        assert spec["containers"][0]["resources"]["limits"][_DEVICE] == "1"
    assert all(each["metadata"]["labels"]["team"] == "vision" for each in pods.values())
    wait_until_gone(on_cluster)
    left = [each["metadata"]["name"] for each in kubectl.list("services", on_cluster.namespace)]
    assert [name for name in left if name.startswith(handle.name)] == []


def _is_of(pod, handle):
    return pod["metadata"]["name"].startswith(handle.name)


def _curves(cluster, namespace, pods, handle):
    """The curves that TensorBoard has, as a pod sees it: the node's ports are open in the node's network only."""
    url = handle.tools["tensorboard"].replace("<node>", pods["worker"]["status"]["hostIP"])
    url += "data/plugin/scalars/tags"
    program = f"import urllib.request as r; print(r.urlopen({json.dumps(url)}, timeout=5).read().decode())"
    try:
        name = pods["worker"]["metadata"]["name"]
        answer = cluster.kubectl("exec", name, f"--namespace={namespace}", "--", "python3", "-c", program)
    except CommandFailed:
        return None
    # It reads the events some time after it answers.
    return [tag for tags in json.loads(answer).values() for tag in tags] or None
