from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.queues import asked, pace, queue
from airflow_trainer_provider.cluster.queues.kueue import CLUSTER_QUEUES, JOB_UID, LOCAL_QUEUES, WORKLOADS
from airflow_trainer_provider.cluster.state import watcher
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, ours
from tests.fakes.kubernetes import NAMESPACE
from tests.unit.cluster.api_server import until

BEGIN = datetime(2026, 11, 21, 7, tzinfo=timezone.utc)
MESSAGE = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu in flavor x, 1 more needed"


def at(seconds):
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def reserved(status, seconds, message=""):
    """The status of a Workload whose quota is reserved, or not, since then."""
    condition = {"type": "QuotaReserved", "status": status, "lastTransitionTime": at(seconds), "message": message}
    return {"conditions": [condition], "resourceRequests": [{"name": "worker", "resources": {"cpu": "2"}}]}


class Kueue:
    """Two queues of one ClusterQueue, jobs in them, and who follows those."""

    def __init__(self, api):
        self.api, self.statuses, self.tasks = api, {}, {}
        quota = {"name": "x", "resources": [{"name": "cpu", "nominalQuota": "8"}]}
        used = {"name": "x", "resources": [{"name": "cpu", "total": "7"}]}
        api.add(
            CLUSTER_QUEUES,
            "all",
            metadata={"namespace": ""},
            spec={"resourceGroups": [{"flavors": [quota]}]},
            status={"flavorsReservation": [used]},
        )
        for name in ("q", "other"):
            api.add(LOCAL_QUEUES, name, spec={"clusterQueue": "all"})

    def add(self, name, seconds=0, queue="q", namespace=NAMESPACE, priority=0, message=MESSAGE):
        """A job of a queue, with its Workload."""
        metadata = ours(name)
        metadata["labels"]["kueue.x-k8s.io/queue-name"] = queue
        main = add_job(
            self.api, "jaxjob", name, metadata={**metadata, "namespace": namespace}, spec=SUSPENDED, status=STATUS
        )
        uid = main["metadata"]["uid"]
        owner = {"apiVersion": main["apiVersion"], "kind": main["kind"], "name": name, "uid": uid}
        created = {"creationTimestamp": at(seconds), "labels": {JOB_UID: uid}, "ownerReferences": [owner]}
        self.api.add(
            WORKLOADS,
            f"jaxjob-{name}",
            metadata={**created, "namespace": namespace},
            spec={"queueName": queue, "priority": priority},
            status=reserved("False", seconds, message),
        )
        return JobObject(KINDS["jaxjob"], main).handle("kube")

    def admit(self, name, seconds):
        self.api.update(WORKLOADS, f"jaxjob-{name}", {"status": reserved("True", seconds)})

    async def follow(self, *handles):
        backend = ClusterBackend("training-operator", await self.api.cluster(), NAMESPACE)
        for handle in handles:
            self.tasks[handle.name] = asyncio.create_task(self._follow(backend, handle))

    async def _follow(self, backend, handle):
        async for status in backend.watch(handle):
            self.statuses.setdefault(handle.name, []).append(status)

    def place(self, name):
        return self.statuses[name][-1].queue if name in self.statuses else None

    def position(self, name):
        place = self.place(name)
        return place and place.position

    async def positions(self, **wanted):
        await until(lambda: all(self.position(name) == position for name, position in wanted.items()))

    def asked(self, part="pendingworkloads"):
        return [request for request in self.api.requests if part in request.path]

    async def close(self):
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


SUSPENDED = {"runPolicy": {"suspend": True}, "jaxReplicaSpecs": {"Worker": {"replicas": 1}}}
STATUS = {"conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": at(0)}]}


@pytest.fixture
async def kueue(api, monkeypatch):
    """Kueue on the fake API server, whose queues are asked often."""
    monkeypatch.setattr(watcher, "_EVENTS_AFTER", 0.0)
    monkeypatch.setattr(queue, "_TOGETHER", 0.01)
    monkeypatch.setattr(pace, "POSITIONS_EVERY", 0.05)
    monkeypatch.setattr(queue, "QUOTA_EVERY", 0.05)
    monkeypatch.setattr(asked, "_FAILED_MOST", 0.1)
    kueue = Kueue(api)
    yield kueue
    await kueue.close()
