"""A clock that is wrong on this machine, or in the cluster, ends no job."""

from __future__ import annotations

from contextlib import aclosing
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from aiohttp import web

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.api.clock import ServerClock
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.job.monitor import Monitor
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, ours
from tests.fakes.kubernetes import NAMESPACE
from tests.unit.cluster.api_server import ApiServer

KIND = KINDS["jaxjob"]
SECOND = timedelta(seconds=1)


def date(ahead):
    return format_datetime(datetime.now(timezone.utc) + ahead, usegmt=True)


@pytest.mark.parametrize(
    ("ahead", "found"),
    [
        ([600], 600),
        ([-600], -600),
        ([0], 0),
        # The header has whole seconds.
        ([1], 0),
        ([-1], 0),
        ([-600, -601, -599], -600),
        ([-600, 0], 0),
        ([600, None], 600),
    ],
)
def test_the_api_servers_clock_is_read_from_its_answers(ahead, found):
    clock = ServerClock()
    for seconds in ahead:
        clock.note(None if seconds is None else date(seconds * SECOND))
    clock.note("yesterday")

    assert abs(clock.ahead.total_seconds() - found) <= (1.5 if found else 0)


async def test_calls_and_streams_report_the_servers_time(monkeypatch):
    async def late(request):
        return web.json_response({}, headers={"Date": date(-600 * SECOND)})

    for stream in (False, True):
        async with ApiServer(late) as server:
            client = Client(ClusterConnection("c", kube_config=server.kubeconfig()))
            if stream:
                _ = [line async for line in client.logs("ns", "p", "main")]
            else:
                await client.get(PODS, "ns", "p")
            assert abs(client.clock.ahead.total_seconds() + 600) < 3
            await client.close()


@pytest.mark.parametrize(("ahead", "is_late"), [(-600, False), (0, True)])
async def test_a_startup_timeout_is_measured_in_one_clock(api, ahead, is_late):
    """The machine's clock is ten minutes ahead of the cluster's, or right."""
    cluster = await api.cluster()
    now = datetime.now(timezone.utc)
    created = (now - 600 * SECOND).strftime("%Y-%m-%dT%H:%M:%SZ")
    main = add_job(api, "jaxjob", "j", metadata=ours("j") | {"creationTimestamp": created})
    api.ahead = ahead * SECOND

    backend = ClusterBackend("training-operator", cluster, NAMESPACE)
    async with aclosing(backend.watch(JobObject(KIND, main).handle("kube"))) as statuses:
        status = await anext(statuses)
    monitor = Monitor(60)
    monitor.observe(status, now)

    assert (monitor.observe(status, now + 30 * SECOND) is not None) == is_late
    # It is not over without an end.
    assert monitor.observe(status, now + 62 * SECOND) is not None


async def test_a_deadline_is_measured_in_the_same_clock(api):
    api.ahead = -600 * SECOND
    cluster = await api.cluster()
    spec = {"runPolicy": {"activeDeadlineSeconds": 60}, "jaxReplicaSpecs": {"Worker": {"replicas": 1}}}
    began = "2026-11-21T07:00:00Z"
    main = add_job(api, "jaxjob", "j", metadata=ours("j"), spec=spec, status={"startTime": began})

    backend = ClusterBackend("training-operator", cluster, NAMESPACE)
    async with aclosing(backend.watch(JobObject(KIND, main).handle("kube"))) as statuses:
        status = await anext(statuses)

    over = datetime.fromisoformat("2026-11-21T07:01:00+00:00") + 600 * SECOND
    assert abs((status.deadline_at - over).total_seconds()) < 3


def test_refusals_keep_the_clock_of_who_refuses():
    """Only the time between two of them counts, also where this machine's clock is set between them."""
    clock, now = ServerClock(), datetime.now(timezone.utc)
    clock.ahead = 600 * SECOND
    status = JobStatus(phase=JobPhase.STARTING, queued_at=now, waiting_since=now, refused_at=now)

    found = clock.here(status)

    assert (found.waiting_since, found.refused_at) == (now - 600 * SECOND, now)
