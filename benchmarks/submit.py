"""Submitting 1,000 mapped tasks, beside the bare requests: the same objects, created through the same client.

A submit looks for what an earlier try has left, renders, creates, and looks for other tries again. No
controller takes the jobs up. The two take turns, so that a machine whose speed drifts disturbs both alike.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.order import order_of
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import Facts, Manifest, Resource
from airflow_trainer_provider.kinds.kubeflow.training_operator import BACKEND, PYTORCHJOB
from airflow_trainer_provider.kinds.objects import labels
from benchmarks.api import Api, at_once
from benchmarks.cluster import CONN_ID, Bench, bench_namespace, running_cluster
from benchmarks.populations import ELSEWHERE, train_job
from benchmarks.report import heading, raw, table, verdict

ROUNDS = 3
TASKS = 1000
CONCURRENCY = 16
LEAST_RATIO = 0.6


class LeftAlone(Client):
    """A client whose jobs the Training Operator does not take up: no pods come of them."""

    async def create(
        self, resource: Resource, namespace: str, manifest: Manifest, *, dry_run: bool = False
    ) -> Manifest:
        """Create an object."""
        manifest["spec"]["runPolicy"]["managedBy"] = ELSEWHERE
        return await super().create(resource, namespace, manifest, dry_run=dry_run)


def identities(run: str, count: int) -> list[Identity]:
    """The mapped tasks of a run."""
    return [Identity(dag_id="bench", run_id=run, task_id="train", map_index=index) for index in range(count)]


def manifests(namespace: str, run: str, count: int) -> list[Manifest]:
    """What would be submitted for them."""
    rendered = []
    for identity in identities(run, count):
        order = order_of(PYTORCHJOB, namespace, train_job(), identity)
        main = order.render(order.name, Facts()).main
        main["metadata"]["annotations"][labels.COMPLETE] = "true"
        rendered.append(main)
    return rendered


async def rate(work: Callable[[Any], Coroutine[Any, Any, Any]], over: list[Any]) -> float:
    """How many of them are done in a second.

    :param work: what to do with each.
    """
    begun = time.perf_counter()
    await at_once(work, over, CONCURRENCY)
    return len(over) / (time.perf_counter() - begun)


async def measure(bench: Bench, count: int, rounds: int) -> list[tuple[float, float]]:
    """Pairs of rates, per second: of bare requests, and of submits.

    :param count: how many tasks.
    """
    connection = ClusterConnection(CONN_ID, kube_config=bench.kubeconfig)
    cluster = Cluster(connection)
    cluster.client = LeftAlone(connection)
    backend = ClusterBackend(BACKEND, cluster, bench.namespace)
    path = PYTORCHJOB.resource.path(bench.namespace)

    async def create(manifest: Manifest) -> None:
        await cluster.client.create(PYTORCHJOB.resource, bench.namespace, manifest)

    async def submit(identity: Identity) -> None:
        mine = train_job()
        backend.check(mine)
        await backend.submit(mine, identity)

    pairs = []
    async with Api(bench.admin_kubeconfig) as api:
        # Connections, and what is asked once.
        await submit(Identity(dag_id="bench", run_id="first", task_id="train"))
        for number in range(rounds):
            rates = []
            for work, over in (
                (create, manifests(bench.namespace, f"bare-{number}", count)),
                (submit, identities(f"ours-{number}", count)),
            ):
                rates.append(await rate(work, over))
                await api.call("DELETE", path)
                await asyncio.sleep(min(3, count / 100))
            pairs.append((rates[0], rates[1]))
    await cluster.close()
    return pairs


def main(*, quick: bool = False) -> bool:
    """Print the table.

    :param quick: only show that it works.
    :return: whether the bound was held.
    """
    count, rounds = (20, 1) if quick else (TASKS, ROUNDS)
    heading(f"Submitting {count:,} mapped tasks, {CONCURRENCY} at a time ({rounds} pairs)")
    with running_cluster(), bench_namespace() as bench:
        pairs = asyncio.run(measure(bench, count, rounds))
    raw(pairs)
    bare, ours = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(two / one for one, two in pairs)
    rows = [("bare requests", f"{bare:.0f}", "1"), ("rendered and submitted", f"{ours:.0f}", f"{ratio:.2f}")]
    table(("how", "jobs / s", "ratio"), rows)
    return verdict(f"at least {LEAST_RATIO:g} of the bare requests' rate: {ratio:.2f}", ratio >= LEAST_RATIO)
