"""Jobs of a training on plain Kubernetes that are deleted: by hand, by a time to live, or with the training itself."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime, timedelta, timezone
from unittest.mock import AsyncMock, Mock

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations.last_status import is_confirmed
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.monitor import Monitor
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import JOBS, PODS, SERVICES
from airflow_trainer_provider.kinds.native.native import NATIVE
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.pod_end import parse_time
from airflow_trainer_provider.spec import parse_spec
from airflow_trainer_provider.timeouts import with_timeout
from tests.fakes.jobs import MADE_AT, add_pod, with_condition
from tests.fakes.kubernetes import NAMESPACE
from tests.unit.cluster.api_server import TIMEOUT, until

TRY = Identity(dag_id="d", run_id="r", task_id="t")
NAME = TRY.job_name("train")
CHIEF, WORKER = f"{NAME}-chief", f"{NAME}-worker"
GROUPS = {"replicas": {"chief": {}, "worker": {"replicas": 2}}}
JOB = plan_job(
    parse_spec({"framework": "tensorflow", "name": "train", "image": "i", "command": ["python", "t.py"], **GROUPS})
)
#: Its only Job is called as the second one of the other.
ONE_JOB = plan_job(parse_spec({"framework": "jax", "name": "train", "image": "i", "command": ["python", "t.py"]}))
RUNNING = {"active": 1, "startTime": "2026-11-21T06:00:00Z"}
COMPLETE = {**with_condition("Complete", MADE_AT), "startTime": "2026-11-21T06:00:00Z"}


CREATING = {"waiting": {"reason": "ContainerCreating"}}


def labels_of_pod(first_rank, index):
    ranks = {"airflow-trainer-provider/first-rank": first_rank, "batch.kubernetes.io/job-completion-index": str(index)}
    return {NATIVE.pod_label: NAME, **ranks}


class Watching:
    """A training that is watched in the background; of two Jobs, unless another one is given."""

    def __init__(self, api, job=JOB):
        self.api, self.job, self.statuses = api, job, []

    async def __aenter__(self):
        backend = ClusterBackend("native", await self.api.cluster(), NAMESPACE)
        self.handle = (await backend.submit(self.job, TRY)).handle
        parts = self.api.names("jobs")
        assert parts == ([CHIEF, WORKER] if self.job is JOB else [WORKER])
        for part in parts:
            self.api.update(JOBS, part, {"status": RUNNING})
        self.backend = backend
        self.task = asyncio.create_task(self._watch())
        await until(lambda: self.statuses)
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _watch(self):
        async for status in self.backend.watch(self.handle):
            self.statuses.append(status)

    async def end(self):
        await with_timeout(self.task, TIMEOUT)
        return self.statuses[-1]


async def test_a_job_that_is_deleted_while_it_trains_ends_the_others(api):
    async with Watching(api) as watching:
        api.remove(JOBS, WORKER)
        last = await watching.end()

    assert (last.phase, last.reason) == (JobPhase.FAILED, "Deleted")
    assert last.message == f"Job {WORKER} was deleted before it had ended"
    assert api.get(JOBS, CHIEF)["spec"]["suspend"]
    # The next try does not wait for what is left of this one.
    again = await watching.backend.submit(JOB, TRY.model_copy(update={"try_number": 2}))
    assert (again.adopted, again.handle.uid == watching.handle.uid) == (None, False)


async def test_a_job_that_goes_once_it_is_complete_is_complete(api):
    async with Watching(api) as watching:
        api.update(JOBS, CHIEF, {"status": COMPLETE})
        api.remove(JOBS, CHIEF)
        api.update(JOBS, WORKER, {"status": {**RUNNING, "active": 2}})
        # Whoever looks now cannot know that the Job was complete.
        assert not (await watching.backend.status(watching.handle)).phase.ended
        api.update(JOBS, WORKER, {"status": COMPLETE})
        last = await watching.end()

    assert last.phase is JobPhase.SUCCEEDED
    assert not [each for each in watching.statuses[:-1] if each.phase.ended]


async def first_status_of(watching):
    """What another process shows first, as after a restart of the triggerer."""
    backend = ClusterBackend("native", await watching.api.cluster("another"), NAMESPACE)
    async with aclosing(backend.watch(watching.handle)) as statuses:
        return await with_timeout(anext(statuses), TIMEOUT)


def given_up(status):
    """Whether a task gives a job up that stays as it is for an hour, where it has a minute to start."""
    monitor, now = Monitor(60), datetime.now(timezone.utc)
    return monitor.observe(status, now) or monitor.observe(status, now + timedelta(hours=1))


async def test_the_replicas_of_a_job_that_was_gone_before_are_not_waited_for(api):
    async with Watching(api) as watching:
        api.update(JOBS, CHIEF, {"status": COMPLETE})
        api.remove(JOBS, CHIEF)
        for index in (0, 1):
            add_pod(api, NAME, "native", index=index, labels=labels_of_pod("1", index))
        found = await first_status_of(watching)

        assert (found.phase, found.waiting_since) == (JobPhase.RUNNING, None)
        assert given_up(found) is None
        chief = found.replicas[0]
        assert (chief.name, chief.reason, chief.failed) == ("chief-0", "Deleted", False)
        assert chief.message == "its Job was deleted; whether it had succeeded is not known"


async def test_beside_a_job_that_is_gone_the_pods_of_the_others_are_waited_for(api):
    async with Watching(api) as watching:
        api.update(JOBS, CHIEF, {"status": COMPLETE})
        api.remove(JOBS, CHIEF)
        add_pod(api, NAME, "native", labels=labels_of_pod("1", 0))
        pod = add_pod(api, NAME, "native", "Pending", index=1, labels=labels_of_pod("1", 1), state=CREATING)
        found = await first_status_of(watching)

        assert found.phase is JobPhase.STARTING
        assert found.waiting_since == parse_time(pod["metadata"]["creationTimestamp"])
        assert given_up(found) is not None


async def test_a_complete_job_that_goes_while_it_is_read_again_is_complete(api):
    async with Watching(api) as watching:
        api.update(JOBS, CHIEF, {"status": COMPLETE})
        # The first look is that of the end.
        api.before("GET", "/jobs$", lambda: api.remove(JOBS, CHIEF))
        api.update(JOBS, WORKER, {"status": COMPLETE})
        assert (await watching.end()).phase is JobPhase.SUCCEEDED

    assert api.names("jobs") == [WORKER]


@pytest.mark.parametrize("at_the_look", [False, True], ids=["before it is read again", "while it is read again"])
async def test_the_only_job_may_go_with_its_pod_once_it_is_complete(api, at_the_look):
    def go():
        api.remove(JOBS, WORKER)
        api.remove(PODS, f"{NAME}-worker-0")

    async with Watching(api, ONE_JOB) as watching:
        add_pod(api, NAME, "native")
        await until(lambda: watching.statuses[-1].phase is JobPhase.RUNNING)
        if at_the_look:
            api.before("GET", "/jobs$", go)
        end = {"exitCode": 0, "finishedAt": "2026-11-21T07:00:59Z", "message": '{"loss": 1}'}
        container = {"name": "jax", "restartCount": 0, "state": {"terminated": end}}
        api.update(PODS, f"{NAME}-worker-0", {"status": {"phase": "Succeeded", "containerStatuses": [container]}})
        api.update(JOBS, WORKER, {"status": COMPLETE})
        if not at_the_look:
            go()

        last = await watching.end()
        assert (last.phase, api.names("jobs")) == (JobPhase.SUCCEEDED, [])
        assert await watching.backend.result(watching.handle) == b'{"loss": 1}'


async def test_a_job_that_only_left_the_watch_ends_nothing(api):
    async with Watching(api) as watching:
        labels_of = api.get(JOBS, WORKER)["metadata"]["labels"]
        api.update(JOBS, WORKER, {"metadata": {"labels": labels_of | {labels.MANAGED_BY: "another"}}})
        looks = len([each for each in api.requests if each.path.endswith("/jobs")])
        await until(lambda: len([each for each in api.requests if each.path.endswith("/jobs")]) > looks)
        assert not (await watching.backend.status(watching.handle)).phase.ended
        api.update(JOBS, CHIEF, {"status": RUNNING | {"ready": 1}})

    assert not [each for each in watching.statuses if each.phase.ended]


async def test_jobs_that_go_before_the_watch_shows_that_the_training_is_deleted_are_not_to_blame(api):
    async with Watching(api) as watching:
        # The watch of the Services is behind.
        removed = api.before("GET", f"/services/{NAME}$", lambda: api.remove(SERVICES, NAME))
        api.remove(JOBS, WORKER)
        with pytest.raises(JobLost):
            await watching.end()

    assert removed.hits == 1
    assert not [each for each in watching.statuses if each.phase.ended]


async def test_jobs_that_their_watch_has_not_shown_yet_are_asked_for(api):
    async with Watching(api):
        main = api.get(SERVICES, NAME)
        job = JobObject(NATIVE, main)
        early = Snapshot(job)
        watcher = Mock(is_gone=False, read=AsyncMock(return_value=job))

        assert early.status().reason == "Deleted"
        assert not await is_confirmed(await api.cluster(), watcher, early)
        for name in (CHIEF, WORKER):
            api.remove(JOBS, name)
        assert await is_confirmed(await api.cluster(), watcher, early)
