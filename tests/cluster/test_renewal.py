"""Tokens that the real API server revokes are replaced under way: for watches, logs and calls alike."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
import yaml

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api import client as client_module
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.informer.watch import by_label
from airflow_trainer_provider.cluster.logs.cursor import LogCursor
from airflow_trainer_provider.cluster.logs.job_logs import Logs
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import CONFIG_MAPS, PODS
from airflow_trainer_provider.kinds.objects.pod import default_container
from tests.cluster.account import make_account, revocable_token, with_token

IMAGE = "trainer.test/tiny:test"
LINES = 'n=0; while true; do echo "line $n"; n=$((n + 1)); sleep 2; done'


@pytest.fixture(autouse=True)
def short_streams(monkeypatch):
    """Streams end often: the API server asks for credentials only when one begins."""
    monkeypatch.setattr(client_module, "_WATCH", 3)
    monkeypatch.setattr(client_module, "_SILENT_FOLLOWED_LOG", 1)


class Account:
    """A service account, and tokens of it that can be revoked."""

    def __init__(self, cluster, namespace):
        self.cluster, self.namespace = cluster, namespace
        make_account(
            cluster,
            namespace,
            "worker",
            [
                {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
            ],
        )

    def kubeconfig(self, token):
        """With a token that lives as long as the Secret of its name."""
        return yaml.safe_dump(with_token(self.cluster, revocable_token(self.cluster, self.namespace, "worker", token)))

    def apply(self, manifest, name):
        self.cluster.kubectl.apply([{"metadata": {"name": name}, **manifest}], f"--namespace={self.namespace}")

    def revoke(self, token):
        self.cluster.kubectl("delete", "secret", token, f"--namespace={self.namespace}")


class Connection:
    """A connection of Airflow's that holds a kubeconfig, or names its file."""

    def __init__(self, file):
        self._file = file
        self.reads = 0

    def set(self, kubeconfig):
        self._text = kubeconfig
        if self._file:
            self._file.write_text(kubeconfig)

    async def read(self):
        self.reads += 1
        given = {"kube_config_path": str(self._file)} if self._file else {"kube_config": self._text}
        return ClusterConnection("rotated", **given)


class Following:
    """What reaches those that wait: a watch, a log, and calls."""

    def __init__(self, cluster, namespace):
        self.cluster, self.namespace = cluster, namespace
        self.lines, self.calls, self.seen = [], 0, {}

    @asynccontextmanager
    async def all(self):
        tasks = [asyncio.create_task(each) for each in (self.watch(), self.log(), self.call())]
        yield
        for task in tasks:
            assert not task.done(), task
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def watch(self):
        with self.cluster.watches.of(CONFIG_MAPS, self.namespace).subscribe("news") as news:
            while True:
                await news.changed()
                self.seen = next((each["data"] for each in news.objects.values()), {})

    async def log(self):
        watch = self.cluster.watches.of(PODS, self.namespace, "job", by_label("job"))
        with watch.subscribe("logged") as pods:
            logs = Logs(self.cluster.client, pods, lambda _: "worker-0", default_container, LogCursor())
            async for block in logs.blocks(asyncio.Event()):
                self.lines += block.texts

    async def call(self):
        while True:
            await self.cluster.client.list(CONFIG_MAPS, self.namespace)
            self.calls += 1
            await asyncio.sleep(0.1)

    async def goes_on(self, news):
        """Wait until each of them has received something new."""
        calls, lines = self.calls, len(self.lines)
        end = time.monotonic() + 135
        while not (self.seen.get("is") == news and self.calls > calls + 1 and len(self.lines) > lines + 1):
            assert time.monotonic() < end, (self.seen, self.calls - calls, self.lines[lines:])
            await asyncio.sleep(0.1)


async def refused(kubeconfig):
    """Wait until the API server refuses a token: what it has found valid it believes for some seconds."""
    client = Client(ClusterConnection("old", kube_config=kubeconfig), outage_budget=0)

    async def ask():
        for _ in range(900):
            await client.get_path("/version")
            await asyncio.sleep(0.1)

    with pytest.raises(ApiError, match="401 Unauthorized"):
        await ask()
    await client.close()


@pytest.mark.parametrize("kept_in", ["connection", "file"])
async def test_what_waits_goes_on_with_another_token(cluster, namespace, tmp_path, kept_in):
    begun = time.monotonic()
    account = Account(cluster, namespace)
    connection = Connection(tmp_path / "config" if kept_in == "file" else None)
    one, two, three = (account.kubeconfig(token) for token in ("one", "two", "three"))
    connection.set(one)
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", LINES]}
    metadata = {"name": "p", "labels": {"job": "logged"}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    account.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, "p")

    def publish(news):
        account.apply({"apiVersion": "v1", "kind": "ConfigMap", "data": {"is": news}}, "news")

    following = Following(await Cluster.of(await connection.read(), connection.read), namespace)
    async with following.all():
        publish("begun")
        await following.goes_on("begun")
        # Another one is there before the old one is revoked.
        connection.set(two)
        account.revoke("one")
        await refused(one)
        publish("rotated")
        await following.goes_on("rotated")
        # Another one is there only some time after that.
        account.revoke("two")
        await refused(two)
        # What had begun before goes on to its end, which comes after three seconds of a server that is not busy.
        await asyncio.sleep(12)
        publish("late")
        await asyncio.sleep(5)
        assert following.seen == {"is": "rotated"}
        connection.set(three)
        await following.goes_on("late")
    await Cluster.close_all()
    # Each line once.
    assert following.lines == [f"line {number}" for number in range(len(following.lines))]
    # Soon only one in ten seconds.
    assert connection.reads < 12 + (time.monotonic() - begun) / 10
