"""Ways to the API server that a kubeconfig names: a proxy, another name in its certificate, another user to act as."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from dataclasses import dataclass

import pytest
import yaml

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import CONFIG_MAPS, Resource


@pytest.fixture
async def connect(cluster):
    """Function (fields of the cluster, fields of the user) -> a client whose kubeconfig has them, too."""
    clients = []

    def connect(where=None, user=None):
        config = yaml.safe_load(cluster.kubectl.kubeconfig.read_text())
        config["clusters"][0]["cluster"] |= where or {}
        config["users"][0]["user"] |= user or {}
        clients.append(Client(ClusterConnection("test", kube_config=json.dumps(config)), outage_budget=5))
        return clients[-1]

    yield connect
    for client in clients:
        await client.close()


@pytest.fixture
async def tunnels():
    """An HTTP proxy that carries connections, and to where it has carried them."""
    asked = []

    async def carry(reader, writer):
        with contextlib.suppress(OSError):
            while block := await reader.read(65536):
                writer.write(block)
                await writer.drain()
        writer.close()

    async def serve(reader, writer):
        method, target, *_ = (await reader.readuntil(b"\r\n\r\n")).decode().split()
        asked.append((method, target))
        host, _, port = target.rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        # Until Python 3.12, asyncio logs an error about a connection that is open when the loop ends its tasks.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", asked
        server.close()


async def test_calls_and_watches_go_through_the_proxy(connect, tunnels, namespace):
    proxy, asked = tunnels
    client = connect({"proxy-url": proxy})
    listing = await client.list(CONFIG_MAPS, namespace)
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}

    await client.create(CONFIG_MAPS, namespace, made)
    events = client.watch(CONFIG_MAPS, namespace, resource_version=listing.resource_version)
    event = await anext(events)
    await events.aclose()

    assert event.object["metadata"]["name"] == "made"
    server = client.connection.kube_config
    address = yaml.safe_load(server)["clusters"][0]["cluster"]["server"].removeprefix("https://")
    # Through it to the API server over HTTPS, and to no other server.
    assert set(asked) == {("CONNECT", address)}


async def test_the_name_in_the_certificate_can_be_another_than_the_address(connect):
    version = await connect({"tls-server-name": "kubernetes.default.svc"}).get_path("/version")
    assert version["major"] == "1"

    with pytest.raises(ApiError, match="certificate"):
        await connect({"tls-server-name": "another.example"}).get_path("/version")


@dataclass(frozen=True)
class WithoutNamespace(Resource):
    """A resource that belongs to no namespace."""

    def path(self, namespace, name=""):
        return f"/apis/{self.api_version}/{self.plural}"


async def test_a_user_can_be_impersonated_down_to_the_uid(connect):
    uid, group = str(uuid.uuid4()), "auditors"
    client = connect(user={"as": "alice", "as-uid": uid, "as-groups": [group], "as-user-extra": {"scopes": ["a"]}})
    who = WithoutNamespace("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews")

    review = await client.create(who, "", {"apiVersion": who.api_version, "kind": who.kind})

    info = review["status"]["userInfo"]
    assert (info["username"], info["uid"], info["extra"]) == ("alice", uid, {"scopes": ["a"]})
    assert group in info["groups"]
