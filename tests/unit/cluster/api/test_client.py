"""The client against an API server that misbehaves in ways that a real one does not on demand."""

from __future__ import annotations

import asyncio
import json
import logging
import socket

import pytest
from aiohttp import web

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.answers import SILENT
from airflow_trainer_provider.cluster.api import client as client_module
from airflow_trainer_provider.cluster.api import recovery, requests, retry
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import PODS, Resource
from airflow_trainer_provider.timeouts import with_timeout
from tests.unit.cluster.api_server import TIMEOUT, ApiServer, chunks, cut, kubeconfig, ok, status, text, until

TRAIN_JOBS = Resource("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs")
WEBHOOK = 'Internal error occurred: failed calling webhook "validator.x": connect: connection refused'


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(retry, "_SHORTEST", 0.001)
    monkeypatch.setattr(retry, "_LONGEST", 0.01)


@pytest.fixture
async def connect():
    """Function (server, budget) -> client."""
    clients = []

    def connect(server, outage_budget=30.0):
        kube_config = server if isinstance(server, str) else server.kubeconfig(token="secret-token")
        client = Client(ClusterConnection("c", kube_config=kube_config), outage_budget=outage_budget)
        clients.append(client)
        return client

    yield connect
    for client in clients:
        await client.close()


async def test_asks_for_what_it_should(connect):
    async with ApiServer(ok({"metadata": {"name": "a"}})) as server:
        client = connect(server)
        assert await client.get(PODS, "ns", "a") == {"metadata": {"name": "a"}}
        await client.create(TRAIN_JOBS, "ns", {"kind": "TrainJob"}, dry_run=True)
        await client.patch(TRAIN_JOBS, "ns", "a", {"spec": {"suspend": True}})
        await client.delete(TRAIN_JOBS, "ns", "a", uid="u1", grace_seconds=0)
        await client.get_path("/apis", depth="1")

    get, create, patch, delete, path = server.asked
    assert (get.method, get.path) == ("GET", "/api/v1/namespaces/ns/pods/a")
    assert get.headers["Authorization"] == "Bearer secret-token"
    assert (create.method, create.path) == ("POST", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs")
    assert create.query == {"fieldValidation": "Strict", "fieldManager": "airflow-trainer-provider", "dryRun": "All"}
    assert create.body == {"kind": "TrainJob"}
    assert patch.headers["Content-Type"] == "application/merge-patch+json"
    assert (patch.method, patch.body) == ("PATCH", {"spec": {"suspend": True}})
    assert delete.body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 0,
    }
    assert (path.path, path.query) == ("/apis", {"depth": "1"})


async def test_a_name_cannot_lead_elsewhere(connect):
    async with ApiServer(ok()) as server:
        await connect(server).get(PODS, "ns", "a?watch=true#b c")

    assert server.asked[0].path == "/api/v1/namespaces/ns/pods/a?watch=true#b c"
    assert server.asked[0].query == {}


