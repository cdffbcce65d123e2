"""Thirty jobs in a small queue of the real Kueue: where each is, and when it starts."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.queues.pace import POSITIONS_EVERY
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.queue.place import QueuePlace
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds.status.pod_end import parse_time
from airflow_trainer_provider.spec import parse_spec
from airflow_trainer_provider.timeouts import with_timeout
from tests.cluster.access import Access
from tests.cluster.account import WORKER, make_worker, token_of, with_token
from tests.cluster.proxy import FaultProxy

JOBS = 30
#: How many may run at once.
ROOM = 4
#: A position is known so many seconds late: who was admitted shows the watch, and who has come the next question.
ADMITTED, ARRIVED = 2.0, POSITIONS_EVERY + 6.0
_VISIBILITY = "visibility.kueue.x-k8s.io"
_KUEUE = "kueue.x-k8s.io/v1beta1"
_SMALL = {"cpu": "50m", "memory": "32Mi"}


@pytest.fixture
def queue(cluster: Access, namespace: str) -> Iterator[None]:
    """A queue of the test's own, with room for three jobs, and a priority by which one may come first."""
    amounts = {"cpu": f"{ROOM * 50}m", "memory": "8Gi"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    groups = [{"coveredResources": list(amounts), "flavors": [{"name": "trainer-test", "resources": resources}]}]
    local = {"apiVersion": _KUEUE, "kind": "LocalQueue", "metadata": {"name": "small"}}
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": namespace}}
    cluster.kubectl.apply(
        [
            {"apiVersion": _KUEUE, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": spec},
            {**urgent, "value": 100},
        ]
    )
    cluster.kubectl.apply([{**local, "spec": {"clusterQueue": namespace}}], f"--namespace={namespace}")
    yield
    for kind in ("clusterqueue", "priorityclass"):
        cluster.kubectl("delete", kind, namespace, "--wait=false", "--ignore-not-found")


@dataclass
class Followed:
    """A job, and what was known of it at which time."""

    handle: JobHandle
    places: list[tuple[float, QueuePlace]] = field(default_factory=list)
    last: JobStatus | None = None

    async def follow(self, backend: ClusterBackend) -> None:
        async for status in backend.watch(self.handle):
            self.last = status
            if status.queue and (not self.places or self.places[-1][1] != status.queue):
                self.places.append((time.time(), status.queue))

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """All ranges that were shown for its start."""
        found = [place.estimate for _, place in self.places if place.estimate]
        return [(each.earliest.timestamp(), each.latest.timestamp()) for each in found]


async def submit(
    backend: ClusterBackend, number: int, *, resources: dict[str, str] | None = None, **scheduling: Any
) -> JobHandle:
    fields = {
        "framework": "jax",
        "num_nodes": 1,
        "image": "trainer.test/tiny:test",
        "command": ["sh", "-c", "sleep 1"],
        "resources_per_node": {**_SMALL, **(resources or {})},
        "scheduling": {"queue_name": "small", **scheduling},
        "run_policy": {"grace_period_seconds": 1},
    }
    identity = Identity(dag_id="queue", run_id="r", task_id=f"job-{number}")
    return (await backend.submit(plan_job(parse_spec(fields)), identity)).handle


class Order:
    """The order of the queue at each second, from the times of the Workloads: nothing of the visibility API.

    :param workloads: all of the queue, each of which was admitted.
    """

    def __init__(self, workloads: list[dict[str, Any]]) -> None:
        self._key = {_job_of(each): _key(each) for each in workloads}
        self._waits = {_job_of(each): (_created_at(each), _reserved_at(each)) for each in workloads}

    def allows(self, name: str, position: int, at: float, late: float) -> bool:
        """Whether a position was right within the last seconds; jobs of the same second are in any order.

        :param late: how many seconds.
        """
        seconds = range(int(at - late) - 1, int(at) + 2)
        least = min(self._before(name, second)[0] for second in seconds) + 1
        most = max(self._before(name, second)[1] for second in seconds) + 1
        return least <= position <= most

    def _before(self, name: str, second: int) -> tuple[int, int]:
        """How many jobs come before another one at a time: at least, and at most."""
        own = self._key[name]
        others = [
            self._key[other]
            for other, (created, reserved) in self._waits.items()
            if other != name and created <= second < reserved
        ]
        return sum(key < own for key in others), sum(key <= own for key in others)


def _key(workload: dict[str, Any]) -> tuple[int, str]:
    return -workload["spec"]["priority"], workload["metadata"]["creationTimestamp"]


def _job_of(workload: dict[str, Any]) -> str:
    return str(workload["metadata"]["ownerReferences"][0]["name"])


def _created_at(workload: dict[str, Any]) -> float:
    return parse_time(workload["metadata"]["creationTimestamp"]).timestamp()


def _reserved_at(workload: dict[str, Any]) -> float:
    (reserved,) = [each for each in workload["status"]["conditions"] if each["type"] == "QuotaReserved"]
    return parse_time(reserved["lastTransitionTime"]).timestamp()


def _in_range(shown: tuple[float, float], at: float) -> bool:
    return shown[0] <= at <= shown[1]


def _share(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


# It looks at positions by the second: beside other tests the jobs start in bursts, and the looks come late.
@pytest.mark.exclusive
@pytest.mark.usefixtures("queue")
async def test_thirty_jobs_know_their_positions_and_most_start_within_their_range(cluster, namespace, capsys):
    async with AsyncExitStack() as stack:
        proxy = stack.enter_context(FaultProxy(cluster.kubectl.kubeconfig))
        asked = proxy.delay(0, path=_VISIBILITY)
        connected = await Cluster.of(ClusterConnection(id=f"q-{uuid.uuid4().hex[:6]}", kube_config=proxy.kubeconfig))
        stack.push_async_callback(connected.close)
        backend = ClusterBackend("native", connected, namespace)
        begun = time.monotonic()
        jobs, following = [], []
        for number in range(JOBS):
            # The last one is the first in the order.
            first = {"priority_class": namespace} if number == JOBS - 1 else {}
            jobs.append(Followed(await submit(backend, number, **first)))
            following.append(asyncio.ensure_future(jobs[-1].follow(backend)))
        await with_timeout(asyncio.gather(*following), 600)
        waited = time.monotonic() - begun

    assert {job.last.phase for job in jobs} == {JobPhase.SUCCEEDED}
    order = Order(cluster.kubectl.list("workloads.kueue.x-k8s.io", namespace))
    positions = [(job, at, place) for job in jobs for at, place in job.places if place.position is not None]
    soon, late, wrong = (
        [
            (job.handle.name, at, place.position)
            for job, at, place in positions
            if not order.allows(f"{job.handle.name}-worker", place.position, at, seconds)
        ]
        for seconds in (0, ADMITTED, ARRIVED)
    )
    starts = {job.handle.name: job.last.started_at.timestamp() for job in jobs if job.ranges}
    first = [_in_range(job.ranges[0], starts[job.handle.name]) for job in jobs if job.ranges]
    each = [_in_range(shown, starts[job.handle.name]) for job in jobs for shown in job.ranges]
    with capsys.disabled():
        print(f"\n{JOBS} jobs in {waited:.0f} s, {asked.hits} requests for positions.")
        known = f"{len(soon)} of them known later than within a second, {len(late)} after {ADMITTED:g} s"
        print(f"{len(positions)} positions, {known}, {len(wrong)} wrong.")
        print(f"{len(first)} jobs with a range; {_share(first):.0%} started within the first one.")
        print(f"{len(each)} ranges, of which {_share(each):.0%} held.")
    assert len(positions) > 3 * JOBS
    assert wrong == []
    assert len(late) <= 0.1 * len(positions)
    # A position that is always one too many would look late, and so would most of them.
    assert len(soon) <= 0.25 * len(positions)
    assert min(place.position for _, _, place in positions) == 1
    assert all(place.position <= place.length for _, _, place in positions)
    assert any(place.position == place.length for _, _, place in positions)
    assert len(first) >= JOBS / 3
    assert _share(first) >= 0.8
    assert _share(each) >= 0.8
    # However many jobs wait.
    assert asked.hits <= waited / POSITIONS_EVERY + 2
    missing = {shortage.text() for _, _, place in positions for shortage in place.missing}
    assert "needs 0.05 CPU, 0 free in trainer-test" in missing
    assert {place.cluster_queue for _, _, place in positions} <= {namespace, None}


@pytest.mark.usefixtures("queue")
async def test_without_the_rights_the_position_is_unknown_and_the_reason_is_known(cluster, namespace):
    make_worker(cluster, namespace, without=_VISIBILITY)
    config = with_token(cluster, token_of(cluster, namespace, WORKER))
    connected = await Cluster.of(ClusterConnection(id=f"q-{uuid.uuid4().hex[:6]}", kube_config=yaml.safe_dump(config)))
    backend = ClusterBackend("native", connected, namespace)
    handle = await submit(backend, 0, resources={"cpu": f"{(ROOM + 1) * 50}m"})

    async with aclosing(backend.watch(handle)) as statuses:
        place = await with_timeout(_place_of(statuses), 180)

    await connected.close()
    assert (place.name, place.position, place.estimate) == ("small", None, None)
    assert place.estimate_why == (
        "The position is not known: the connection's account may not get localqueues/pendingworkloads in "
        "visibility.kueue.x-k8s.io."
    )


async def _place_of(statuses: AsyncIterator[JobStatus]) -> QueuePlace:
    async for status in statuses:
        if status.queue is not None:
            return status.queue
    raise AssertionError("the job has ended")
