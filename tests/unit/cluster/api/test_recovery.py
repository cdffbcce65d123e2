"""All attempts go on soon after the API server answers again, and wait as long as it asks for, within bounds."""

from __future__ import annotations

import asyncio
import time

import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.answers import NO_ANSWER, api_error
from airflow_trainer_provider.cluster.api import recovery, retry
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.api.recovery import Backoff, Recovery
from airflow_trainer_provider.cluster.informer import watch
from airflow_trainer_provider.cluster.informer.watch import Watches
from airflow_trainer_provider.cluster.logs import container_log
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.timeouts import with_timeout
from tests.unit.cluster.api_server import StreamingServer, log_of_a_container, ok, status, until

PROBE = 0.05
#: Seconds of a pause that nothing shortens, and of what has to come long before its end, also on a machine that stalls.
LONG, SOON = 60.0, 30.0


@pytest.fixture
def slow(monkeypatch):
    """Nothing is repeated for a minute, unless the API server is known to have recovered."""
    monkeypatch.setattr(recovery, "PROBE_SECONDS", PROBE)
    monkeypatch.setattr(recovery, "STARTING_PROBE_SECONDS", PROBE)
    monkeypatch.setattr(recovery, "SPREAD", 0.01)
    for module, names in ((retry, ("_SHORTEST", "_LONGEST")), (watch, _BOUNDS), (container_log, _BOUNDS)):
        for name in names:
            monkeypatch.setattr(module, name, LONG)


_BOUNDS = ("BACKOFF_FIRST", "BACKOFF_MOST")


@pytest.fixture
async def server():
    server = StreamingServer()
    yield server
    await server.stop()


@pytest.fixture
async def client(server):
    client = Client(ClusterConnection("c", kube_config=server.kubeconfig()))
    yield client
    await client.close()


@pytest.fixture
def pauses(monkeypatch):
    """The seconds of each pause of a backoff, none of which takes any time."""
    monkeypatch.setattr(recovery.random, "uniform", lambda _, most: most)
    pauses = []

    async def wait(self, seconds, error):
        pauses.append(seconds)

    monkeypatch.setattr(Recovery, "wait", wait)
    return pauses


async def test_watches_logs_and_calls_go_on_once_it_answers_again(server, client, slow):
    await server.start()
    watches = Watches(client)
    with watches.of(PODS, "ns").subscribe("a") as subscription:
        async with log_of_a_container(client):
            await subscription.changed()
            await until(lambda: server.streams == 2)
            await server.stop()
            calls = [asyncio.create_task(client.get_path("/version")) for _ in range(50)]
            await asyncio.sleep(5 * PROBE)
            server.asked.clear()
            await server.start()
            begun = time.monotonic()
            await asyncio.gather(*calls)
            await until(lambda: server.streams == 2)
    assert time.monotonic() - begun < SOON
    # One probe for all, however many wait.
    assert server.paths().count("/readyz") == 1
    await watches.close()


@pytest.mark.parametrize("refusal", [401, 403, 404])
async def test_a_repeated_refusal_of_the_probe_is_an_answer(server, client, slow, refusal):
    server.ready = status(refusal, "No")
    await server.start()
    await client.get_path("/version")
    await server.stop()
    calling = asyncio.create_task(client.get_path("/version"))
    await asyncio.sleep(2 * PROBE)
    await server.start()
    await with_timeout(calling, SOON)
    assert server.paths().count("/readyz") == 2


async def test_an_api_server_that_is_not_ready_is_waited_for(server, client, slow):
    server.ready = status(500, "NotReady")
    await server.start()
    await client.get_path("/version")
    await server.stop()
    calling = asyncio.create_task(client.get_path("/version"))
    await asyncio.sleep(2 * PROBE)
    server.asked.clear()
    await server.start()
    await until(lambda: server.paths().count("/readyz") > 2)
    assert set(server.paths()) == {"/readyz"}
    server.ready = ok({})
    await with_timeout(calling, SOON)