@pytest.mark.parametrize(
    "fault",
    [
        status(429, "TooManyRequests"),
        status(500, "InternalError", WEBHOOK),
        status(500, "InternalError", "etcdserver: leader changed"),
        text("no healthy upstream", 503),
        text("<html>", 502),
        status(504, "Timeout"),
        status(409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "q": the object has been modified'),
        status(403, "Forbidden", "forbidden: status unknown for quota: q, resources: pods"),
        text("<html>Log in to go on</html>"),
        cut(),
        cut(after=b'{"kind": "Po'),
    ],
)
async def test_what_changes_nothing_is_asked_again(connect, fault):
    async with ApiServer(fault, fault, ok({"found": 1})) as server:
        assert await connect(server).get(PODS, "ns", "a") == {"found": 1}

    assert len(server.asked) == 3


@pytest.mark.parametrize("refused", [status(403, "Forbidden"), status(404, "NotFound"), status(422, "Invalid")])
async def test_a_refusal_is_final(connect, refused):
    async with ApiServer(refused) as server:
        with pytest.raises(ApiError):
            await connect(server).get(PODS, "ns", "a")

    assert len(server.asked) == 1


@pytest.mark.parametrize("ready", [status(500, "InternalError"), status(403, "Forbidden"), cut()])
async def test_what_an_api_server_forbids_until_it_has_read_its_roles_is_asked_again(connect, ready):
    forbidden = status(403, "Forbidden", 'RBAC: clusterrole.rbac.authorization.k8s.io "system:discovery" not found')
    async with ApiServer(forbidden, forbidden, ok({"found": 1}), ready=ready) as server:
        assert await connect(server).get(PODS, "ns", "a") == {"found": 1}

        server.answers = [forbidden, ok()]
        with pytest.raises(ApiError, match=r"system:discovery.*not ready yet") as caught:
            _ = [line async for line in connect(server).logs("ns", "p", "main")]
        assert caught.value.status == 503


async def test_where_the_question_is_forbidden_for_good_a_refusal_is_final_after_a_while(connect, monkeypatch):
    monkeypatch.setattr(recovery, "_STARTING", 0.1)
    forbidden = status(403, "Forbidden", "no rights")
    async with ApiServer(forbidden, ready=forbidden) as server:
        client = connect(server)
        asked = []
        for _ in range(2):
            server.asked.clear()
            with pytest.raises(ApiError, match="no rights") as caught:
                await client.get(PODS, "ns", "a")
            assert caught.value.status == 403
            asked.append(len(server.asked))
    assert asked[0] > 1
    assert asked[1] == 1


async def test_what_an_extension_does_not_answer_delays_nothing_else(connect, monkeypatch):
    hanging, loop = asyncio.Event(), asyncio.get_running_loop()
    now = loop.time
    assert requests._EXTENSION == 10
    monkeypatch.setattr(requests, "_EXTENSION", 2 * TIMEOUT)

    async def answer(request):
        if request.path.startswith("/apis/"):
            await hanging.wait()
        return web.json_response({"found": 1})

    async with ApiServer(answer) as server:
        client = connect(server)
        await client.get(PODS, "ns", "a")
        asked = [asyncio.create_task(client.get_once(f"/apis/{number}")) for number in range(2 * requests._AT_ONCE)]
        await until(lambda: len(server.asked) > requests._EXTENSIONS_AT_ONCE)
        assert await with_timeout(client.get(PODS, "ns", "a"), TIMEOUT) == {"found": 1}
        monkeypatch.setattr(loop, "time", lambda: now() + 3600)
        with pytest.raises(ApiError, match="TimeoutError"):
            await asked[0]
        hanging.set()
        await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize("refusal", [status(401, "Unauthorized"), status(503, "ServiceUnavailable")])
async def test_what_an_extension_refuses_is_asked_once_with_the_same_credentials(refusal):
    read = []
    async with ApiServer(ok()) as server:
        connection = ClusterConnection("c", kube_config=server.kubeconfig(token="t"))

        async def reread():
            read.append(1)
            return connection

        client = Client(connection, reread=reread)
        await client.get(PODS, "ns", "a")
        server.answers = [refusal]
        with pytest.raises(ApiError):
            await client.get_once("/apis/x")
        await client.close()

    assert len(server.asked) == 2
    assert not read


async def test_an_outage_ends_with_the_last_error_when_the_budget_is_spent(connect):
    async with ApiServer(status(503, "ServiceUnavailable", "not today")) as server:
        with pytest.raises(ApiError, match="not today") as caught:
            await connect(server, outage_budget=0.5).get(PODS, "ns", "a")

    assert caught.value.status == 503
    assert len(server.asked) > 1


async def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(connect, caplog):
    caplog.set_level(logging.INFO)
    async with ApiServer(*[cut()] * 6, ok()) as server:
        client = connect(server)
        await asyncio.gather(*(client.get(PODS, "ns", name) for name in "abc"))
        await client.get(PODS, "ns", "d")

    messages = [record.message for record in caplog.records if record.name == retry.__name__]
    assert len(messages) == 2
    assert "connection 'c' does not answer" in messages[0]
    assert "connection 'c' answers again" in messages[1]
    assert "secret-token" not in caplog.text


@pytest.mark.parametrize(
    "harmless",
    [
        status(429, "TooManyRequests"),
        status(500, "InternalError", WEBHOOK),
        status(503, "ServiceUnavailable"),
        status(409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "q": the object has been modified'),
    ],
)
async def test_create_is_repeated_where_nothing_was_created(connect, harmless):
    async with ApiServer(harmless, ok({"kind": "TrainJob"})) as server:
        assert await connect(server).create(TRAIN_JOBS, "ns", {}) == {"kind": "TrainJob"}

    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("doubt", "code"),
    [
        (cut(), None),
        (cut(after=b"{"), None),
        (text("<html>"), None),
        (text("upstream connect error or disconnect before headers", 503), 503),
        (status(500, "InternalError", "etcdserver: request timed out"), 500),
        (status(504, "Timeout"), 504),
    ],
)
async def test_create_is_not_repeated_where_something_may_have_been_created(connect, doubt, code):
    async with ApiServer(doubt) as server:
        with pytest.raises(ApiError) as caught:
            await connect(server).create(TRAIN_JOBS, "ns", {})

    assert caught.value.status == code
    assert len(server.asked) == 1


async def test_the_error_of_an_object_that_was_to_be_created_has_its_size(connect):
    async with ApiServer(status(413, "RequestEntityTooLarge"), status(413, "RequestEntityTooLarge")) as server:
        client = connect(server)
        with pytest.raises(ApiError) as created:
            await client.create(TRAIN_JOBS, "ns", {"env": "é"})
        with pytest.raises(ApiError) as changed:
            await client.patch(TRAIN_JOBS, "ns", "name", {"env": "é"})

    assert created.value.sent_bytes == len(json.dumps({"env": "é"}))
    # A part of an object says nothing of its size.
    assert changed.value.sent_bytes is None


async def test_create_is_repeated_while_connections_are_refused(connect, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    client = connect(kubeconfig(f"http://127.0.0.1:{port}"))
    is_failing = asyncio.Event()
    monkeypatch.setattr(retry.log, "warning", lambda *_: is_failing.set())
    creating = asyncio.create_task(client.create(TRAIN_JOBS, "ns", {}))
    await is_failing.wait()
    runner = web.ServerRunner(web.Server(ok({"kind": "TrainJob"})))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()

    assert await creating == {"kind": "TrainJob"}
    await runner.cleanup()


async def test_a_server_that_does_not_answer_is_given_up(connect, monkeypatch):
    monkeypatch.setattr(requests, "_CALL", 0.05)
    released = asyncio.Event()

    async def hang(request):
        await released.wait()
        return web.Response()

    async with ApiServer(hang, ok({"found": 1})) as server:
        assert await connect(server).get(PODS, "ns", "a") == {"found": 1}
        released.set()


async def test_list_reads_all_pages_and_says_what_each_object_is(connect):
    first = {"metadata": {"resourceVersion": "7", "continue": "t1"}, "items": [{"metadata": {"name": "a"}}]}
    second = {"metadata": {"resourceVersion": "7"}, "items": [{"kind": "Other", "metadata": {"name": "b"}}]}
    async with ApiServer(ok(first), ok(second)) as server:
        listing = await connect(server).list(PODS, "ns", label_selector="a=b", field_selector="c=d")

    assert listing.resource_version == "7"
    assert listing.items == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Other", "metadata": {"name": "b"}},
    ]
    selectors = {"labelSelector": "a=b", "fieldSelector": "c=d"}
    assert [asked.query for asked in server.asked] == [
        {"limit": "25", **selectors},
        {"limit": "25", "continue": "t1", **selectors},
    ]


async def test_list_starts_over_where_its_pages_have_expired(connect):
    first = {"metadata": {"resourceVersion": "7", "continue": "t1"}, "items": [{"metadata": {"name": "old"}}]}
    whole = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}
    async with ApiServer(ok(first), status(410, "Expired"), ok(whole)) as server:
        listing = await connect(server).list(PODS, "ns")

    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "9"
    assert server.asked[-1].query == {}


