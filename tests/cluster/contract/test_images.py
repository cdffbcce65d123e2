"""The image that a node pulls is what a job waits for."""

from __future__ import annotations

import pytest

from tests.cluster.contract.jobs import verdict

_LISTEN = 'import socket, time; server = socket.create_server(("", 5000)); time.sleep(3600)'


@pytest.fixture
def silent_registry(cluster, namespace):
    """The address of a registry that accepts connections, and never answers: containerd gives up after 10 s."""
    container = {
        "name": "registry",
        "image": "trainer.test/worker:test",
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", _LISTEN],
        "readinessProbe": {"tcpSocket": {"port": 5000}, "periodSeconds": 1},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "registry"}, "spec": spec}
    cluster.kubectl.apply([pod], f"--namespace={namespace}")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/registry", f"--namespace={namespace}", "--timeout=120s")
    return f"{cluster.kubectl.get('pod', 'registry', namespace)['status']['podIP']}:5000"


async def test_the_image_that_a_node_pulls_is_named(contract, silent_registry):
    image = f"{silent_registry}/train:1"

    diagnosis = await verdict(contract, contract.case.job("pass", nodes=1, image=image), startup_timeout=15)

    assert image in diagnosis.message
    pulls = [line for line in contract.lines if f'0: Pulling image "{image}")' in line]
    assert any("starting (" in line for line in pulls), contract.lines
