"""One clean-up covers the jobs of several kinds, and what a killed submit has left, with the rights of an admin."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.clean_up import _SUBMIT
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.create import Creator
from airflow_trainer_provider.cluster.operations.order import order_of
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.hooks.jobs import clean_up
from airflow_trainer_provider.job.backend import CleanUp
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.registry import kind_for
from airflow_trainer_provider.spec import parse_spec
from tests.cluster.access import Access

_BACKENDS = ("trainer", "training-operator", "native")


def _job(command):
    fields = {"framework": "jax", "image": "trainer.test/worker:test", "on_finish_action": "keep"}
    return plan_job(parse_spec({**fields, "command": ["python3", "-c", command]}))


def _task(name):
    return Identity(dag_id="clean", run_id="run", task_id=name, deployment="here")


async def test_jobs_of_several_kinds_and_a_killed_submits_runtime_go_together(
    cluster: Access, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = ClusterConnection(id="clean", kube_config_path=str(cluster.kubectl.kubeconfig))
    connected = await Cluster.of(connection)
    backends = [ClusterBackend(name, connected, namespace) for name in _BACKENDS]

    async def ended(backend):
        handle = (await backend.submit(_job("pass"), _task(f"{backend.name}-ended"))).handle
        deadline = datetime.now(timezone.utc) + timedelta(minutes=6)
        await follow(backend, handle, emit=print, reader=None, deadline=deadline)
        await backend.acknowledge(handle)
        return handle.name

    async def runs(backend):
        return (await backend.submit(_job("import time; time.sleep(3600)"), _task(f"{backend.name}-runs"))).handle.name

    names = set(await asyncio.gather(*map(ended, backends)))
    running = set(await asyncio.gather(*map(runs, backends)))

    # The submit is killed once the runtime is there: the TrainJob is never created.
    job, identity = _job("pass"), _task("killed")
    order = order_of(kind_for("trainer", job), namespace, job, identity)
    creator = Creator(connected, namespace, order)
    rendered = await creator._render(order.name)
    await creator._create(creator._marked(rendered.before[0], "killed"), lambda found: False)

    async def found(**fields):
        before = datetime.now(timezone.utc) + timedelta(minutes=1)
        rows = await clean_up(backends, CleanUp("here", before, **fields))
        return {(each.kind, each.name) for each in rows}

    kinds = {"trainjob", "jaxjob", "native"}
    assert {kind for kind, _ in await found(list_only=True)} == kinds
    monkeypatch.setattr("airflow_trainer_provider.cluster.clean_up._SUBMIT", -_SUBMIT)
    listed = await found(list_only=True)
    assert ("TrainingRuntime", order.name) in listed
    assert {name for kind, name in listed if kind in kinds} == names

    assert await found() == listed

    assert await found() == set()
    left = {each.name for backend in backends for each in await backend.overviews()}
    assert running <= left
    assert order.name not in str(cluster.kubectl.list("trainingruntimes", namespace))
    await connected.close()
