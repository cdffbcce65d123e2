"""Credentials that are refused are replaced in place: in the connection, or in what it names."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from airflow_trainer_provider.cluster.access import renewal
from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.credentials import Address
from airflow_trainer_provider.cluster.api import recovery, retry
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.informer import watch as watch_module
from airflow_trainer_provider.errors import ApiError, BackendUnavailable
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.timeouts import with_timeout
from tests.unit.cluster.api_server import TIMEOUT, StreamingServer, log_of_a_container, until

SECRET = "hush-hush"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(recovery, "SPREAD", 0.01)
    monkeypatch.setattr(retry, "_SHORTEST", 0.01)
    monkeypatch.setattr(retry, "_LONGEST", 0.01)


@pytest.fixture
def clock(monkeypatch):
    """Function (seconds) -> lets time pass for credentials, which otherwise stands still."""
    now = [renewal.time.monotonic()]
    monkeypatch.setattr(renewal, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def let_pass(seconds):
        now[0] += seconds

    return let_pass


@pytest.fixture
async def server():
    server = StreamingServer({"one"})
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def other():
    server = StreamingServer()
    await server.start()
    yield server
    await server.stop()


class Airflow:
    """Where the connection is kept."""

    def __init__(self, server):
        self.now = ClusterConnection("conn", kube_config=server.kubeconfig("one"))
        self.reads = 0
        self.error = None

    def give(self, server, token, **fields):
        self.now = ClusterConnection("conn", kube_config=server.kubeconfig(token, **fields))

    async def read(self):
        self.reads += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return self.now


@pytest.fixture
def airflow(server):
    return Airflow(server)


@pytest.fixture
async def cluster(airflow):
    cluster = await Cluster.of(airflow.now, airflow.read)
    yield cluster
    await Cluster.close_all()


@asynccontextmanager
async def followed(cluster, server):
    """A watch and a log that wait."""
    with cluster.watches.of(PODS, "ns").subscribe("a") as subscription:
        async with log_of_a_container(cluster.client) as notes:
            await subscription.changed()
            await until(lambda: server.streams == 2)
            yield notes


async def test_a_token_renewed_in_the_connection_reaches_all_that_wait(cluster, airflow, server):
    async with followed(cluster, server) as notes:
        airflow.give(server, "two")
        server.tokens = {"two"}
        server.asked.clear()
        server.cut()
        calls = [asyncio.create_task(cluster.client.get_path(f"/{number}")) for number in range(50)]
        await asyncio.gather(*calls)
        await until(lambda: server.streams == 2)
        assert await Cluster.of(airflow.now, airflow.read) is cluster
    assert airflow.reads == 1
    assert notes == []
    # One watch, which goes on where it was.
    assert [token for path, token in server.asked if path.endswith("/pods")] in (["two"], ["one", "two"])


async def test_what_waits_goes_on_when_the_connection_is_corrected_later(cluster, airflow, server, clock, monkeypatch):
    for name in ("BACKOFF_FIRST", "BACKOFF_MOST"):
        monkeypatch.setattr(watch_module, name, 3600.0)
    async with followed(cluster, server) as notes:
        server.tokens = {"two"}
        server.cut()
        await until(lambda: airflow.reads == 1)
        calling = asyncio.create_task(cluster.client.get_path("/version"))
        await until(lambda: server.paths().count("/version") > 3)
        airflow.give(server, "two")
        clock(10)
        await with_timeout(calling, TIMEOUT)
        # Though the pause of the watch is an hour.
        await until(lambda: server.streams == 2)
    assert notes == []


async def test_a_watch_that_was_refused_goes_on_when_another_request_has_found_new_credentials(
    cluster, airflow, server, clock, monkeypatch
):
    for name in ("BACKOFF_FIRST", "BACKOFF_MOST"):
        monkeypatch.setattr(watch_module, name, 3600.0)
    server.tokens = {"two"}
    with cluster.watches.of(PODS, "ns").subscribe("a") as subscription:
        await until(lambda: airflow.reads == 1)
        airflow.give(server, "two")
        clock(10)
        await cluster.client.get_path("/version")
        await with_timeout(subscription.changed(), TIMEOUT)


async def test_airflow_is_not_asked_at_each_refusal(cluster, airflow, server, clock):
    await cluster.client.get_path("/version")
    server.tokens = set()
    calls = [asyncio.create_task(cluster.client.get_path("/version")) for _ in range(20)]
    reads = []
    for _ in range(12):
        server.asked.clear()
        await until(lambda: len(server.asked) > 100)
        reads.append(airflow.reads)
        clock(5)
    for call in calls:
        call.cancel()
    # At once, after 1, 2, 4 and 8 seconds, and every 10 seconds then: time goes by fives here.
    assert reads == [1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8]


async def test_after_a_while_without_a_refusal_it_is_read_at_once(cluster, airflow, server, clock):
    await cluster.client.get_path("/version")
    for number, token in enumerate(("two", "three"), 1):
        airflow.give(server, token)
        server.tokens = {token}
        await cluster.client.get_path("/version")
        assert airflow.reads == number
        clock(61)
    assert [token for _, token in server.asked] == ["one", "one", "two", "two", "three"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError(f"GET https://vault/{SECRET}: 503"), "ConnectionError"),
        (BackendUnavailable("Connection 'conn': its extra is no JSON object"), "its extra is no JSON object"),
    ],
)
async def test_a_connection_that_cannot_be_read_for_a_while_is_read_again(
    cluster, airflow, server, clock, caplog, error, words
):
    await cluster.client.get_path("/version")
    server.tokens, airflow.error = {"two"}, error
    calling = asyncio.create_task(cluster.client.get_path("/version"))
    await until(lambda: words in caplog.text)
    airflow.error = None
    airflow.give(server, "two")
    clock(10)
    await with_timeout(calling, TIMEOUT)
    assert SECRET not in caplog.text


async def test_a_read_that_hangs_is_given_up(cluster, airflow, server, caplog, monkeypatch):
    monkeypatch.setattr(renewal, "_REREAD_SECONDS", 0.01)
    monkeypatch.setattr(airflow, "read", lambda: asyncio.sleep(60))
    hanging = Client(airflow.now, reread=airflow.read, outage_budget=0.1)
    await hanging.get_path("/version")
    server.tokens = set()
    with pytest.raises(ApiError) as caught:
        await with_timeout(hanging.get_path("/version"), TIMEOUT)
    assert caught.value.status == 401
    assert "TimeoutError" in caplog.text
    await hanging.close()


async def test_what_waits_stays_where_it_is_when_the_connection_leads_elsewhere(airflow, server, other, caplog):
    """At another API server, a job that is not there would count as lost, and be trained again."""
    client = Client(airflow.now, reread=airflow.read, outage_budget=0.1)
    await client.get_path("/version")
    airflow.give(other, "two")
    server.tokens = set()
    with pytest.raises(ApiError, match=rf"at {server.url} refuses .* leads to another one now: {other.url}"):
        await client.get_path("/version")
    assert other.asked == []
    assert f"leads to another API server now: {other.url}" in caplog.text
    assert caplog.text.count("leads to another API server now") == 1
    await client.close()


async def test_a_connection_that_leads_back_is_used_again(airflow, server, other):
    client = Client(airflow.now, reread=airflow.read, outage_budget=0.1)
    await client.get_path("/version")
    airflow.give(other, "two")
    assert not await client.use(airflow.now)
    airflow.give(server, "three")
    server.tokens = {"three"}
    await client.get_path("/version")
    server.tokens = set()
    with pytest.raises(ApiError, match=r"refuses the credentials of connection 'conn'\. Renew them there"):
        await client.get_path("/version")
    assert other.asked == []
    await client.close()


async def test_new_tasks_go_where_a_changed_connection_leads(cluster, airflow, server, other):
    await cluster.client.get_path("/version")
    old = airflow.now
    airflow.give(other, "two")
    moved = await Cluster.of(airflow.now, airflow.read)
    assert moved is not cluster
    await moved.client.get_path("/version")
    await cluster.client.get_path("/version")
    assert (other.asked, server.paths()) == ([("/version", "two")], ["/version"] * 2)
    assert await Cluster.of(airflow.now, airflow.read) is moved
    assert await Cluster.of(old, airflow.read) is not moved
    await Cluster.close_all()


async def test_a_kubeconfig_file_that_leads_elsewhere_by_now_takes_no_old_jobs(server, other, tmp_path):
    file = tmp_path / "config"
    file.write_text(server.kubeconfig("one"))
    connection = ClusterConnection("conn", kube_config_path=str(file))
    cluster = await Cluster.of(connection)
    await cluster.client.get_path("/version")
    file.write_text(other.kubeconfig("two"))
    server.tokens = set()
    calling = asyncio.create_task(cluster.client.get_path("/version"))
    await until(lambda: len(server.asked) > 3)
    assert other.asked == []
    calling.cancel()
    moved = await Cluster.of(connection)
    await moved.client.get_path("/version")
    assert moved is not cluster
    assert other.asked == [("/version", "two")]
    await Cluster.close_all()


async def test_a_changed_connection_is_used_before_the_old_credentials_are_refused(cluster, airflow, server):
    server.tokens = {"one", "two"}
    await cluster.client.get_path("/version")
    airflow.give(server, "two")
    assert await Cluster.of(airflow.now, airflow.read) is cluster
    assert cluster.connection == airflow.now
    await cluster.client.get_path("/version")
    assert [token for _, token in server.asked] == ["one", "two"]
    assert airflow.reads == 0


async def test_a_changed_connection_that_is_of_no_use_is_not_used(cluster, airflow, server, caplog):
    await cluster.client.get_path("/version")
    broken = ClusterConnection("conn", kube_config=f"token: {SECRET}: ]")
    assert await Cluster.of(broken, airflow.read) is cluster
    await cluster.client.get_path("/version")
    assert [token for _, token in server.asked] == ["one", "one"]
    assert "neither a JSON nor a YAML object" in caplog.text
    assert SECRET not in caplog.text


async def test_a_connection_that_changes_at_each_read_leaves_no_session_open(airflow, server):
    server.tokens = None
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    for number in range(5):
        airflow.give(server, f"minted-{number}")
        await (await Cluster.of(airflow.now, airflow.read)).client.get_path("/version")
    await Cluster.close_all()
    assert [token for _, token in server.asked] == [f"minted-{number}" for number in range(5)]
    assert complaints == []


async def test_a_cluster_that_is_no_longer_used_leaves_no_session_open(airflow, server, other):
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    await (await Cluster.of(airflow.now, airflow.read)).client.get_path("/version")
    airflow.give(other, "two")
    await (await Cluster.of(airflow.now, airflow.read)).client.get_path("/version")
    gc.collect()
    await asyncio.sleep(0.01)
    gc.collect()
    await Cluster.close_all()
    assert complaints == []


async def test_what_is_followed_goes_on_where_the_connection_shows_another_certificate(cluster, airflow, server):
    async with followed(cluster, server):
        airflow.give(server, "one", cluster={"insecure-skip-tls-verify": True})
        await (await Cluster.of(airflow.now, airflow.read)).client.get_path("/version")
        await asyncio.sleep(0.05)
        server.cut()

        await with_timeout(until(lambda: server.streams == 2), 30)


async def test_closing_all_clusters_closes_one_whose_connection_leads_elsewhere_by_now(airflow, server, other):
    closed = []

    async def made(name):
        cluster = await Cluster.of(airflow.now, airflow.read)
        await cluster.client.get_path("/version")
        close = cluster.client.close
        cluster.client.close = lambda: closed.append(name) or close()
        return cluster

    earlier = await made("earlier")
    airflow.give(other, "two")
    assert await made("now") is not earlier

    await Cluster.close_all()

    assert sorted(closed) == ["earlier", "now"]


async def test_closing_all_clusters_closes_one_that_nothing_else_holds(airflow, server):
    client = (await Cluster.of(airflow.now, airflow.read)).client
    await client.get_path("/version")
    closed = []
    client.close, close = lambda: closed.append(True) or close(), client.close

    await Cluster.close_all()

    assert closed == [True]


async def test_a_kubeconfig_that_is_rewritten_in_place_is_read_when_it_is_whole(server, tmp_path, clock):
    file = tmp_path / "config"
    file.write_text(server.kubeconfig("one"))
    client = Client(ClusterConnection("conn", kube_config_path=str(file)))
    await client.get_path("/version")
    server.tokens = {"two"}
    file.write_text("")
    calling = asyncio.create_task(client.get_path("/version"))
    await until(lambda: len(server.asked) > 3)
    file.write_text(server.kubeconfig("two"))
    clock(1)
    await with_timeout(calling, TIMEOUT)
    await client.close()


async def test_a_token_file_that_is_rewritten_is_read_when_its_token_is_refused(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("one")
    config = json.loads(server.kubeconfig())
    config["users"][0]["user"] = {"tokenFile": str(token)}
    client = Client(ClusterConnection("conn", kube_config=json.dumps(config)))
    await client.get_path("/version")
    token.write_text("two")
    server.tokens = {"two"}
    await client.get_path("/version")
    await client.close()


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (("https://a",), ("https://A:443/",), True),
        (("https://a/k8s/c-1",), ("https://a/k8s/c-1/",), True),
        (("https://a/k8s/c-1",), ("https://a/k8s/c-2",), False),
        (("https://a",), ("http://a",), False),
        (("https://a",), ("https://a:6443",), False),
        (("https://a", "one"), ("https://a", "two"), False),
        (("https://a", None, "http://me:old@p:3128"), ("https://a", None, "http://me:new@p:3128"), True),
        (("https://a", None, "http://p:3128"), ("https://a", None, "http://q:3128"), False),
    ],
)
def test_the_same_address_is_the_same_cluster(one, two, same):
    first, second = (Address.of(*(*each, None, None)[:3]) for each in (one, two))
    assert (first == second) == same
    assert "old" not in str(first)


async def test_a_job_waits_through_a_refusal_of_its_credentials_as_through_an_outage(
    cluster, airflow, server, clock, monkeypatch, caplog
):
    """Five minutes, also where the objects have not been listed yet; then the task may be tried again."""
    caplog.set_level(logging.ERROR)
    for name in ("BACKOFF_FIRST", "BACKOFF_MOST"):
        monkeypatch.setattr(watch_module, name, 0.001)
    passed, begin = [0.0], watch_module.time.monotonic()
    monkeypatch.setattr(watch_module, "time", SimpleNamespace(monotonic=lambda: begin + passed[0]))
    server.tokens = set()
    with cluster.watches.of(PODS, "ns").subscribe("a") as subscription:
        waiting = asyncio.create_task(subscription.changed())
        await until(lambda: len(server.asked) > 3)
        passed[0] = 295.0
        server.asked.clear()
        await until(lambda: len(server.asked) > 3)
        assert not waiting.done()
        passed[0] = 301.0
        with pytest.raises(ApiError, match="refuses the credentials of connection 'conn'") as caught:
            await with_timeout(waiting, TIMEOUT)
    assert (caught.value.status, caught.value.retryable) == (401, True)


async def test_a_log_is_not_given_up_while_its_credentials_are_refused(cluster, airflow, server, monkeypatch, clock):
    from airflow_trainer_provider.cluster.logs import container_log, read_deadline

    monkeypatch.setattr(read_deadline, "REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(container_log, "BACKOFF_FIRST", 0.001)
    async with followed(cluster, server) as notes:
        server.tokens = set()
        server.cut()
        await until(lambda: len(server.asked) > 20)
        airflow.give(server, "two")
        server.tokens = {"two"}
        clock(10)
        await until(lambda: server.streams == 2)
    assert notes == []
