"""Jobs on the local backend, run to their end by a test."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psutil

from airflow_trainer_provider.frameworks import get_framework, plan_job
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.processes import processes_of
from airflow_trainer_provider.spec import parse_spec

#: How long a job of a test may take, in seconds.
TIMEOUT = 450


@dataclass
class RunningJob:
    """A job that was submitted."""

    backend: LocalBackend
    handle: JobHandle
    lines: list[str] = field(default_factory=list)

    async def end(self) -> JobStatus:
        """Wait for its end; its lines are in ``lines`` then."""
        deadline = datetime.now(timezone.utc) + timedelta(seconds=TIMEOUT)
        return await follow(self.backend, self.handle, emit=self.lines.append, reader="test", deadline=deadline)

    @property
    def work(self) -> Path:
        """The folder that its processes start in."""
        return Path(self.handle.location) / self.handle.name / "work"

    def processes(self) -> list[psutil.Process]:
        """Its living processes."""
        return processes_of(self.handle.uid)


@dataclass
class EndedJob:
    """A job that has ended, and all that is known of it."""

    handle: JobHandle
    status: JobStatus
    summary: dict[str, Any]
    lines: list[str]
    diagnosis: Diagnosis
    survivors: list[psutil.Process]

    @property
    def exit_codes(self) -> dict[str, int | None]:
        """Replica name -> exit code."""
        return {replica.name: replica.exit_code for replica in self.status.replicas}


@dataclass
class Jobs:
    """The local backend over a folder of the test's own."""

    backend: LocalBackend

    async def start(self, spec: dict[str, Any]) -> RunningJob:
        """Submit a job."""
        job = plan_job(parse_spec(spec))
        self.backend.check(job)
        identity = Identity(dag_id="test", run_id=uuid.uuid4().hex, task_id="train")
        submission = await self.backend.submit(job, identity)
        return RunningJob(self.backend, submission.handle)

    async def run(self, spec: dict[str, Any]) -> EndedJob:
        """Run a job to its end."""
        return await self.ended(await self.start(spec))

    async def ended(self, running: RunningJob) -> EndedJob:
        """Wait for a job's end, and gather what is known of it."""
        status = await running.end()
        handle, framework = running.handle, get_framework(running.handle.framework)
        log = await self.backend.log_tail(handle, status.first_failed or status.replicas[0].name, 400)
        return EndedJob(
            handle=handle,
            status=status,
            summary=summarize(handle, status, await self.backend.result(handle)),
            lines=running.lines,
            diagnosis=diagnose(handle.name, framework, status, log),
            survivors=running.processes(),
        )


async def until(condition: Callable[[], bool], what: str, seconds: float = 180) -> None:
    """Wait for a condition; fail where it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not after {seconds} s: {what}"
        await asyncio.sleep(0.05)