async def test_watch_yields_the_events_of_the_server(connect):
    events = [
        {"type": "ADDED", "object": {"metadata": {"name": "a", "big": "x" * 3_000_000}}},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
    ]
    body = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    pieces = [body[start : start + 70_000] for start in range(0, len(body), 70_000)]
    async with ApiServer(chunks(*pieces)) as server:
        seen = [event async for event in connect(server).watch(PODS, "ns", label_selector="a=b", resource_version="5")]

    assert [{"type": event.type, "object": event.object} for event in seen] == events
    query = server.asked[0].query
    assert 0 < int(query.pop("timeoutSeconds")) <= 240
    assert query == {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "5", "labelSelector": "a=b"}


async def test_watch_raises_what_the_api_server_says_within(connect):
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    async with ApiServer(text(json.dumps(gone))) as server:
        with pytest.raises(ApiError, match="too old") as caught:
            _ = [event async for event in connect(server).watch(PODS, "ns", resource_version="1")]

    assert (caught.value.status, caught.value.reason) == (410, "Expired")


async def test_watch_raises_where_the_connection_breaks(connect):
    event = json.dumps({"type": "ADDED", "object": {}}).encode()
    async with ApiServer(cut(after=event + b"\n" + event)) as server:
        watch = connect(server).watch(PODS, "ns", resource_version="1")
        assert (await anext(watch)).type == "ADDED"
        with pytest.raises(ApiError) as caught:
            await anext(watch)

    assert caught.value.status is None
    assert len(server.asked) == 1


