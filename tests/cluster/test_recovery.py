"""Watches see changes soon after an outage of the API server, and no call fails by it."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import aiohttp

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.kinds.base import CONFIG_MAPS
from airflow_trainer_provider.timeouts import with_timeout
from benchmarks.api import Api
from tests.cluster.account import who_may

#: How long it is down, in seconds; it takes some more to start.
OUTAGES = (0, 0.5, 1, 2, 3, 5, 8, 12, 18, 25)
#: Seconds by which the change may come after a bare watch has it that asks all the time: a recovery is noticed by a
#: probe each second. Without that, it would be a pause of up to eight.
BOUND = 1.5


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


async def follow_bare(kubeconfig, path, seen):
    """Put all states of an object, and when they came, as a bare watch of the same account has them."""
    async with Api(kubeconfig) as api, aclosing(api.watch(path)) as events:
        async for event in events:
            seen.put_nowait((event["object"].get("data"), time.monotonic()))


async def first_seen(seen, state):
    """When the bare watch had this state."""
    while True:
        found, at = await with_timeout(seen.get(), 180)
        assert not isinstance(at, Exception), at
        if found == state:
            return at


async def test_a_watch_sees_changes_soon_after_each_outage_and_no_call_fails(cluster, namespace, faults, record_time):
    # An API server that starts forbids everything to accounts whose rights come from roles.
    kubeconfig = who_may(cluster, namespace, "get", "list", "watch", "patch")
    cluster.kubectl("create", "configmap", "news", f"--namespace={namespace}")
    path = CONFIG_MAPS.path(namespace, "news")
    followed = await Cluster.of(ClusterConnection("recovery", kube_config=kubeconfig))
    took, seen = {}, asyncio.Queue()
    bare = asyncio.create_task(follow_bare(kubeconfig, CONFIG_MAPS.path(namespace), seen))
    bare.add_done_callback(lambda task: seen.put_nowait((None, task.exception())) if not task.cancelled() else None)
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
                state = {"after": str(seconds)}
                await api.patch(path, {"data": state})
            while [each.get("data") for each in news.objects.values()] != [state]:
                await with_timeout(news.changed(), 180)
            noticed = time.monotonic()
            await starting
            await calling
            took[seconds] = max(0.0, noticed - await first_seen(seen, state))
            record_time("recovery", took[seconds])
    bare.cancel()
    await Cluster.close_all()
    print(took)
    assert max(took.values()) <= BOUND, took
