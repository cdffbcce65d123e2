"""Following a job: its phases once, its lines all, and its end or the caller's."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.errors import JobLost, JobTimeout
from airflow_trainer_provider.job.backend import LogLine
from airflow_trainer_provider.job.follow import end_of, follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
HANDLE = JobHandle(name="j", uid="u", backend="b", framework="f", leader="worker-0", owner=1, location="/l")
RUNNING = JobStatus(phase=JobPhase.RUNNING, queued_at=NOW)
REPLICA = ReplicaStatus(group="worker", index=0, started_at=NOW)
CHANGED = RUNNING.model_copy(update={"replicas": (ReplicaStatus(group="worker", index=0),)})
SUCCEEDED = RUNNING.model_copy(update={"phase": JobPhase.SUCCEEDED})


class _Backend:
    def __init__(self, *statuses, error=None):
        self.statuses, self.error = statuses, error
        self.cancelled = []

    async def cancel(self, handle, reason):
        self.cancelled.append(reason)
        return True

    async def watch(self, handle):
        for status in self.statuses:
            yield status
        if self.error:
            raise self.error
        if not self.statuses[-1].phase.ended:
            await asyncio.Event().wait()

    async def logs(self, handle, reader, ended):
        for replica in ("worker-0", "worker-1"):
            # Slower than the statuses: the end is known long before the last line has come.
            await asyncio.sleep(0.02)
            yield LogLine(replica, "hello")


async def _follow(backend, lines, deadline=None, **options):
    return await follow(backend, HANDLE, emit=lines.append, deadline=deadline, **({"reader": "r"} | options))


async def test_phases_once_and_all_lines_before_the_end():
    lines = []

    assert await _follow(_Backend(RUNNING, CHANGED, RUNNING, SUCCEEDED), lines) == SUCCEEDED

    assert lines == [
        "Training job j: running.",
        "[worker-0] hello",
        "[worker-1] hello",
        "Training job j: succeeded.",
    ]


async def test_the_leaders_lines_only_or_none():
    lines, phases, ended = [], [], SUCCEEDED.model_copy(update={"replicas": (REPLICA,)})
    await _follow(_Backend(ended), lines, leader_only=True)
    await _follow(_Backend(ended), phases, reader=None)

    assert lines == ["[worker-0] hello", "Training job j: succeeded."]
    assert phases == ["Training job j: succeeded."]


async def test_the_deadline():
    soon = datetime.now(timezone.utc) + timedelta(seconds=0.05)

    with pytest.raises(JobTimeout, match="j had not ended"):
        await _follow(_Backend(RUNNING), [], deadline=soon)


@pytest.mark.parametrize("error", [TimeoutError("the network"), JobLost("gone")])
async def test_the_backends_own_errors_are_no_deadline(error):
    later = datetime.now(timezone.utc) + timedelta(seconds=30)

    with pytest.raises(type(error), match=str(error)):
        await _follow(_Backend(RUNNING, error=error), [], deadline=later)


class _Stuck(_Backend):
    """Never starts, says so once, and is gone some time after it was told to end."""

    def __init__(self, status, at_the_end):
        super().__init__(status)
        self.told, self.at_the_end = asyncio.Event(), at_the_end

    async def cancel(self, handle, reason):
        self.told.set()
        return await super().cancel(handle, reason)

    async def watch(self, handle):
        yield self.statuses[0]
        await self.told.wait()
        if isinstance(self.at_the_end, JobLost):
            raise self.at_the_end
        yield self.at_the_end

    async def logs(self, handle, reader, ended):
        await self.told.wait()
        yield LogLine("worker-0", "goodbye")


@pytest.mark.parametrize("at_the_end", [RUNNING.model_copy(update={"phase": JobPhase.CANCELLED}), JobLost("gone")])
async def test_a_job_that_does_not_start_in_time_is_ended_and_has_failed(at_the_end):
    late = datetime.now(timezone.utc) - timedelta(seconds=60)
    starting = JobStatus(phase=JobPhase.STARTING, queued_at=late, waiting_since=late)
    backend, lines = _Stuck(starting, at_the_end), []

    status = await _follow(backend, lines, startup_timeout=0.05)

    assert (status.phase, status.reason) == (JobPhase.FAILED, "StartupTimeout")
    assert backend.cancelled == [f"it cannot start: StartupTimeout: {status.message}"]
    assert lines == [
        "Training job j: starting.",
        "[worker-0] goodbye",
        f"Training job j: failed (StartupTimeout: {status.message}).",
    ]


async def test_a_job_that_waits_for_long_without_a_timeout_is_left_alone():
    late = datetime.now(timezone.utc) - timedelta(hours=9)
    backend = _Backend(JobStatus(phase=JobPhase.QUEUED, queued_at=late, waiting_since=late), SUCCEEDED)

    assert await _follow(backend, []) == SUCCEEDED

    assert backend.cancelled == []


async def test_nothing_is_left_running_when_the_wait_is_given_up():
    backend = _Backend(RUNNING)
    before = asyncio.all_tasks()
    wait = asyncio.ensure_future(_follow(backend, []))
    await asyncio.sleep(0.01)

    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)

    assert asyncio.all_tasks() == before


async def test_a_job_of_others_is_followed_to_the_phase_that_is_wanted_and_goes_on():
    backend = _Backend(CHANGED.model_copy(update={"phase": JobPhase.STARTING}), RUNNING)

    assert await _follow(backend, [], reader=None, only_until={JobPhase.RUNNING}) == RUNNING


async def test_a_job_of_others_that_does_not_start_is_not_ended():
    stuck = RUNNING.model_copy(update={"phase": JobPhase.STARTING, "waiting_since": NOW})
    backend = _Backend(stuck)

    # One of ours would be ended by then.
    with pytest.raises(JobTimeout):
        await _follow(
            backend,
            [],
            datetime.now(timezone.utc) + timedelta(seconds=0.3),
            startup_timeout=0.01,
            only_until={JobPhase.SUCCEEDED},
        )

    assert backend.cancelled == []


async def test_a_job_in_a_queue_has_no_reader_of_its_lines_yet():
    queued = RUNNING.model_copy(update={"phase": JobPhase.QUEUED})
    backend, lines = _Backend(queued), []
    wait = asyncio.ensure_future(_follow(backend, lines))
    await asyncio.sleep(0.1)

    assert lines == ["Training job j: queued."]
    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)


@pytest.mark.parametrize("error", [None, JobLost("gone")])
async def test_who_reads_lines_only_is_told_of_the_end(error):
    backend = _Backend(RUNNING, error=error) if error else _Backend(RUNNING, SUCCEEDED)

    async with end_of(backend, HANDLE) as ended:
        await asyncio.wait_for(ended.wait(), 5)


async def test_who_reads_lines_no_longer_watches_no_longer():
    before = asyncio.all_tasks()

    async with end_of(_Backend(RUNNING), HANDLE) as ended:
        await asyncio.sleep(0.01)
        assert not ended.is_set()

    assert asyncio.all_tasks() == before
