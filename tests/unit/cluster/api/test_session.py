"""The session with an API server: which of its connections are closed, and when."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api.session import Session
from airflow_trainer_provider.timeouts import with_timeout
from tests.unit.cluster.api_server import StreamingServer, until

#: Seconds that something may take which is over at once, on a machine that stalls.
BOUND = 30
LOG = "/api/v1/namespaces/ns/pods/p/log"
NONE = aiohttp.ClientTimeout(total=None)


@pytest.fixture
async def server():
    server = StreamingServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def made(monkeypatch):
    """The sessions of the library that were made."""
    made, make = [], aiohttp.ClientSession

    def record(**options):
        made.append(make(**options))
        return made[-1]

    monkeypatch.setattr(aiohttp, "ClientSession", record)
    return made


def connection(server, **cluster):
    return ClusterConnection("conn", kube_config=server.kubeconfig(cluster=cluster))


async def follow(session):
    return await session.send("GET", LOG, query={"follow": "true"}, timeout=NONE)


async def get(session):
    async with await session.send("GET", "/version", query={}, timeout=NONE) as answer:
        return await answer.read()


async def show_another_certificate(session, server):
    """From now on it is another session of the library."""
    await session.renewal.use(connection(server, **{"insecure-skip-tls-verify": True}))


async def test_what_is_under_way_goes_on_where_another_certificate_is_shown_and_its_connection_closes_then(
    server, made
):
    session = Session(connection(server))
    answer = await follow(session)
    assert b"hello" in await answer.content.readany()
    reading = asyncio.create_task(answer.content.readany())
    await show_another_certificate(session, server)
    await get(session)
    await asyncio.sleep(0.05)

    assert (len(made), made[0].closed, reading.done()) == (2, False, False)
    server.cut()
    with pytest.raises(aiohttp.ClientError):
        await with_timeout(reading, BOUND)
    answer.close()
    del answer, reading
    await with_timeout(until(lambda: made[0].closed), BOUND)
    assert not made[1].closed
    await session.close()


async def test_connections_that_nothing_uses_are_closed_where_another_certificate_is_shown(server, made):
    session = Session(connection(server))
    await get(session)
    await show_another_certificate(session, server)
    await get(session)

    await with_timeout(until(lambda: made[0].closed), BOUND)
    assert not made[1].closed
    await session.close()


async def test_who_reads_an_answer_has_an_error_when_the_session_is_closed(server):
    session = Session(connection(server))
    answer = await follow(session)
    await answer.content.readany()
    reading = asyncio.create_task(answer.content.readany())
    await asyncio.sleep(0)

    await session.close()

    with pytest.raises(aiohttp.ClientError):
        await with_timeout(reading, BOUND)