async def down():
    return None


async def up():
    return 200


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (api_error("GET x", 503, b"maintenance", {"Retry-After": "86400"}), 60),
        (api_error("GET x", 429, b"busy", {"Retry-After": "86400"}), 60),
        (api_error("GET x", 429, b"busy", {"Retry-After": "7"}), 7),
        (api_error("GET x", 503, b"", {"Retry-After": "Wed, 01 Jan 2200 00:00:00 GMT"}), 60),
        (ApiError("x", status=500), 3),
        (None, 3),
    ],
)
async def test_a_pause_is_as_long_as_it_asks_for_within_bounds(pauses, error, waits):
    backoff = Backoff(Recovery(up), 3, 3)
    backoff.failed(error)
    await backoff.pause(error)
    assert pauses == [waits]


async def test_a_long_retry_after_stops_nothing_for_long(server, client, monkeypatch):
    """A gateway's maintenance page, for watches, logs and calls alike."""
    asked = {}

    async def wait(self, seconds, error):
        asked[str(error).split("?")[0].rsplit("/", 1)[-1].split(":")[0]] = seconds
        await asyncio.sleep(0.01)

    monkeypatch.setattr(Recovery, "wait", wait)
    server.answer = status(503, "Maintenance", headers={"Retry-After": "86400"})
    await server.start()
    watches = Watches(client)
    with watches.of(PODS, "ns").subscribe("a"):
        async with log_of_a_container(client):
            calling = asyncio.create_task(client.get_path("/version"))
            await until(lambda: asked.keys() >= {"pods", "log", "version"})
            calling.cancel()
    await watches.close()
    assert set(asked.values()) == {60.0}


@pytest.mark.parametrize(
    ("error", "probe", "woken"),
    [
        (ApiError("reset", reason=NO_ANSWER), up, True),
        (ApiError("the webhook fails", status=500), up, False),
        (ApiError("busy", status=429), up, False),
        (ApiError("forbidden", status=403), up, False),
        (ApiError("reset", reason=NO_ANSWER), down, False),
    ],
)
async def test_only_a_recovery_shortens_a_pause(slow, error, probe, woken):
    found = Recovery(probe)
    if woken:
        await with_timeout(found.wait(LONG, error), SOON)
    else:
        await _sits_out(found, error)
    found.close()


async def _sits_out(found, error):
    """Wait for as long as there is no recovery."""
    begun = time.monotonic()
    await found.wait(6 * PROBE, error)
    assert time.monotonic() - begun > 5 * PROBE


async def test_an_api_server_that_starts_is_probed_more_often(slow, monkeypatch):
    answers = [500, 503, 500, 200]

    async def starts():
        monkeypatch.setattr(recovery, "PROBE_SECONDS", LONG)
        return answers.pop(0)

    await with_timeout(Recovery(starts).wait(LONG, ApiError("reset", reason=NO_ANSWER)), SOON)
    assert answers == []


async def test_one_that_does_not_become_ready_is_not_probed_more_often_for_ever(slow, monkeypatch):
    monkeypatch.setattr(recovery, "_STARTING", 2 * PROBE)
    probes = []

    async def starts():
        monkeypatch.setattr(recovery, "PROBE_SECONDS", LONG)
        probes.append(None)
        return 500

    found = Recovery(starts)
    await _sits_out(found, ApiError("reset", reason=NO_ANSWER))
    assert len(probes) == 3
    found.close()


async def test_an_api_server_that_is_ready_is_not_waited_for_as_long_as_it_has_asked_while_it_started(slow):
    is_up = asyncio.Event()

    async def starts():
        return 200 if is_up.is_set() else 500

    found, initializing = Recovery(starts), ApiError("storage is (re)initializing", status=429)
    first = asyncio.create_task(found.wait(LONG, ApiError("reset", reason=NO_ANSWER)))
    await asyncio.sleep(0)
    second = asyncio.create_task(found.wait(LONG, initializing))
    await asyncio.sleep(0)
    is_up.set()
    await with_timeout(asyncio.gather(first, second), SOON)
    # A 429 is no outage of its own.
    await _sits_out(found, initializing)


