"""Watches see changes soon after an outage of the API server, and no call fails by it."""

from __future__ import annotations

import asyncio
import time

import aiohttp

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.kinds.base import CONFIG_MAPS
from airflow_trainer_provider.timeouts import with_timeout
from benchmarks.api import Api
from tests.cluster.account import who_may

#: How long it is down, in seconds; it takes some more to start.
OUTAGES = (0, 1, 3, 6, 12)
#: From its first answer to the change that is reported, in seconds: a fraction of one, and more on a busy machine.
#: Without the notice of the recovery, it would be a pause of up to eight.
BOUND = 6


async def ready(api):
    """Wait until it answers."""
    for _ in range(5000):
        try:
            if (await api.text("/readyz")) == "ok":
                return
        except (aiohttp.ClientError, OSError):
            pass
        await asyncio.sleep(0.02)


async def keep_calling(client, namespace, until):
    """One call after the other, as long as a task is not done."""
    while not until.done():
        await client.list(CONFIG_MAPS, namespace, keep=lambda found: found)
        await asyncio.sleep(0.01)


async def test_a_watch_sees_changes_soon_after_each_outage_and_no_call_fails(cluster, namespace, faults, record_time):
    # An API server that starts forbids everything to accounts whose rights come from roles.
    kubeconfig = who_may(cluster, namespace, "get", "list", "watch", "patch")
    cluster.kubectl("create", "configmap", "news", f"--namespace={namespace}")
    path = CONFIG_MAPS.path(namespace, "news")
    followed = await Cluster.of(ClusterConnection("recovery", kube_config=kubeconfig))
    took = {}
    with followed.watches.of(CONFIG_MAPS, namespace).subscribe("news") as news:
        await news.changed()
        for seconds in OUTAGES:
            stopped = faults.api_server_stopped()
            await asyncio.to_thread(stopped.__enter__)
            await asyncio.sleep(seconds)
            starting = asyncio.create_task(asyncio.to_thread(stopped.__exit__, None, None, None))
            calling = asyncio.create_task(keep_calling(followed.client, namespace, starting))
            async with Api(cluster.kubectl.kubeconfig.read_text()) as api:
                await ready(api)
                begun = time.monotonic()
                await api.patch(path, {"data": {"after": str(seconds)}})
            while [each.get("data") for each in news.objects.values()] != [{"after": str(seconds)}]:
                await with_timeout(news.changed(), 180)
            took[seconds] = time.monotonic() - begun
            record_time("recovery", took[seconds])
            await starting
            await calling
    await Cluster.close_all()
    assert max(took.values()) <= BOUND, took
