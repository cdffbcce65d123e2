"""Manifests of a user's own, and jobs of other people, on the real cluster without Airflow."""

from __future__ import annotations

import uuid

import pytest
import yaml

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.hooks.jobs import search
from airflow_trainer_provider.job.backend import Wanted
from airflow_trainer_provider.job.follow import end_of
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.manifest import plan_manifest
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.spec import parse_manifest_spec
from tests.cluster.account import make_account, token_of, with_token
from tests.cluster.by_hand import batch_job


@pytest.fixture
async def native(cluster, namespace):
    """Plain Kubernetes, without Airflow."""
    connection = ClusterConnection(id=f"test-{uuid.uuid4().hex[:6]}", kube_config_path=str(cluster.kubectl.kubeconfig))
    connected = await Cluster.of(connection)
    yield ClusterBackend("native", connected, namespace)
    await connected.close()


def _brought(ticks, **fields):
    return plan_manifest(parse_manifest_spec({"manifest": batch_job("by-hand", ticks=ticks), **fields}))


def _try(number):
    return Identity(dag_id="d", run_id="r", task_id="t", try_number=number)


async def _end(backend, handle):
    return [status async for status in backend.watch(handle)][-1]


@pytest.mark.no_second_chance
async def test_the_next_try_adopts_a_manifests_job_that_runs(cluster, namespace, native):
    first = await native.submit(_brought(20), _try(1))
    second = await native.submit(_brought(20), _try(2))

    assert first.adopted is None
    assert "still runs" in second.adopted
    assert second.handle.uid == first.handle.uid
    assert len(cluster.kubectl.list("jobs", namespace)) == 1
    assert not await native.cancel(first.handle, "a try that is over")
    assert (await _end(native, second.handle)).phase is JobPhase.SUCCEEDED
    await native.acknowledge(second.handle)
    assert cluster.kubectl.get("job", second.handle.name, namespace) is None


async def test_another_manifest_ends_the_job_of_the_earlier_try(cluster, namespace, native):
    first = await native.submit(_brought(600), _try(1))
    second = await native.submit(_brought(2), _try(2))

    assert second.adopted is None
    assert cluster.kubectl.get("job", first.handle.name, namespace) is None
    assert (await _end(native, second.handle)).phase is JobPhase.SUCCEEDED


async def test_a_manifests_job_is_suspended_and_goes_on_with_the_next_try(cluster, namespace, native):
    job = _brought(12, on_kill_action="suspend")
    first = await native.submit(job, _try(1))
    assert await native.cancel(first.handle, "marked")
    assert (await _end(native, first.handle)).phase is JobPhase.CANCELLED

    second = await native.submit(job, _try(2))

    assert second.adopted == "it was suspended, and resumes"
    assert (await _end(native, second.handle)).phase is JobPhase.SUCCEEDED


async def test_an_unknown_field_is_refused_by_the_api_server(namespace, native):
    manifest = batch_job("by-hand")
    manifest["spec"]["aFieldOfTomorrow"] = 1

    with pytest.raises(SubmitError, match="aFieldOfTomorrow"):
        await native.submit(plan_manifest(parse_manifest_spec({"manifest": manifest})), _try(1))


#: What docs/how-to/sensors.md says that a sensor for jobs of others needs.
READER = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events", "services"], "verbs": ["list"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["kubeflow.org"],
        "resources": ["pytorchjobs", "tfjobs", "xgboostjobs", "mpijobs", "paddlejobs", "jaxjobs"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainingruntimes"], "verbs": ["get"]},
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["list", "watch"]},
]


@pytest.fixture
def reader_config(cluster, namespace, tmp_path):
    """The kubeconfig of an account that may only read."""
    make_account(cluster, namespace, "reader", READER)
    config = with_token(cluster, token_of(cluster, namespace, "reader"))
    file = tmp_path / "reader"
    file.write_text(yaml.safe_dump(config))
    return str(file)


@pytest.fixture
async def reader(reader_config):
    """The cluster, as that account sees it."""
    connected = await Cluster.of(ClusterConnection(id=f"test-{uuid.uuid4().hex[:6]}", kube_config_path=reader_config))
    yield connected
    await connected.close()


TRAINJOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "by-hand"},
    "spec": {
        "runtimeRef": {"name": "trainer-test-torch"},
        "trainer": {"numNodes": 2, "command": ["sh", "-c", "echo line 0; echo line 1"]},
    },
}


@pytest.mark.parametrize("manifest", [batch_job("by-hand"), TRAINJOB], ids=["job", "trainjob"])
async def test_who_may_only_read_can_follow_a_job_to_its_end(cluster, namespace, reader, manifest):
    cluster.kubectl.apply([manifest], f"--namespace={namespace}")

    backends = [ClusterBackend(name, reader, namespace) for name in BACKENDS]
    (handle,) = await search(backends, Wanted(name="by-hand"))
    backend = ClusterBackend(handle.backend, reader, namespace)
    async with end_of(backend, handle) as ended:
        lines = [line.text async for line in backend.logs(handle, "reader", ended)]

    assert (await backend.status(handle)).phase is JobPhase.SUCCEEDED
    assert {"line 0", "line 1"} <= set(lines)
