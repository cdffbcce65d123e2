"""Following a job: its phases once, its lines all, and its end or the caller's."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.errors import JobLost, JobTimeout
from airflow_trainer_provider.job.backend import LogLine
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
HANDLE = JobHandle(name="j", uid="u", backend="b", framework="f", leader="worker-0", owner=1, location="/l")
RUNNING = JobStatus(phase=JobPhase.RUNNING, queued_at=NOW)
CHANGED = RUNNING.model_copy(update={"replicas": (ReplicaStatus(group="worker", index=0),)})
SUCCEEDED = RUNNING.model_copy(update={"phase": JobPhase.SUCCEEDED})


class _Backend:
    def __init__(self, *statuses, error=None):
        self.statuses, self.error = statuses, error

    async def status(self, handle):
        return self.statuses[0]

    async def watch(self, handle):
        for status in self.statuses:
            yield status
        if self.error:
            raise self.error
        if not self.statuses[-1].phase.ended:
            await asyncio.Event().wait()

    async def logs(self, handle, reader):
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
    lines, phases = [], []
    await _follow(_Backend(SUCCEEDED), lines, leader_only=True)
    await _follow(_Backend(SUCCEEDED), phases, reader=None)

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
