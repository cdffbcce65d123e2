"""The shared watch, against the real API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.informer import watch as module
from airflow_trainer_provider.cluster.informer.watch import Watches, by_label
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import CONFIG_MAPS, Resource
from airflow_trainer_provider.timeouts import with_timeout
from tests.cluster.account import who_may
from tests.cluster.proxy import FaultProxy

WATCH = "watch=true"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "BACKOFF_MOST", 1.0)


@asynccontextmanager
async def connected(kubeconfig):
    client = Client(ClusterConnection("test", kube_config=kubeconfig), outage_budget=1)
    watches = Watches(client)
    try:
        yield client, watches
    finally:
        await watches.close()
        await client.close()


def config_map(name, job, **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "watched", "job": job}},
        "data": data,
    }


async def until(subscription, reached):
    async def wait():
        while not reached():
            await subscription.changed()

    await with_timeout(wait(), 180)


def data(subscription):
    return {each["metadata"]["name"]: each.get("data", {}) for each in subscription.objects.values()}


async def test_follows_through_faults(cluster, namespace):
    """Each connection breaks after some events, and what follows is refused in all ways. Nothing is missed."""
    with FaultProxy(cluster.kubectl.kubeconfig) as proxy:
        rules = []
        for fault in (
            lambda: proxy.cut(path=WATCH, times=3),
            proxy.expire_watch,
            lambda: proxy.answer(410, path=WATCH, times=1),
            lambda: proxy.answer(429, path=WATCH, times=2, retry_after=1),
            lambda: proxy.answer(500, path=WATCH, times=2),
            lambda: proxy.answer(403, path=WATCH, times=2),
        ):
            rules += [proxy.cut(path=WATCH, times=1, after=1500), fault()]
        async with connected(proxy.kubeconfig) as (client, watches):
            watch = watches.of(CONFIG_MAPS, namespace, "app=watched", by_label("job"))
            with watch.subscribe("a") as subscription, watch.subscribe("b") as other:
                await client.create(CONFIG_MAPS, namespace, config_map("kept", "a", step="none"))
                await until(subscription, lambda: subscription.objects)
                deleted = []
                while not all(rule.hits for rule in rules):
                    deleted.append(f"step-{len(deleted)}")
                    await client.create(CONFIG_MAPS, namespace, config_map(deleted[-1], "a"))
                    await until(subscription, lambda: deleted[-1] in data(subscription))
                    await client.patch(CONFIG_MAPS, namespace, "kept", {"data": {"step": deleted[-1]}})
                    await client.delete(CONFIG_MAPS, namespace, deleted[-1])
                await until(subscription, lambda: data(subscription) == {"kept": {"step": deleted[-1]}})
                gone = [each["metadata"]["name"] for each in subscription.gone.values()]
                assert sorted(gone) == sorted(deleted)
                assert (other.objects, other.gone) == ({}, {})


async def test_a_resource_that_is_not_served_is_reported(cluster, namespace, monkeypatch):
    monkeypatch.setattr(module, "REFUSED_FIRST", 0.0)
    unknown = Resource("example.invalid/v1", "Nothing", "nothings")
    kubeconfig = cluster.kubectl.kubeconfig.read_text()
    async with connected(kubeconfig) as (_, watches):
        with watches.of(unknown, namespace).subscribe("a") as subscription, pytest.raises(ApiError) as caught:
            await with_timeout(subscription.changed(), 90)
    assert caught.value.status == 404


async def test_who_may_list_and_not_watch_is_served_by_one_list_for_all(cluster, namespace, monkeypatch, caplog):
    monkeypatch.setattr(module, "REFUSED_FIRST", 1.0)
    monkeypatch.setattr(module, "POLL", 1.0)
    kubeconfig = who_may(cluster, namespace, "list")
    admin = cluster.kubectl.kubeconfig.read_text()
    async with connected(admin) as (client, _), connected(kubeconfig) as (_, watches):
        watch = watches.of(CONFIG_MAPS, namespace, "app=watched", by_label("job"))
        with watch.subscribe("a") as a, watch.subscribe("b") as b:
            await with_timeout(a.changed(), 90)
            while "they are listed every" not in caplog.text:
                name = f"one-{len(a.objects)}"
                await client.create(CONFIG_MAPS, namespace, config_map(name, "a"))
                await until(a, lambda name=name: name in data(a))
            await client.create(CONFIG_MAPS, namespace, config_map("two", "b"))
            await until(b, lambda: b.objects)
            await client.delete(CONFIG_MAPS, namespace, "one-0")
            await until(a, lambda: a.gone)
    assert caplog.text.count("they are listed every") == 1


async def test_many_objects_many_subscribers_one_watch(cluster, namespace):
    with FaultProxy(cluster.kubectl.kubeconfig) as proxy:
        counted = proxy.delay(0, path="configmaps.*app%3Dwatched|configmaps.*app=watched")
        async with connected(proxy.kubeconfig) as (client, watches):

            async def follow(number):
                watch = watches.of(CONFIG_MAPS, namespace, "app=watched", by_label("job"))
                with watch.subscribe(f"job-{number}") as subscription:
                    await until(subscription, lambda: subscription.objects)

            following = [asyncio.create_task(follow(number)) for number in range(100)]
            for number in range(100):
                await client.create(CONFIG_MAPS, namespace, config_map(f"of-{number}", f"job-{number}"))
            await with_timeout(asyncio.gather(*following), 180)
        assert counted.hits <= 3