async def test_a_watch_that_falls_silent_is_noticed(connect, monkeypatch):
    monkeypatch.setattr(client_module, "_SILENT_WATCH", 0.05)
    released = asyncio.Event()

    async def silent(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await released.wait()
        return response

    async with ApiServer(silent) as server:
        with pytest.raises(ApiError, match="Timeout") as caught:
            _ = [event async for event in connect(server).watch(PODS, "ns", resource_version="1")]
        assert caught.value.reason == SILENT
        released.set()


async def test_logs_yield_whole_lines_however_they_arrive(connect):
    long = b"2026-01-01T00:00:00Z " + b"x" * 100_000
    pieces = [b"2026-01-01T00:00:00Z a\n2026-01", b"-01T00:00:00Z b\n\n", long[:60_000], long[60_000:], b"\nend"]
    async with ApiServer(chunks(*pieces)) as server:
        log = connect(server).logs("ns", "p", "main", follow=True, since_time="2026-01-01T00:00:00Z", tail_lines=5)
        lines = [line async for line in log]

    assert lines == [b"2026-01-01T00:00:00Z a", b"2026-01-01T00:00:00Z b", b"", long, b"end"]
    assert server.asked[0].path == "/api/v1/namespaces/ns/pods/p/log"
    assert server.asked[0].query == {
        "container": "main",
        "timestamps": "true",
        "follow": "true",
        "sinceTime": "2026-01-01T00:00:00Z",
        "tailLines": "5",
    }


async def test_a_log_line_without_an_end_does_not_fill_the_memory(connect, monkeypatch):
    monkeypatch.setattr(client_module, "_LONGEST_LOG_LINE", 10)
    async with ApiServer(chunks(b"0123456", b"789abc", b"def\nnext\n")) as server:
        lines = [line async for line in connect(server).logs("ns", "p", "main", previous=True)]

    assert lines == [b"0123456789 [the rest of this line was cut]", b"next"]
    assert server.asked[0].query == {"container": "main", "timestamps": "true", "previous": "true"}


async def test_logs_that_are_not_there_raise(connect):
    async with ApiServer(status(400, "BadRequest", 'container "main" is waiting to start')) as server:
        with pytest.raises(ApiError, match="waiting to start"):
            _ = [line async for line in connect(server).logs("ns", "p", "main")]


async def test_delete_reports_what_was_not_there(connect):
    wrong = "Precondition failed: UID in precondition: a, UID in object meta: b"
    async with ApiServer(
        status(404, "NotFound"), status(409, "Conflict", wrong), status(409, "Conflict", "other")
    ) as s:
        client = connect(s)
        assert await client.delete(PODS, "ns", "a") is False
        assert await client.delete(PODS, "ns", "a", uid="a") is False
        with pytest.raises(ApiError):
            await client.delete(PODS, "ns", "a")


async def test_a_redirect_is_not_followed_with_our_token(connect):
    async def elsewhere(request):
        return web.Response(status=302, headers={"Location": "/other"})

    async with ApiServer(elsewhere) as server:
        with pytest.raises(ApiError) as caught:
            await connect(server).get_path("/version")

    assert caught.value.status == 302
    assert [asked.path for asked in server.asked] == ["/version"]


async def test_calls_do_not_wait_for_streams(connect):
    released = asyncio.Event()

    async def handle(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}\n")
        if request.path.endswith("/log"):
            await released.wait()
        return response

    async with ApiServer(handle) as server:
        client = connect(server)
        streams = [client.logs("ns", "p", "main", follow=True) for _ in range(150)]
        await asyncio.gather(*(anext(stream) for stream in streams))
        await with_timeout(client.get_path("/version"), TIMEOUT)
        released.set()
        for stream in streams:
            await stream.aclose()
