"""Logs of a job's replicas, from a kubelet that does whatever a test orders."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from contextlib import aclosing, suppress
from datetime import datetime, timezone
from itertools import pairwise

import pytest
from aiohttp import web

from airflow_trainer_provider import timeouts
from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.api.recovery import Backoff, Recovery
from airflow_trainer_provider.cluster.informer.store import Store, by_label
from airflow_trainer_provider.cluster.logs import container_log, read_deadline
from airflow_trainer_provider.cluster.logs import job_logs as logs
from airflow_trainer_provider.cluster.logs import streams as log_streams
from airflow_trainer_provider.cluster.logs.cursor import LogCursor
from airflow_trainer_provider.cluster.logs.job_logs import Logs, lines_of
from airflow_trainer_provider.cluster.logs.replay import Replayed
from airflow_trainer_provider.cluster.logs.streams import LogStreams
from airflow_trainer_provider.errors import ApiError, BackendUnavailable
from airflow_trainer_provider.kinds.trimmed import trimmed
from airflow_trainer_provider.timeouts import with_timeout
from tests.unit.cluster.api_server import TIMEOUT, ApiServer, until

SECOND = 10**9
START = 1_700_000_000 * SECOND


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(container_log, "BACKOFF_FIRST", 0.001)
    monkeypatch.setattr(container_log, "BACKOFF_MOST", 0.001)
    monkeypatch.setattr(logs, "_TICK", 0.01)
    # Longer than a busy machine stalls.
    monkeypatch.setattr(read_deadline, "IDLE_SECONDS", 30)
    monkeypatch.setattr(read_deadline, "LAST_LINES_SECONDS", 30)


@pytest.fixture
def hasty(monkeypatch):
    """A log that goes on after the end of the job, or cannot be read, is given up at once."""
    monkeypatch.setattr(read_deadline, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(read_deadline, "LAST_LINES_SECONDS", 1.0)


@pytest.fixture
def patient(monkeypatch):
    """A log is given up after longer than a busy machine stalls, and sooner than a test may take."""
    monkeypatch.setattr(read_deadline, "IDLE_SECONDS", 2.0)
    monkeypatch.setattr(read_deadline, "LAST_LINES_SECONDS", 4.0)


def stamp(at):
    second = datetime.fromtimestamp(at // SECOND, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{at % SECOND:09d}Z".encode()


def _logs(client, subscription, replica_of, cursor, **options):
    return Logs(client, subscription, replica_of, lambda pod: "main", cursor, **options)


class Run:
    """One run of a container: when it began, what it wrote, and whether it still runs."""

    def __init__(self, began):
        self.began = began
        self.lines = []
        self.runs = True


class Pod:
    """A pod on the fake node. What is written is stamped with its clock."""

    def __init__(self, cluster, name, uid, containers, replica):
        self.cluster, self.name, self.uid, self.replica = cluster, name, uid, replica
        self.containers = {container: [] for container in containers}
        self.phase = "Pending"
        self.there = True
        #: Containers that wait to be started again, as the API server and as the kubelet knows it.
        self.waiting, self.waiting_on_node = set(), set()
        self.env = []
        self.version = 0
        self.put()

    def put(self, *, notify=True):
        """Record a change of the pod's status, and notify the watch."""
        self.cluster.version += 1
        self.version = self.cluster.version
        if self.there and notify:
            self.cluster.store.put(trimmed(self.manifest()))

    def manifest(self):
        return {
            "metadata": {
                "name": self.name,
                "namespace": "training",
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "creationTimestamp": stamp(self.cluster.now).decode(),
                "labels": {"job": "a", "replica": self.replica},
            },
            "spec": {
                "containers": [
                    {"name": name, "env": self.env} for name in self.containers if not name.startswith("init")
                ],
                "initContainers": [{"name": name} for name in self.containers if name.startswith("init")],
            },
            "status": {
                "phase": self.phase,
                "containerStatuses": [self._status(name) for name in self.containers],
            },
        }

    def _status(self, container):
        runs = self.containers[container]
        if not runs:
            return {"name": container, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}
        begins = [{"startedAt": stamp(run.began)[:19].decode() + "Z"} for run in runs]
        ended = {"terminated": {"containerID": f"c://{len(runs)}", **begins[-1]}}
        state = {"running": begins[-1]} if runs[-1].runs else ended
        last = {"terminated": {"containerID": f"c://{len(runs) - 1}", **begins[-2]}} if len(runs) > 1 else {}
        if container in self.waiting:
            state, last = {"waiting": {"reason": "CrashLoopBackOff"}}, ended
        return {"name": container, "restartCount": len(runs) - 1, "state": state, "lastState": last}

    def start(self, container="main", *, notify=True):
        self.phase = "Running"
        self.waiting.discard(container)
        self.waiting_on_node.discard(container)
        self.containers[container].append(Run(self.cluster.now))
        self.put(notify=notify)
        self.cluster.wake()

    def write(self, *texts, container="main", step=SECOND // 100):
        for text in texts:
            self.cluster.now += step
            self.containers[container][-1].lines.append((self.cluster.now, text.encode()))
        self.cluster.wake()

    def end(self, container="main", *, phase=None, notify=True):
        self.containers[container][-1].runs = False
        self.phase = phase or self.phase
        self.put(notify=notify)
        self.cluster.wake()

    def back_off(self, container="main", *, notify=True):
        """Have a container that has ended wait to be started again."""
        self.waiting_on_node.add(container)
        self.waiting.add(container)
        self.put(notify=notify)

    def delete(self):
        for runs in self.containers.values():
            for run in runs:
                run.runs = False
        self.there = False
        self.cluster.pods.remove(self)
        self.cluster.store.remove(self.manifest())
        self.cluster.wake()


class Cluster:
    """The kubelet, with the client that asks it: a clock, restarts, rotation, and faults after so many lines."""

    def __init__(self):
        self.store = Store(by_label("job"))
        self.store.synced = True
        self.pods = []
        self.now = START
        self.version = 0
        self.changed = asyncio.Event()
        #: Pods whose node does not answer, and of others how long each line takes to come, in seconds.
        self.dead = set()
        self.slow = {}
        #: What is to happen to the next requests: an error, or after how many lines the connection breaks or ends.
        self.faults = deque()
        self.requests = []
        #: Of each of them, whether more lines were to be waited for.
        self.followed = []
        self.looks = 0

    def pod(self, name="worker-0", uid=None, containers=("main",), replica=None):
        pod = Pod(self, name, uid or f"uid-{name}", containers, replica or name)
        self.pods.append(pod)
        return pod

    def wake(self):
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def backoff(self, first, most):
        return Backoff(Recovery(self.ready), first, most)

    async def ready(self):
        return 200

    async def get_or_none(self, resource, namespace, name):
        self.looks += 1
        await asyncio.sleep(0)
        return next((pod.manifest() for pod in self.pods if pod.name == name), None)

    async def logs(self, namespace, pod, container, **options):
        async with aclosing(self.log_blocks(namespace, pod, container, **options)) as blocks:
            async for block in blocks:
                yield block

    async def log_blocks(
        self, namespace, pod, container, *, follow=False, since_time=None, tail_lines=None, previous=False
    ):
        self.requests.append((pod, container, since_time, previous))
        self.followed.append(follow)
        if pod in self.dead:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        found = next((each for each in self.pods if each.name == pod), None)
        if found is None:
            raise ApiError(f'pods "{pod}" not found', status=404)
        runs = found.containers[container]
        if len(runs) < (2 if previous else 1):
            raise ApiError(f"container {container} is waiting to start: ContainerCreating", status=400)
        run = runs[-2 if previous and container not in found.waiting_on_node else -1]
        since = datetime.fromisoformat(since_time.replace("Z", "+00:00")).timestamp() * SECOND if since_time else 0
        sent = position = 0
        if tail_lines is not None:
            position = max(0, len(run.lines) - tail_lines)
        file = run.lines
        while True:
            changed = self.changed
            for at, text in file[position:]:
                position += 1
                if at < since:
                    continue
                if fault and sent >= fault[1]:
                    if fault[0] == "cut":
                        raise ApiError("connection reset")
                    return
                sent += 1
                await asyncio.sleep(self.slow.get(pod, 0))
                yield stamp(at) + b" " + text
            if not follow or not run.runs or file is not run.lines:
                return
            await changed.wait()


@pytest.fixture
async def cluster():
    return Cluster()


class Reader:
    """Reads in the background what a job's replicas write."""

    def __init__(self, cluster, cursor=None, **options):
        self.cluster = cluster
        self.cursor = cursor or LogCursor()
        self.ended = asyncio.Event()
        self.got = []
        self.lines = []
        self.more = asyncio.Event()
        self._options = options

    async def __aenter__(self):
        self.context = self.cluster.store.subscribe("a")
        subscription = self.context.__enter__()
        self.logs = _logs(
            self.cluster, subscription, lambda pod: pod["metadata"]["labels"]["replica"], self.cursor, **self._options
        )
        self.task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.context.__exit__(None, None, None)

    async def _read(self):
        async with aclosing(lines_of(self.logs.blocks(self.ended))) as lines:
            async for line in lines:
                self.got.append(str(line))
                self.lines.append(line)
                self.more.set()

    async def has(self, count):
        """Wait for so many lines."""

        async def wait():
            while len(self.got) < count:
                self.more.clear()
                await self.more.wait()

        await with_timeout(wait(), TIMEOUT)
        return self.got

    async def all(self):
        """End the job, and give all lines."""
        self.ended.set()
        await with_timeout(self.task, TIMEOUT)
        return self.got


def lines(*texts, replica="worker-0"):
    return [f"[{replica}] {text}" for text in texts]


async def test_lines_come_as_they_are_written(cluster):
    pod = cluster.pod()
    async with Reader(cluster) as reader:
        pod.start()
        pod.write("one")
        assert await reader.has(1) == lines("one")
        pod.write("two")
        await reader.has(2)
        pod.write("three")
        pod.end(phase="Succeeded")
        assert await reader.all() == lines("one", "two", "three")
    assert cluster.followed[0]


async def test_what_an_ended_job_wrote_is_shown(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("one", "two")
    pod.end(phase="Failed")
    async with Reader(cluster) as reader:
        assert await reader.all() == lines("one", "two")
    # Following costs the API server a flush for each line.
    assert cluster.followed == [False]


async def test_an_ended_job_is_read_though_its_pods_are_not_listed_yet(cluster):
    cluster.store.synced = False
    async with Reader(cluster) as reader:
        reader.ended.set()
        await asyncio.sleep(0.01)
        pod = cluster.pod()
        pod.start()
        pod.write("one")
        pod.end(phase="Succeeded")
        await cluster.store.replace([pod.manifest()])
        assert await reader.all() == lines("one")


async def test_nothing_is_asked_while_a_container_waits(cluster):
    pod = cluster.pod()
    async with Reader(cluster) as reader:
        pod.put()
        await asyncio.sleep(0.01)
        assert cluster.requests == []
        pod.start()
        pod.write("one")
        await reader.has(1)
        assert len(cluster.requests) == 1


async def test_a_kubelet_that_says_it_waits_is_asked_again_when_the_pod_changes(cluster):
    cluster.faults.append(ApiError("waiting to start: PodInitializing", status=400))
    pod = cluster.pod()
    async with Reader(cluster) as reader:
        pod.start()
        pod.write("one")
        await until(lambda: cluster.requests)
        await asyncio.sleep(0.01)
        assert len(cluster.requests) == 1
        pod.put()
        assert await reader.has(1) == lines("one")


@pytest.mark.parametrize("kind", ["cut", "end"])
@pytest.mark.parametrize("step", [0, 1, SECOND // 10, 3 * SECOND])
async def test_each_line_once_over_broken_connections(cluster, kind, step):
    """However the times of the lines lie: all the same, within one second, or apart."""
    pod = cluster.pod()
    pod.start()
    texts = [f"line {number}" for number in range(100)]
    pod.write(*texts, step=step)
    cluster.faults.extend((kind, count) for count in (0, 1, 7, 7, 50, 99, 3, 100))
    async with Reader(cluster) as reader:
        await reader.has(100)
        pod.write("last")
        pod.end(phase="Succeeded")
        assert await reader.all() == lines(*texts, "last")


async def test_each_line_once_where_more_than_the_window_lies_in_one_second(cluster):
    pod = cluster.pod()
    pod.start()
    texts = [f"line {number}" for number in range(3000)]
    pod.write(*texts, step=1000)
    cluster.faults.extend(("cut", count) for count in (2000, 2500, 2999))
    async with Reader(cluster) as reader:
        await reader.has(3000)
        pod.end(phase="Succeeded")
        assert await reader.all() == lines(*texts)


async def test_lines_out_of_order_are_not_lost(cluster):
    """Standard output and error are written side by side: a later line may bear an earlier time."""
    pod = cluster.pod()
    pod.start()
    run = pod.containers["main"][0]
    times = (5, 4, 9, 7, 8, 20, 10, SECOND + 1, SECOND - 1, SECOND + 2)
    run.lines = [(START + at, f"at {at}".encode()) for at in times]
    cluster.faults.extend(("cut", count) for count in range(1, 10))
    async with Reader(cluster) as reader:
        await reader.has(10)
        pod.end(phase="Succeeded")
        assert await reader.all() == lines(*(f"at {at}" for at in times))


async def test_a_log_that_the_kubelet_rotated_goes_on(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("one", "two")
    async with Reader(cluster) as reader:
        await reader.has(2)
        pod.containers["main"][0].lines = []
        pod.write("three", step=1)
        await reader.has(3)
        pod.end(phase="Succeeded")
        assert await reader.all() == lines("one", "two", "three")


async def test_a_new_reader_goes_on_where_the_last_one_was(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("one", "two", step=0)
    async with Reader(cluster) as first:
        await first.has(2)
    pod.write("three", step=0)
    pod.write("four", step=1)
    async with Reader(cluster, LogCursor(first.cursor.text())) as second:
        await second.has(2)
        pod.end(phase="Succeeded")
        assert await second.all() == lines("three", "four")
    async with Reader(cluster, LogCursor(second.cursor.text())) as third:
        assert await third.all() == []


async def test_lines_that_were_not_taken_are_not_counted_as_shown(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write(*(f"line {number}" for number in range(50)))
    cursor = LogCursor()
    with cluster.store.subscribe("a") as subscription:
        source = lines_of(_logs(cluster, subscription, lambda _: "worker-0", cursor).blocks(asyncio.Event()))
        async with aclosing(source):
            taken = [str(await with_timeout(anext(source), TIMEOUT)) for _ in range(20)]
            await asyncio.sleep(0.01)
    pod.end(phase="Succeeded")
    async with Reader(cluster, LogCursor(cursor.text())) as second:
        rest = await second.all()
    assert taken + rest == lines(*(f"line {number}" for number in range(50)))


async def test_a_restarted_container_goes_on(cluster):
    pod = cluster.pod()
    pod.start()
    async with Reader(cluster) as reader:
        pod.write("first run")
        await reader.has(1)
        pod.end()
        pod.start()
        pod.write("second run")
        await reader.has(2)
        pod.end(phase="Failed")
        assert await reader.all() == lines("first run", "second run")


async def test_what_a_crashed_run_wrote_last_is_read_from_its_own_log(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("one")
    cluster.faults.extend([("cut", 1), ApiError("connection refused")])
    async with Reader(cluster) as reader:
        await reader.has(1)
        pod.write("traceback")
        pod.end(notify=False)
        pod.start(notify=False)
        pod.write("again")
        pod.put()
        await reader.has(3)
        pod.end(phase="Failed")
        assert await reader.all() == lines("one", "traceback", "again")


async def test_a_run_that_went_with_its_pod_right_after_an_earlier_one_was_read_is_named(cluster):
    """A controller deletes the pod of a job that has failed for good."""
    pod = cluster.pod()
    pod.start()
    pod.write("first run")
    async with Reader(cluster) as reader:
        await reader.has(1)
        pod.end()
        # To its end, which is known by now.
        await until(lambda: len(cluster.requests) == 2)
        await asyncio.sleep(0.01)
        pod.start(notify=False)
        pod.write("second run")
        pod.end(phase="Failed")
        pod.delete()
        first, missing = await reader.all()
    assert first == "[worker-0] first run"
    assert "the rest of the log of container main in pod worker-0 is missing here: its pod is gone" in missing


async def test_runs_whose_logs_are_gone_are_named(cluster):
    pod = cluster.pod()
    for run in range(1, 5):
        pod.start()
        pod.write(f"run {run}")
        pod.end()
    pod.phase = "Failed"
    pod.put()
    async with Reader(cluster) as reader:
        got = await reader.all()
    assert got[1:] == lines("run 3", "run 4")
    assert "runs 1 to 2 are lost" in got[0]


async def test_init_containers_and_neighbours_are_distinguished(cluster):
    # Webhooks may put theirs before the training's.
    pod = cluster.pod(containers=("init-pytorch", "sidecar", "main"))
    async with Reader(cluster) as reader:
        for container, text in (("init-pytorch", "looking"), ("main", "training"), ("sidecar", "beside")):
            pod.start(container)
            pod.write(text, container=container)
            pod.end(container)
        pod.phase = "Succeeded"
        pod.put()
        got = await reader.all()
    assert sorted(got) == ["[worker-0/init-pytorch] looking", "[worker-0/sidecar] beside", "[worker-0] training"]


async def test_only_the_wanted_replicas_are_read(cluster):
    for name in ("master-0", "worker-0", "worker-1"):
        pod = cluster.pod(name)
        pod.start()
        pod.write(f"by {name}")
        pod.end(phase="Succeeded")
    async with Reader(cluster, replicas={"master-0"}) as reader:
        assert await reader.all() == ["[master-0] by master-0"]
    assert {request[0] for request in cluster.requests} == {"master-0"}


async def test_a_pod_made_again_under_its_name_is_read_as_another(cluster):
    first = cluster.pod(uid="first")
    first.start()
    async with Reader(cluster) as reader:
        first.write("by the first")
        await reader.has(1)
        first.delete()
        second = cluster.pod(uid="second")
        second.start()
        second.write("by the second")
        await reader.has(2)
        second.end(phase="Succeeded")
        assert await reader.all() == lines("by the first", "by the second")


async def test_a_name_that_belongs_to_another_pod_by_now_is_not_read_twice(cluster):
    """The watch lags: the connection broke because the pod is gone, and its name has been taken."""
    first = cluster.pod(uid="first")
    first.start()
    cluster.faults.append(("cut", 1))
    async with Reader(cluster) as reader:
        first.write("by the first", "lost")
        cluster.pods.remove(first)
        second = Pod(cluster, "worker-0", "second", ("main",), "worker-0")
        second.there = False
        cluster.pods.append(second)
        second.start(notify=False)
        second.write("by the second")
        cluster.pods.reverse()
        # The first connection was made before.
        cluster.pods.insert(0, first)
        await reader.has(1)
        cluster.pods.remove(first)
        await asyncio.sleep(0.02)
        first.cluster.store.remove(first.manifest())
        second.there = True
        second.end(phase="Succeeded")
        got = await reader.all()
    assert got.count("[worker-0] by the second") == 1
    assert "the rest of the log of container main in pod worker-0 is missing here" in got[1]


async def test_a_run_that_began_before_the_watch_said_so_is_not_taken_for_the_one_before(cluster):
    """The first run's lines are older than what is read again for a run that crashed at once."""
    pod = cluster.pod()
    pod.start()
    pod.write("first run")
    pod.end(notify=False)
    cluster.now += 60 * SECOND
    pod.start(notify=False)
    pod.write("second run")
    async with Reader(cluster) as reader:
        await reader.has(2)
        pod.end(phase="Failed")
        assert await reader.all() == lines("first run", "second run")


async def test_a_run_that_begins_while_its_reader_waits_for_a_permit_is_not_taken_for_the_one_before(
    cluster, monkeypatch
):
    monkeypatch.setattr(LogStreams, "limit", 1)
    other, pod = cluster.pod("worker-1"), cluster.pod()
    other.start()
    async with Reader(cluster) as reader:
        await until(lambda: cluster.requests)
        pod.start()
        pod.write("first run")
        await asyncio.sleep(0.01)
        pod.end()
        cluster.now += 60 * SECOND
        pod.start()
        pod.write("second run")
        pod.end(phase="Failed")
        other.end(phase="Succeeded")
        assert await reader.all() == lines("first run", "second run")
    assert [request[3] for request in cluster.requests if request[0] == "worker-0"] == [True, False]


async def test_a_name_that_another_pod_has_before_the_watch_says_so_gives_no_line_of_the_first(cluster):
    first = cluster.pod(uid="first")
    first.start()
    cluster.pods.remove(first)
    second = Pod(cluster, "worker-0", "second", ("main",), "worker-0")
    second.there = False
    cluster.pods.append(second)
    second.start(notify=False)
    second.write("by the second")
    async with Reader(cluster) as reader:
        await until(lambda: cluster.requests)
        await asyncio.sleep(0.02)
        assert reader.got == []
        cluster.store.remove(first.manifest())
        second.there = True
        second.end(phase="Succeeded")
        got = await reader.all()
    assert got == [
        "[worker-0] ... the log of container main in pod worker-0 is missing here: its pod is gone",
        "[worker-0] by the second",
    ]


async def test_what_the_watch_has_not_said_when_the_job_ends_is_looked_at(cluster):
    pod = cluster.pod(containers=("main", "sidecar"))
    pod.start()
    pod.write("first run")
    pod.end()
    async with Reader(cluster) as reader:
        await reader.has(1)
        pod.start(notify=False)
        pod.write("second run")
        pod.end(phase="Failed", notify=False)
        assert await reader.all() == lines("first run", "second run")


async def test_a_pod_that_is_gone_is_judged_by_its_last_version(cluster):
    """It is not there any more, and the watch has yet to say that it was started again."""
    pod = cluster.pod()
    pod.start()
    pod.write("first run")
    pod.end()
    async with Reader(cluster) as reader:
        await reader.has(1)
        cluster.pods.remove(pod)
        reader.ended.set()
        await until(lambda: cluster.looks)
        await asyncio.sleep(0.02)
        assert not reader.task.done()
        pod.start(notify=False)
        pod.end(phase="Failed", notify=False)
        cluster.store.remove(pod.manifest())
        got = await reader.all()
    assert got[1:] == [
        "[worker-0] ... the rest of the log of container main in pod worker-0 is missing here: its pod is gone"
    ]


async def test_a_pod_that_went_right_after_its_container_is_complete_however_late_the_watch_is(cluster, monkeypatch):
    monkeypatch.setattr(container_log, "_GOOD", 0.05)
    pod = cluster.pod()
    pod.start()
    async with Reader(cluster) as reader:
        pod.write("one", "last")
        await reader.has(2)
        cluster.pods.remove(pod)
        pod.end(notify=False)
        await until(lambda: cluster.looks == 2)
        await asyncio.sleep(0.1)
        cluster.store.remove(pod.manifest())
        assert await reader.all() == lines("one", "last")


def run_briefly(pod, text, **options):
    """Run the pod's container, which writes one line, to its end."""
    pod.start(**options)
    pod.write(text)
    pod.end(**options)


RUN_1_IS_LOST = (
    "[worker-0] ... container main in pod worker-0 was started again; lines of its run 1 are lost, as the kubelet "
    "gives no log of them"
)


@pytest.mark.parametrize("is_known", [True, False])
async def test_of_a_container_that_waits_to_be_started_again_the_kubelet_gives_the_last_run_only(cluster, is_known):
    pod = cluster.pod()
    run_briefly(pod, "run 1", notify=False)
    run_briefly(pod, "run 2")
    # Where the watch lags, the reader believes that the log of run 1 is still there.
    pod.back_off(notify=is_known)
    async with Reader(cluster) as reader:
        assert await reader.has(2) == [RUN_1_IS_LOST, *lines("run 2")]
        run_briefly(pod, "run 3")
        pod.end(phase="Succeeded")
        assert (await reader.all())[2:] == lines("run 3")


async def test_a_run_in_whose_place_the_kubelet_gives_the_next_one_is_named(cluster):
    pod = cluster.pod()
    run_briefly(pod, "run 1", notify=False)
    run_briefly(pod, "run 2")
    # The API server does not know it yet.
    pod.waiting_on_node.add("main")
    async with Reader(cluster) as reader:
        await reader.has(2)
        run_briefly(pod, "run 3")
        pod.end(phase="Succeeded")
        assert await reader.all() == [*lines("run 2"), RUN_1_IS_LOST, *lines("run 3")]


async def test_runs_between_two_readers_are_named(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("run 1")
    async with Reader(cluster) as first:
        await first.has(1)
    for run in range(2, 5):
        pod.end()
        cluster.now += 60 * SECOND
        pod.start()
        pod.write(f"run {run}")
    pod.end(phase="Failed")
    async with Reader(cluster, LogCursor(first.cursor.text())) as second:
        got = await second.all()
    assert "lines of its runs 1 to 2 that were not shown before are lost" in got[0]
    assert got[1:] == lines("run 3", "run 4")
    async with Reader(cluster, LogCursor(second.cursor.text())) as third:
        assert await third.all() == []


async def test_a_deleted_pod_that_was_read_to_its_end_is_complete(cluster):
    pod = cluster.pod()
    pod.start()
    async with Reader(cluster) as reader:
        pod.write("one", "last")
        await reader.has(2)
        pod.delete()
        assert await reader.all() == lines("one", "last")


async def test_a_pod_that_goes_right_after_its_container_is_complete(cluster):
    pod = cluster.pod()
    pod.start()
    async with Reader(cluster) as reader:
        pod.write("one", "last")
        await reader.has(2)
        cluster.faults.extend([ApiError("the kubelet has dropped it", status=404)] * 1000)
        pod.end(phase="Failed")
        await until(lambda: len(cluster.requests) > 1)
        pod.delete()
        assert await reader.all() == lines("one", "last")


async def test_a_log_that_could_never_be_read_is_named(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("never seen")
    pod.end(phase="Failed")
    cluster.faults.extend([ApiError("connection refused")] * 3)
    async with Reader(cluster) as reader:
        await asyncio.sleep(0)
        pod.delete()
        got = await reader.all()
    assert len(got) == 1
    assert got[0].startswith(
        "[worker-0] ... the log of container main in pod worker-0 is missing here: its pod is gone"
    )


async def test_a_kubelet_that_has_no_log_is_quoted(cluster, hasty):
    pod = cluster.pod()
    pod.start()
    pod.end(phase="Failed")

    async def unreadable(*_, **__):
        yield b"unable to retrieve container logs for containerd://abc"

    cluster.log_blocks = unreadable
    async with Reader(cluster) as reader:
        got = await reader.all()
    assert len(got) == 1
    assert "unable to retrieve container logs" in got[0]


@pytest.mark.parametrize(
    "answer",
    [
        b"unable to retrieve container logs for containerd://abc",
        b'failed to try resolving symlinks in path "/var/log/pods/a.log": lstat /var/log/pods/a.log: no such file',
    ],
)
async def test_a_kubelet_that_has_the_rest_of_a_log_no_more_is_quoted(cluster, hasty, answer):
    pod = cluster.pod()
    pod.start()
    pod.write("one")
    cluster.faults.append(("cut", 1))
    async with Reader(cluster) as reader:
        pod.write("two")
        await reader.has(1)

        async def unreadable(*_, **__):
            yield answer

        cluster.log_blocks = unreadable
        pod.end(phase="Failed")
        got = await reader.all()
    assert got[0] == "[worker-0] one"
    assert "the rest of the log of container main in pod worker-0 is missing here: it was still open" in got[1]
    assert got[1].endswith(f"({answer.decode()})")


async def test_an_error_is_tried_again_while_the_job_runs(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("one")
    faults = [ApiError("refused"), ApiError("x", status=500), ApiError("x", status=429), ApiError("x", status=403)]
    cluster.faults.extend([*faults * 5, BackendUnavailable("the exec plugin is not there")])
    async with Reader(cluster) as reader:
        assert await reader.has(1) == lines("one")


async def test_missing_rights_are_named(cluster, monkeypatch):
    monkeypatch.setattr(read_deadline, "REFUSED_SECONDS", 0.0)
    cluster.faults.append(ApiError('cannot get resource "pods/log"', status=403))
    pod = cluster.pod()
    pod.start()
    async with Reader(cluster) as reader:
        got = await reader.has(1)
        assert 'cannot get resource "pods/log"' in got[0]


async def test_an_error_of_a_readers_own_is_named(cluster, caplog):
    pod = cluster.pod()
    pod.start()
    pod.write("one")

    async def broken(*_, **__):
        raise OSError(24, "Too many open files")
        yield b""

    cluster.log_blocks = broken
    async with Reader(cluster) as reader:
        got = await reader.has(1)
    assert "the log of container main in pod worker-0 is missing here: OSError: [Errno 24]" in got[0]
    assert "is not read any further" in caplog.text


async def test_a_survivor_of_the_job_is_not_waited_for_without_end(cluster, hasty):
    pod = cluster.pod()
    pod.start()
    pod.write("one")
    async with Reader(cluster) as reader:
        await reader.has(1)
        got = await reader.all()
    assert got[:1] == lines("one")
    assert "the rest of the log of container main in pod worker-0 is missing here: it was still open" in got[1]


async def test_a_reader_that_swallows_its_cancellation_is_not_waited_for_without_end(cluster, hasty, monkeypatch):
    """As ``asyncio.wait_for()`` of Python 3.10 and 3.11 does in a library, now and then."""
    monkeypatch.setattr(timeouts, "_AGAIN_SECONDS", 0.01)

    async def get_or_none(*_):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    pod = cluster.pod()
    async with Reader(cluster) as reader:
        pod.start()
        pod.write("one")
        await reader.has(1)
        cluster.get_or_none = get_or_none
        # The watch does not say so, and a look at the pod is not answered.
        pod.end(notify=False)
        reader.ended.set()
        await with_timeout(reader.task, 30)
    assert reader.got[0] == "[worker-0] one"


async def test_what_is_written_shortly_before_the_end_is_shown(cluster):
    pod = cluster.pod()
    pod.start()
    async with Reader(cluster) as reader:
        pod.write("one")
        await reader.has(1)
        reader.ended.set()
        pod.write("last")
        pod.end(phase="Succeeded")
        assert await reader.all() == lines("one", "last")


async def test_a_slow_taker_loses_nothing(cluster, monkeypatch):
    monkeypatch.setattr(logs, "_WAITING_BLOCKS", 1)
    monkeypatch.setattr(read_deadline, "IDLE_SECONDS", 1.0)
    pod = cluster.pod()
    pod.start()
    pod.write(*(str(number) for number in range(10)))
    pod.end(phase="Succeeded")
    ended = asyncio.Event()
    ended.set()
    with cluster.store.subscribe("a") as subscription:
        got = []
        source = lines_of(_logs(cluster, subscription, lambda _: "w", LogCursor()).blocks(ended))
        async with aclosing(source):
            async for line in source:
                got.append(line.text)
                await asyncio.sleep(0.15)
    assert got == [str(number) for number in range(10)]


async def test_closing_with_lines_waiting_does_not_hang_and_leaves_no_reader(cluster, monkeypatch):
    monkeypatch.setattr(logs, "_WAITING_BLOCKS", 1)
    pod = cluster.pod()
    pod.start()
    pod.write(*(str(number) for number in range(10)))
    with cluster.store.subscribe("a") as subscription:
        source = lines_of(_logs(cluster, subscription, lambda _: "w", LogCursor()).blocks(asyncio.Event()))
        await with_timeout(anext(source), TIMEOUT)
        await with_timeout(source.aclose(), TIMEOUT)
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("log")] == []


async def test_the_time_for_which_lines_were_not_taken_is_not_the_logs(cluster, patient):
    pod = cluster.pod()
    pod.start()
    pod.write(*(str(number) for number in range(100)))
    pod.end(phase="Failed")
    ended, got = asyncio.Event(), []
    ended.set()
    with cluster.store.subscribe("a") as subscription:
        async with aclosing(_logs(cluster, subscription, lambda _: "w", LogCursor()).blocks(ended)) as blocks:
            async for block in blocks:
                got.extend(line.text for line in block.lines())
                if len(got) == 1:
                    await asyncio.sleep(1.1 * read_deadline.LAST_LINES_SECONDS)
    assert got == [str(number) for number in range(100)]


def restarted(cluster, *names):
    """Pods of one replica, one after the other, each with two lines."""
    pods = []
    for name in names:
        pod = cluster.pod(name, replica="worker-0")
        pod.start()
        pod.write(f"{name} begins", f"{name} ends")
        pod.end(phase="Failed")
        cluster.now += SECOND
        pods.append(pod)
    return pods


async def test_the_last_pods_log_is_read_where_an_earlier_ones_cannot_be(cluster, patient):
    """A restarted job that is looked at after its end: its pods are seen together."""
    restarted(cluster, "first", "second", "third")
    cluster.dead.add("first")
    async with Reader(cluster) as reader:
        got = await reader.all()
    (missing,) = [line for line in got if "..." in line]
    assert "the log of container main in pod first is missing here: it was still open" in missing
    assert [line for line in got if line != missing] == lines(
        "second begins", "second ends", "third begins", "third ends"
    )


async def test_the_last_pods_log_follows_an_earlier_one_that_takes_long(cluster, patient, monkeypatch):
    monkeypatch.setattr(read_deadline, "LAST_LINES_SECONDS", 60)
    first, _ = restarted(cluster, "first", "second")
    first.containers["main"][0].lines *= 20
    # Longer than a log may be idle, but for the lines.
    cluster.slow["first"] = 1.5 * read_deadline.IDLE_SECONDS / 40
    async with Reader(cluster) as reader:
        got = await reader.all()
    assert got == lines(*["first begins", "first ends"] * 20, "second begins", "second ends")


async def test_an_earlier_pod_that_does_not_end_is_not_waited_for(cluster, monkeypatch):
    """The log of a pod goes on, on a node that the cluster has lost, while its replacement trains."""
    monkeypatch.setattr(read_deadline, "LAST_LINES_SECONDS", 0.1)
    first = cluster.pod("first", replica="worker-0")
    first.start()
    first.write("first")
    async with Reader(cluster) as reader:
        await reader.has(1)
        second = cluster.pod("second", replica="worker-0")
        second.start()
        second.write("second")
        assert await reader.has(2) == lines("first", "second")


async def test_a_note_that_is_not_taken_is_not_the_logs_either(cluster, patient, monkeypatch):
    """Of a container that was started four times, two logs are there, and a line names the two that are not."""
    monkeypatch.setattr(logs, "_WAITING_BLOCKS", 1)
    for name in ("worker-0", "worker-1", "worker-2"):
        pod = cluster.pod(name)
        for run in range(4):
            pod.start()
            pod.write(f"run {run}")
            pod.end()
        pod.end(phase="Failed")
    ended, got = asyncio.Event(), []
    ended.set()
    with cluster.store.subscribe("a") as subscription:
        replica_of = lambda pod: pod["metadata"]["name"]  # noqa: E731
        async with aclosing(_logs(cluster, subscription, replica_of, LogCursor()).blocks(ended)) as blocks:
            async for block in blocks:
                got.extend(str(line) for line in block.lines())
                if len(got) == 1:
                    await asyncio.sleep(1.5 * read_deadline.IDLE_SECONDS)
    for name in ("worker-0", "worker-1", "worker-2"):
        own = [line for line in got if line.startswith(f"[{name}]")]
        assert "lines of its runs 1 to 2 are lost" in own[0]
        assert own[1:] == lines("run 2", "run 3", replica=name)


async def test_an_older_version_of_a_pod_is_taken_once(cluster):
    """A reader that has looked at its pod is ahead of a watch that lags."""
    pod = cluster.pod()
    async with Reader(cluster) as reader:
        await asyncio.sleep(0.01)
        known = reader.logs._pods[pod.uid]
        known.update({**known.manifest, "metadata": {**known.manifest["metadata"], "resourceVersion": "newer"}})
        changed = known.changed
        await reader.logs._look(reader.ended)
        assert (known.version, changed.is_set()) == ("newer", False)


async def test_a_watch_that_lags_at_the_jobs_end_takes_no_log_back(cluster, monkeypatch):
    monkeypatch.setattr(container_log, "BACKOFF_FIRST", 0.05)
    pod = cluster.pod()
    async with Reader(cluster) as reader:
        pod.put(notify=False)
        scheduled = trimmed(pod.manifest())
        pod.start(notify=False)
        pod.write("one")
        pod.end(phase="Succeeded", notify=False)
        readable = cluster.log_blocks

        async def refused(*_, **__):
            # The reader knows more than the watch now reports.
            cluster.store.put(scheduled)
            cluster.log_blocks = readable
            raise ApiError("refused", status=500)
            yield

        cluster.log_blocks = refused
        assert await reader.all() == lines("one")


async def test_containers_whose_logs_fail_do_not_make_each_other_look_again(cluster, monkeypatch):
    monkeypatch.setattr(container_log, "BACKOFF_FIRST", 60)
    monkeypatch.setattr(container_log, "BACKOFF_MOST", 60)
    cluster.faults.extend([ApiError("refused", status=500)] * 1000)
    pod = cluster.pod(containers=("main", "proxy", "metrics"))
    async with Reader(cluster):
        for container in pod.containers:
            pod.start(container)
        await until(lambda: len(cluster.requests) >= 3)
        # A change of the pod is a reason to ask at once, for each of them.
        pod.put()
        await until(lambda: len(cluster.requests) >= 6)
        await asyncio.sleep(0.1)
    assert (cluster.looks, len(cluster.requests)) == (3, 6)


async def test_a_runaway_log_is_cut_and_its_end_is_shown(cluster):
    pod = cluster.pod()
    pod.start()
    texts = [f"line {number:04}" for number in range(1000)]
    pod.write(*texts)
    pod.end(phase="Failed")
    async with Reader(cluster, limit_bytes=1000) as reader:
        got = await reader.all()
    assert got[:100] == lines(*texts[:100])
    assert "has reached 1000 bytes" in got[100]
    assert got[101] == "[worker-0] ... 500 lines (5000 bytes) were cut here"
    assert got[102:] == lines(*texts[600:])


async def test_nothing_is_shown_between_what_was_cut_and_the_end(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("x" * 20, "short")
    pod.end(phase="Failed")
    async with Reader(cluster, limit_bytes=10) as reader:
        got = await reader.all()
    assert "has reached 10 bytes" in got[0]
    assert got[1:] == lines("x" * 20, "short")


async def test_what_was_cut_counts_as_shown(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("short", "x" * 20)
    pod.end(phase="Failed")
    async with Reader(cluster, limit_bytes=10) as first:
        await first.all()
    async with Reader(cluster, LogCursor(first.cursor.text())) as second:
        assert await second.all() == []


async def test_the_last_lines_outlive_the_pod(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write(*(f"line {number}" for number in range(1000)))
    async with Reader(cluster) as reader:
        await reader.has(1000)
        pod.delete()
        await reader.all()
        assert reader.logs.tail("worker-0", 2) == ["line 998", "line 999"]
        assert len(reader.logs.tail("worker-0", 5000)) == 400
        assert reader.logs.tail("worker-1", 5) == []


async def test_lines_are_plain_and_of_bearable_length(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("\x1b[31mred\x1b[0m", " 10%\r 20%\r 30%", "x" * 40_000)
    pod.end(phase="Succeeded")
    async with Reader(cluster) as reader:
        got = await reader.all()
    assert got[:2] == lines("red", " 30%")
    assert got[2].endswith("xxx [the rest of this line was cut]")


async def test_lines_contain_printable_text_and_tabs_only(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("\x1bcreset\tand \x9b31mred", "evil \u202egpj.exe", "a\x0bb\u2028c", "bell\x07", "9%\x08\x0810%")
    pod.write("10 µs ██ 日本")
    pod.end(phase="Succeeded")
    async with Reader(cluster) as reader:
        got = await reader.all()
    assert got == lines("reset\tand red", "evil gpj.exe", "a b c", "bell", "10%", "10 µs ██ 日本")


async def test_the_secrets_of_a_pod_are_masked_in_its_own_lines(cluster):
    pods = [cluster.pod(f"worker-{number}") for number in range(2)]
    pods[0].env = [{"name": "DB_PASSWORD", "value": "hunter2-x"}, {"name": "PLAIN", "value": "plain-7"}]
    async with Reader(cluster) as reader:
        for pod in pods:
            pod.start()
            pod.write("before", "password hunter2-x, plain-7", "\x1b[31mred hunter2-x")
            pod.end(phase="Failed")
        got = await reader.all()
        assert reader.logs.tail("worker-0", 1) == ["red ***"]
    assert [line for line in got if "worker-0" in line] == lines("before", "password ***, plain-7", "red ***")
    assert [line for line in got if "worker-1" in line] == lines(
        "before", "password hunter2-x, plain-7", "red hunter2-x", replica="worker-1"
    )


# In debug mode the test itself keeps the loop: it writes for 200 pods at once.
@pytest.mark.loop_errors
async def test_each_line_of_200_pods_that_write_at_once_comes_once_and_in_order(cluster):
    pods = [cluster.pod(f"worker-{number}") for number in range(200)]
    async with Reader(cluster) as reader:
        for pod in pods:
            pod.start()
        for number in range(20):
            for pod in pods:
                pod.write(f"line {number}")
            await asyncio.sleep(0)
        for pod in pods:
            pod.end(phase="Succeeded")
        got = await reader.all()
    by_replica = {pod.replica: [] for pod in pods}
    for line in got:
        by_replica[line[1 : line.index("]")]].append(line)
    for replica, own in by_replica.items():
        assert own == lines(*(f"line {each}" for each in range(20)), replica=replica)


@pytest.fixture
def one_permit(monkeypatch):
    """One log is read at a time, for a moment."""
    monkeypatch.setattr(LogStreams, "limit", 1)
    monkeypatch.setattr(log_streams, "_LOOK", 0.001)
    for name in ("_STREAM_SECONDS", "_LONG_STREAM_SECONDS", "_QUIET"):
        monkeypatch.setattr(container_log, name, 0.02)


async def test_where_there_are_too_many_they_take_turns(cluster, one_permit):
    pods = [cluster.pod(f"worker-{number}") for number in range(3)]
    texts = [f"line {number}" for number in range(30)]
    async with Reader(cluster) as reader:
        for pod in pods:
            pod.start()
        for text in texts:
            for pod in pods:
                pod.write(text)
            await asyncio.sleep(0.002)
        await reader.has(90)
        for pod in pods:
            pod.end(phase="Succeeded")
        got = await reader.all()
    assert len(cluster.requests) > 3
    for number in range(3):
        own = [line for line in got if line.startswith(f"[worker-{number}] ")]
        assert own == lines(*texts, replica=f"worker-{number}")


async def test_who_waits_for_a_turn_is_waited_for_after_the_end(cluster, one_permit, hasty, monkeypatch):
    """A pod that survives the job holds the only permit for longer than a reader waits."""
    monkeypatch.setattr(container_log, "_STREAM_SECONDS", 60)
    monkeypatch.setattr(container_log, "_LONG_STREAM_SECONDS", 60)
    survivor = cluster.pod("worker-0")
    survivor.start()
    survivor.write("goes on")
    async with Reader(cluster) as reader:
        await reader.has(1)
        for number in (1, 2):
            pod = cluster.pod(f"worker-{number}")
            pod.start()
            pod.write(f"line of {number}")
            pod.end(phase="Succeeded")
        got = await reader.all()
    assert got[0] == "[worker-0] goes on"
    assert "it was still open when the job had ended" in got[1]
    assert got[2:] == ["[worker-1] line of 1", "[worker-2] line of 2"]


@pytest.fixture
def nothing_of_others_to_collect():
    """Keep the garbage collector from the objects of all other tests: to go through them takes half a second."""
    gc.freeze()
    yield
    gc.unfreeze()


async def test_the_loop_has_time_for_others_while_logs_pour_in(monkeypatch, nothing_of_others_to_collect):
    """In each of its rounds, the loop works on one block of a log at most: on its lines, and for some milliseconds, the
    fake server's work included.
    """
    for name in ("IDLE_SECONDS", "LAST_LINES_SECONDS"):
        monkeypatch.setattr(read_deadline, name, 60)
    line = stamp(START) + b" " + b"x" * 100 + b"\n"

    async def pour(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(20):
            await response.write(line * 500)
        return response

    rounds, counts, store, ended = [], [0], Store(by_label("job")), asyncio.Event()
    ended.set()
    fake = Cluster()
    for number in range(8):
        pod = fake.pod(f"worker-{number}")
        pod.start()
        pod.end(phase="Succeeded")
        store.put(pod.manifest())
    store.synced = True

    async def probe():
        while True:
            # Not the time that other processes take from this one.
            before = time.thread_time()
            await asyncio.sleep(0)
            rounds.append(time.thread_time() - before)
            counts.append(count)

    async with ApiServer(pour) as server:
        client = Client(ClusterConnection("test", kube_config=server.kubeconfig()))
        probing = asyncio.create_task(probe())
        count = 0
        with store.subscribe("a") as subscription:
            followed = _logs(client, subscription, lambda pod: pod["metadata"]["name"], LogCursor())
            source = lines_of(followed.blocks(ended))
            async with aclosing(source):
                async for _ in source:
                    count += 1
        probing.cancel()
        await client.close()
    assert count == 8 * 20 * 500
    assert max(after - before for before, after in pairwise(counts)) <= 32 * 1024 // len(line)
    assert max(rounds) < 0.05


async def test_the_loop_has_time_for_others_while_the_readers_of_many_pods_begin(cluster):
    """In each of its rounds, the loop begins to read one pod at most."""
    for number in range(300):
        cluster.pod(f"worker-{number}")
    counts = []
    async with Reader(cluster) as reader:
        while len(reader.logs._reading) < 300:
            counts.append(len(reader.logs._reading))
            await asyncio.sleep(0)
    assert max(after - before for before, after in pairwise([*counts, 300])) == 1


async def test_who_stops_while_the_readers_of_many_pods_begin_leaves_none(cluster):
    for number in range(300):
        cluster.pod(f"worker-{number}")
    async with Reader(cluster) as reader:
        for _ in range(100):
            await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("log")] == []
    assert 0 < len(reader.logs._reading) < 300


async def test_the_last_lines_of_a_container_or_of_its_previous_run(cluster):
    pod = cluster.pod()
    pod.start()
    pod.write("one", "two", "three")
    pod.end()
    pod.start()
    pod.write("four", "five")
    pod.end()
    assert await logs.tail(cluster, "training", "worker-0", "main", 1) == ["five"]
    assert await logs.tail(cluster, "training", "worker-0", "main", 2, previous=True) == ["two", "three"]


def test_a_cursor_of_many_containers_fits_an_annotation():
    cursor = LogCursor()
    for number in range(5000):
        cursor.advance(f"uid-{number}", "main", START + number)
    text = cursor.text()
    assert len(text) <= 50_000
    again = LogCursor(text)
    assert again.of("uid-4999", "main") == (START + 4999, 1)
    assert again.of("uid-3200", "main") == (START + 3200, 1)


@pytest.mark.parametrize("step", [0, SECOND // 100, 2 * SECOND])
@pytest.mark.parametrize("since", [None, 0, 2, 4, 5])
async def test_lines_of_the_leader_behind_a_position_are_given_again(cluster, step, since):
    pod, other = cluster.pod(), cluster.pod("worker-1")
    pod.start()
    other.start()
    pod.write("0", step=step)
    for number in range(1, 5):
        pod.write(str(number), step=step)
    other.write("a")
    async with Reader(cluster, tracked=Replayed("worker-0", (0, 0))) as first:
        await first.has(6)
    leaders = [line for line in first.lines if line.replica == "worker-0"]
    assert [line.text for line in leaders] == list("01234")
    assert [line.position for line in leaders] == sorted({line.position for line in leaders})
    assert not any(line.is_hidden for line in first.lines)

    pod.write("5", "6", step=step)
    other.write("b")
    # Behind the line of that number; None is a waiter without a snapshot.
    position = (0, 0) if since is None else leaders[min(since, 4)].position
    async with Reader(cluster, first.cursor, tracked=Replayed("worker-0", position)) as second:
        pod.end(phase="Succeeded")
        other.end(phase="Succeeded")
        await second.all()

    begin = 0 if since is None else min(since, 4) + 1
    again = [line for line in second.lines if line.replica == "worker-0"]
    assert [(line.text, line.is_hidden) for line in again] == [
        *((str(number), True) for number in range(begin, 5)),
        ("5", False),
        ("6", False),
    ]
    assert [line.position for line in again] == sorted({line.position for line in again})
    assert again[-1].at == pytest.approx(cluster.now / SECOND, abs=5)
    assert [line.text for line in second.lines if line.replica == "worker-1"] == ["b"]


async def test_without_a_position_the_last_minutes_of_what_the_log_has_are_given_again(cluster):
    pod = cluster.pod()
    pod.start()
    for number in range(5):
        pod.write(str(number), step=120 * SECOND)
    async with Reader(cluster, tracked=Replayed("worker-0", None)) as first:
        await first.has(5)
    pod.write("5", step=120 * SECOND)
    async with Reader(cluster, first.cursor, tracked=Replayed("worker-0", None)) as second:
        pod.end(phase="Succeeded")
        await second.all()

    assert [line.text for line in first.lines] == list("01234")
    again = [(line.text, line.is_hidden) for line in second.lines]
    assert again == [("2", True), ("3", True), ("4", True), ("5", False)]


async def test_lines_of_the_leader_that_are_cut_still_count(cluster):
    pod, other = cluster.pod(), cluster.pod("worker-1")
    for each in (pod, other):
        each.start()
        each.write(*map(str, range(10)))
        each.end(phase="Succeeded")
    async with Reader(cluster, tracked=Replayed("worker-0", (0, 0)), limit_bytes=6) as reader:
        await reader.all()

    tracked = [line for line in reader.lines if line.position is not None]
    assert [line.text for line in tracked] == list(map(str, range(10)))
    assert [line.text for line in tracked if line.is_hidden] == list(map(str, range(3, 10)))
    assert all(line.replica == "worker-0" for line in tracked)