async def test_connections_that_keep_breaking_are_no_recovery_each_time(slow):
    found, error = Recovery(up), ApiError("reset", reason=NO_ANSWER)
    await with_timeout(found.wait(LONG, error), SOON)
    for _ in range(2):
        await _sits_out(found, error)
    found.close()


async def test_pauses_get_longer_and_start_over_after_a_recovery(pauses):
    found = Recovery(up)
    backoff = Backoff(found, 0.5, 8)
    for number in range(8):
        if number == 6:
            found.recovered()
        backoff.failed(None)
        await backoff.pause(None)
    assert pauses == [0.5, 1, 2, 4, 8, 8, 0.5, 1]


async def test_an_attempt_that_the_recovery_overtakes_is_repeated_at_once_and_only_once(pauses):
    down, found = ApiError("x", reason=NO_ANSWER), Recovery(up)
    backoff = Backoff(found, 0.5, 8)
    backoff.failed(down)
    await backoff.pause(down)
    # Asked before the API server recovered; what it said until then was good, and then the connection broke.
    found.recovered()
    backoff.reset()
    for _ in range(3):
        backoff.failed(down)
        await backoff.pause(down)
    assert pauses == [0.5, 1, 2]


async def test_an_attempt_that_begins_after_the_recovery_waits_as_after_any_failure(monkeypatch):
    down, found, pauses = ApiError("x", reason=NO_ANSWER), Recovery(up), []

    async def wait(self, seconds, error):
        pauses.append(seconds)
        if len(pauses) == 1:
            found.recovered()

    monkeypatch.setattr(Recovery, "wait", wait)
    monkeypatch.setattr(recovery.random, "uniform", lambda _, most: most)
    backoff = Backoff(found, 0.5, 8)
    for _ in range(3):
        backoff.failed(down)
        await backoff.pause(down)
    assert pauses == [0.5, 0.5, 1]


async def test_an_attempt_that_the_recovery_overtakes_waits_as_long_as_the_api_server_asks_for(pauses):
    busy, found = api_error("GET x", 503, b"busy", {"Retry-After": "3"}), Recovery(up)
    backoff = Backoff(found, 0.5, 8)
    found.recovered()
    backoff.failed(busy)
    await backoff.pause(busy)
    assert pauses == [3]


async def test_pauses_start_over_once_the_api_server_answers_that_it_is_not_ready_for_a_resource(pauses):
    down = ApiError("x", reason=NO_ANSWER)
    initializing = api_error("GET x", 429, b"storage is (re)initializing", {"Retry-After": "1"})
    backoff = Backoff(Recovery(up), 0.5, 8)
    for error in [down] * 5 + [initializing] * 4:
        backoff.failed(error)
        await backoff.pause(error)
    assert pauses == [0.5, 1, 2, 4, 8, 1, 1, 2, 4]


async def test_pauses_stay_short_for_a_while_where_an_api_server_refuses_that_starts(pauses):
    down = ApiError("x", reason=NO_ANSWER)
    no_paths = ApiError("x", status=503)
    backoff = Backoff(Recovery(up), 0.5, 8, starting=3)
    for error in [down] * 4 + [no_paths] * 4 + [down, no_paths]:
        backoff.failed(error)
        await backoff.pause(error)
    assert pauses == [0.5, 1, 2, 4, 0.5, 0.5, 0.5, 8, 8, 0.5]


async def test_it_is_not_probed_for_those_that_no_longer_wait(slow, monkeypatch):
    monkeypatch.setattr(recovery, "_PROBE_ON", PROBE)
    probes = []

    async def probe():
        probes.append(None)

    await Recovery(probe).wait(2 * PROBE, ApiError("reset", reason=NO_ANSWER))
    await asyncio.sleep(6 * PROBE)
    assert 1 <= len(probes) <= 4
