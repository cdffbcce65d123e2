"""The last status of a job, and its result: its pods may still run at its end, or go while they are looked at."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations import last_status
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.timeouts import with_timeout
from tests.fakes.jobs import add_job, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE
from tests.unit.cluster.api_server import TIMEOUT, until

KIND = KINDS["jaxjob"]


def has_ended(api, phase):
    api.update(KIND.resource, "j", {"status": with_condition(phase)})


def end_of(phase, code=0, **terminated):
    state = {"terminated": {"exitCode": code, "finishedAt": "2026-11-21T07:00:59Z", **terminated}}
    return {"phase": phase, "containerStatuses": [{"name": "jax", "restartCount": 0, "state": state}]}


async def backend_of(api):
    return ClusterBackend("training-operator", await api.cluster(), NAMESPACE)


class Watching:
    """Watches the job in the background."""

    def __init__(self, api, main):
        self.api, self.statuses = api, []
        self.handle = JobObject(KIND, main).handle("kube")

    async def __aenter__(self):
        self.backend = await backend_of(self.api)
        self.task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _watch(self):
        async for status in self.backend.watch(self.handle):
            self.statuses.append(status)


async def test_the_survivors_of_an_ended_job_are_waited_for(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_pod(api, "j")
    async with Watching(api, main) as watching:
        await until(lambda: watching.statuses)
        has_ended(api, "Failed")
        await asyncio.sleep(0.3)
        assert [status.phase for status in watching.statuses] == [JobPhase.RUNNING]
        api.update(PODS, "j-worker-0", {"status": end_of("Failed", 7, reason="Error")})
        await with_timeout(watching.task, TIMEOUT)

    last = watching.statuses[-1]
    assert (last.phase, last.first_failed, last.replicas[0].exit_code) == (JobPhase.FAILED, "worker-0", 7)


async def test_survivors_that_do_not_end_are_waited_for_some_seconds_beyond_their_grace_period(api, monkeypatch):
    assert last_status._SURVIVE_SECONDS == 15
    monkeypatch.setattr(last_status, "_SURVIVE_SECONDS", 0.1)
    monkeypatch.setattr(last_status, "longest_grace", lambda pods: 0.1)
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_pod(api, "j")
    async with Watching(api, main) as watching:
        await until(lambda: watching.statuses)
        has_ended(api, "Failed")
        await with_timeout(watching.task, TIMEOUT)

    assert watching.statuses[-1].phase is JobPhase.FAILED


async def test_a_pod_that_goes_before_it_is_read_again_shows_how_it_ended(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_pod(api, "j")
    async with Watching(api, main) as watching:
        await until(lambda: watching.statuses)
        api.update(PODS, "j-worker-0", {"status": end_of("Succeeded", reason="Completed")})
        await until(lambda: watching.statuses[-1].replicas[0].reason == "Completed")
        api.before("GET", "/pods$", lambda: api.end_pod("j-worker-0"))
        has_ended(api, "Succeeded")
        await with_timeout(watching.task, TIMEOUT)

    last = watching.statuses[-1]
    assert api.names("pods") == []
    assert last.phase is JobPhase.SUCCEEDED
    assert [(each.name, each.reason) for each in last.replicas] == [("worker-0", "Completed")]


@pytest.mark.parametrize(
    ("metadata", "status", "result"),
    [
        (ours("j"), end_of("Succeeded", message='{"loss": 1}'), b'{"loss": 1}'),
        (ours("j"), end_of("Succeeded", message="bye"), b"bye"),
        (ours("j"), end_of("Failed", 1, message='{"loss": 1}'), None),
        ({}, end_of("Succeeded", message='{"loss": 1}'), b'{"loss": 1}'),
        ({}, end_of("Succeeded", message="bye"), None),
    ],
    ids=[
        "ours",
        "ours, no JSON",
        "a container that failed",
        "created outside Airflow",
        "created outside Airflow, no JSON",
    ],
)
async def test_the_result_is_what_a_container_that_succeeded_has_left(api, metadata, status, result):
    main = add_job(api, "jaxjob", "j", metadata=metadata)
    add_pod(api, "j", phase=status["phase"], state=status["containerStatuses"][0]["state"])

    assert await (await backend_of(api)).result(JobObject(KIND, main).handle("kube")) == result


@pytest.mark.parametrize(
    ("own", "beside", "result"),
    [
        (end_of("Failed", 1), end_of("Failed", message='{"loss": 1}'), None),
        (end_of("Succeeded", message='{"loss": 1}'), end_of("Succeeded", message='{"sent": 9}'), b'{"loss": 1}'),
        (end_of("Succeeded", message='{"loss": 1}'), end_of("Succeeded"), b'{"loss": 1}'),
    ],
)
async def test_the_result_is_the_trainings_behind_a_container_that_stands_first(api, own, beside, result):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_pod(api, "j")
    statuses = [{**beside["containerStatuses"][0], "name": "proxy"}, *own["containerStatuses"]]
    spec = {"containers": [{"name": "proxy"}, {"name": "jax"}]}
    update = {"spec": spec, "status": {"phase": own["phase"], "containerStatuses": statuses}}
    api.update(PODS, "j-worker-0", update)

    assert await (await backend_of(api)).result(JobObject(KIND, main).handle("kube")) == result


@pytest.mark.parametrize("marked", [True, False])
async def test_a_job_that_goes_is_lost_unless_it_was_cancelled(api, marked):
    given = {labels.CANCELLED: "the task is failed"} if marked else {}
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **given))
    async with Watching(api, main) as watching:
        await until(lambda: watching.statuses)
        api.remove(KIND.resource, "j")
        if marked:
            await with_timeout(watching.task, TIMEOUT)
            assert watching.statuses[-1].phase is JobPhase.CANCELLED
        else:
            with pytest.raises(JobLost):
                await with_timeout(watching.task, TIMEOUT)
