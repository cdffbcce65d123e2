"""Each fault does what it says on the real cluster, and is mended afterwards."""

from __future__ import annotations

import subprocess

import pytest

from tests.cluster.cluster import ask_api
from tests.cluster.jobs import wait_until
from tests.cluster.network import NODE_NAME
from tests.cluster.node import wait_for
from tests.cluster.profiles import TRAINER
from tests.cluster.shell import CommandFailed

_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sleeper"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "trainer.test/tiny:test", "command": ["sleep", "600"]}],
    },
}


@pytest.fixture
def sleeper(cluster, namespace):
    """A pod that runs."""
    cluster.kubectl.apply([_POD], f"--namespace={namespace}")
    return wait_until(cluster.kubectl, "pod", "sleeper", namespace, _phase("Running"), seconds=180)


def _phase(wanted):
    return lambda pod: pod["status"].get("phase") == wanted


def test_api_server_stops_and_comes_back(cluster, faults, namespace, sleeper):
    with faults.api_server_stopped(), pytest.raises(OSError, match=r"(?i)reset|refused|EOF"):
        ask_api()
    found = cluster.kubectl.get("pod", "sleeper", namespace)
    assert found["metadata"]["uid"] == sleeper["metadata"]["uid"]


def test_restart_of_api_server_breaks_watches(cluster, faults, namespace):
    # Each namespace has a ConfigMap with the certificate of the API server.
    path = f"/api/v1/namespaces/{namespace}/configmaps?watch=true&resourceVersion=0"
    argv = [cluster.kubectl.program, f"--kubeconfig={cluster.kubectl.kubeconfig}", "get", "--raw", path]
    watch = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert watch.stdout.readline()
        assert watch.poll() is None
        faults.restart_api_server()
        watch.wait(90)
    finally:
        watch.kill()
        watch.communicate()


def test_frozen_etcd_makes_requests_hang(cluster, faults):
    with faults.etcd_frozen(), pytest.raises(CommandFailed):
        cluster.kubectl("create", "namespace", "never", "--request-timeout=3s", timeout=10)
    assert cluster.kubectl.ok("get", "--raw=/readyz")
    cluster.kubectl("delete", "namespace", "never", "--ignore-not-found", "--wait=false")


def test_killed_controller_is_replaced(cluster, faults):
    before = _controller_pods(cluster)
    faults.kill_controller(TRAINER)
    faults.wait_for_controller(TRAINER)
    after = _controller_pods(cluster)
    assert after
    assert not before & after


def test_webhooks_of_stopped_controller_refuse(cluster, faults, namespace):
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "refused"},
        "spec": {"runtimeRef": {"name": "trainer-test-torch"}},
    }
    where = f"--namespace={namespace}"
    with faults.controller_stopped(TRAINER), pytest.raises(CommandFailed, match="failed calling webhook"):
        cluster.kubectl.apply([job], where)
    cluster.kubectl.apply_until_accepted([job], "--dry-run=server", where, seconds=180)


@pytest.mark.parametrize("how", ["evict", "delete_pod"])
def test_pod_is_gone(how, cluster, namespace, sleeper):
    getattr(cluster.kubectl, how)("sleeper", namespace)
    wait_for(lambda: cluster.kubectl.get("pod", "sleeper", namespace) is None, "the pod's end", seconds=90)


def test_unschedulable_node_leaves_pods_pending(cluster, faults, namespace):
    def refused(pod):
        conditions = pod["status"].get("conditions", [])
        return any(one.get("reason") == "Unschedulable" for one in conditions)

    with faults.node_unschedulable():
        cluster.kubectl.apply([_POD], f"--namespace={namespace}")
        wait_until(cluster.kubectl, "pod", "sleeper", namespace, refused, seconds=90)
    wait_until(cluster.kubectl, "pod", "sleeper", namespace, _phase("Running"), seconds=180)
    assert not cluster.kubectl.get("node", NODE_NAME)["spec"].get("unschedulable")


def _controller_pods(cluster):
    pods = cluster.kubectl.list("pods", TRAINER.namespace)
    return {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
