"""One container's reader, and what it does to the other readers of the process."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.cluster.api.recovery import Backoff, Recovery
from airflow_trainer_provider.cluster.logs import container_log
from airflow_trainer_provider.cluster.logs import streams as log_streams
from airflow_trainer_provider.cluster.logs.container_log import ContainerLog, Pod
from airflow_trainer_provider.cluster.logs.cursor import Deduplicator
from airflow_trainer_provider.cluster.logs.streams import LogStreams
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.timeouts import end_tasks, with_timeout
from tests.unit.cluster.api_server import until


class Client:
    """Each container has written one line, and goes on, but for those that wait to start."""

    def __init__(self, waiting=()):
        self.opened, self.closed = [], []
        self.waiting = waiting

    def backoff(self, first, most):
        return Backoff(Recovery(self.ready), first, most)

    async def ready(self):
        return 200

    async def get_or_none(self, resource, namespace, name):
        return running(name).manifest

    async def log_blocks(self, namespace, pod, container, **_):
        self.opened.append(pod)
        if pod in self.waiting:
            raise ApiError("container main is waiting to start", status=400)
        try:
            yield b"2024-01-01T00:00:00.000000000Z one"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.closed.append(pod)


def running(name):
    status = {"name": "main", "restartCount": 0, "state": {"running": {}}}
    return Pod(
        {
            "metadata": {"uid": name, "name": name, "namespace": "n", "resourceVersion": "1"},
            "spec": {"containers": [{"name": "main"}]},
            "status": {"phase": "Running", "containerStatuses": [status]},
        }
    )


@pytest.fixture
def two_permits(monkeypatch):
    monkeypatch.setattr(LogStreams, "limit", 2)
    monkeypatch.setattr(log_streams, "_LOOK", 0.001)
    for name in ("_STREAM_SECONDS", "_LONG_STREAM_SECONDS", "_QUIET"):
        monkeypatch.setattr(container_log, name, 0.005)


async def test_a_reader_whose_lines_are_not_taken_does_not_keep_the_permits_of_others(two_permits):
    client, taken = Client(), asyncio.Event()

    async def take(lines):
        pass

    async def take_later(lines):
        await taken.wait()

    async def note(text):
        raise AssertionError(text)

    def read(name, emit):
        log = ContainerLog(client, running(name), "main", Deduplicator(0, 0), emit, note, asyncio.Event())
        return asyncio.create_task(log.run())

    readers = [read("held up", take_later), read("quiet", take), read("waiting", take)]
    await until(lambda: "waiting" in client.opened)

    assert client.opened.count("held up") == 1
    taken.set()
    # It has been asked for its permit, and gets another one later.
    await until(lambda: client.opened.count("held up") > 1)
    await end_tasks(readers)


def reading(client, pod):
    """A task that reads a container whose lines are taken."""

    async def take(_):
        pass

    return asyncio.create_task(ContainerLog(client, pod, "main", Deduplicator(0, 0), take, take, asyncio.Event()).run())


@pytest.mark.parametrize("rounds", range(5))
async def test_a_reader_that_is_cancelled_as_its_pod_changes_ends(rounds):
    client, pod = Client(waiting=("p",)), running("p")
    task = reading(client, pod)
    await until(lambda: client.opened)
    await asyncio.sleep(0.01)

    pod.wake()
    for _ in range(rounds):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=30)

    assert task.cancelled()


async def test_a_reader_that_is_cancelled_has_closed_its_connection():
    client = Client()
    task = reading(client, running("p"))
    await until(lambda: client.opened)
    await asyncio.sleep(0.01)

    task.cancel()
    await asyncio.wait({task})

    assert client.closed == ["p"]


async def test_a_request_that_the_http_client_has_cancelled_is_sent_again():
    """The connector of aiohttp does so, while it is closed, with requests that wait for the host's address."""
    client, pod, lines, notes = Client(), running("p"), [], []
    pod.manifest["status"]["phase"] = "Succeeded"
    pod.manifest["status"]["containerStatuses"][0]["state"] = {"terminated": {"containerID": "c://1"}}

    async def log_blocks(namespace, pod, container, **_):
        client.opened.append(pod)
        if len(client.opened) == 1:
            raise asyncio.CancelledError
        yield b"2024-01-01T00:00:00.000000000Z one"

    async def emit(new):
        lines.extend(text for _, text in new)

    async def note(text):
        notes.append(text)

    client.log_blocks = log_blocks
    client.get_or_none = lambda *_: _found(pod)

    await with_timeout(ContainerLog(client, pod, "main", Deduplicator(0, 0), emit, note, asyncio.Event()).run(), 30)

    assert (lines, notes) == (["one"], [])


async def _found(pod):
    return pod.manifest


def test_a_pod_wakes_its_readers_only_where_it_has_changed():
    pod = running("p")
    changed, manifest = pod.changed, pod.manifest
    pod.update(dict(manifest))
    assert not changed.is_set()

    pod.update({**manifest, "metadata": {**manifest["metadata"], "resourceVersion": "2"}})
    assert changed.is_set()
    changed = pod.changed
    pod.update(pod.manifest, gone=True)
    assert (changed.is_set(), pod.gone) == (True, True)
    changed = pod.changed
    pod.update(pod.manifest)
    assert (changed.is_set(), pod.gone) == (False, True)


@pytest.mark.parametrize(
    ("version", "is_taken"), [("2", False), ("9", False), ("10", True), ("11", True), ("100", True), ("other", True)]
)
def test_an_older_version_of_a_pod_is_not_taken(version, is_taken):
    pod = running("p")
    of = lambda version: {**pod.manifest, "metadata": {**pod.manifest["metadata"], "resourceVersion": version}}  # noqa: E731
    pod.update(of("10"))
    manifest = of(version)

    pod.update(manifest, gone=True)

    assert (pod.version == version, pod.gone) == (is_taken, True)
