"""An account that may list and may not watch is enough for a job, from its submit to its end."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
import yaml

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.account import WORKER, make_worker, token_of, with_token


@pytest.fixture
async def without_watch(contract, cluster, namespace):
    """The backend, with the rights of a worker but for `watch`; one that has objects of each sort that is watched."""
    if contract.backend.name != "trainer":
        pytest.skip("tested on the backend trainer")
    kubectl, where = cluster.kubectl, f"--namespace={namespace}"
    make_worker(cluster, namespace, without="watch")
    assert not kubectl.ok("auth", "can-i", "watch", "pods", f"--as=system:serviceaccount:{namespace}:{WORKER}", where)
    config = with_token(cluster, token_of(cluster, namespace, WORKER))
    connection = ClusterConnection(id=f"lists-{uuid.uuid4().hex[:6]}", kube_config=yaml.safe_dump(config))
    connected = await Cluster.of(connection)
    contract.case.backend = ClusterBackend(contract.backend.name, connected, namespace)
    yield
    await connected.close()


@pytest.mark.usefixtures("without_watch")
async def test_a_job_is_followed_by_lists_alone(contract):
    # One list in ten seconds.
    contract.case.timeout = 540
    names = ["worker-0", "worker-1"]

    handle, status = await contract.run(contract.case.job('print("line of", me)', nodes=2))

    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    lines = Counter(line for line in contract.lines if line.startswith("["))
    assert lines == Counter(f"[{name}] line of {name}" for name in names)
    await contract.backend.acknowledge(handle)
    await contract.until(lambda: not contract.case.main(handle))
