"""What a backend must bring to be held to the contract: a way to run a snippet of Python, and to see its traces."""

from __future__ import annotations

import asyncio
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Protocol

import pytest

from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.processes import end_all, processes_of, send
from airflow_trainer_provider.local.run_folder import RunFolder
from airflow_trainer_provider.spec import parse_spec

PRELUDE = """\
import json, os, pathlib, signal, subprocess, sys, time
me, attempt = os.environ["TRAINER_REPLICA"], int(os.environ.get("TRAINER_ATTEMPT", "0"))
shared = pathlib.Path(os.environ["SHARED"])

def note(name, text=""):
    with (shared / name).open("a") as file:
        file.write(text + "\\n")

def wait_for(name):
    while not (shared / name).exists():
        time.sleep(0.01)
"""


class BackendCase(Protocol):
    """One backend, as the suite sees it. A cluster's runs the snippet in an image that has Python.

    :param backend: what is tested.
    :param shared: a folder that the test and the replicas both see.
    :param leader: the replica that holds rank 0.
    :param timeout: no test waits longer for anything: a contract that takes longer is broken; seconds.
    :param pause: between two looks at what a test waits for; seconds.
    :param notices_within: how soon after a replica's failure the job's end is reported, also on a machine that stalls;
        seconds.
    :param measures_memory: whether it reports the peak memory of a replica.
    :param restarts_all: whether a failure starts the whole job again, and not the failed replica only.
    :param restarts_by_exit_code: whether a restart may depend on the exit code.
    :param adds_restarts_up: whether the restarts of all replicas together are bounded.
    :param asks_to_end: whether an interruption begins with SIGTERM, and the grace period.
    """

    backend: Backend
    shared: Path
    leader: str
    timeout: float
    pause: float
    notices_within: float
    measures_memory: bool
    restarts_all: bool
    restarts_by_exit_code: bool
    adds_restarts_up: bool
    asks_to_end: bool

    def job(self, snippet: str, nodes: int = 2, **fields: Any) -> JobPlan:
        """A job whose every replica runs the snippet; ``me``, ``attempt``, ``note`` and ``wait_for`` are defined."""

    def processes(self, handle: JobHandle) -> int:
        """How many processes (or pods) of the job there are."""

    def interrupt(self, handle: JobHandle) -> None:
        """Take the job's first process (or pod) away, as no fault of its own."""

    def clear(self) -> None:
        """Leave nothing behind."""


@dataclass
class LocalCase:
    root: Path
    shared: Path
    keep: timedelta | None = None
    backend: LocalBackend = field(init=False)
    leader = "worker-0"
    timeout = 60
    pause = 0.02
    notices_within = 20
    measures_memory = True
    restarts_all = True
    restarts_by_exit_code = True
    adds_restarts_up = False
    asks_to_end = False

    def __post_init__(self) -> None:
        self.backend = LocalBackend(self.root, poll_interval=0.05, keep=self.keep)

    def job(self, snippet: str, nodes: int = 2, **fields: Any) -> JobPlan:
        script = PRELUDE + textwrap.dedent(snippet)
        policy = {"grace_period_seconds": 2, **fields.pop("run_policy", {})}
        values = {
            "framework": "jax",
            "num_nodes": nodes,
            "command": [sys.executable, "-c", script],
            "env": {"SHARED": str(self.shared), **fields.pop("env", {})},
            "run_policy": policy,
        }
        job = plan_job(parse_spec(values | fields))
        self.backend.check(job)
        return job

    def processes(self, handle: JobHandle) -> int:
        return len(processes_of(handle.uid))

    def interrupt(self, handle: JobHandle) -> None:
        send(processes_of(handle.uid)[:1], signal.SIGKILL)

    def folder(self, handle: JobHandle) -> RunFolder:
        return RunFolder(self.root / handle.name)

    def clear(self) -> None:
        # Supervisors first notice that they should end, then what they started is killed.
        for entry in self.root.glob("*/job.json"):
            folder = RunFolder(entry.parent)
            folder.cancel("the test is over")
            end_all(folder.record().uid)


@dataclass
class Contract:
    """A backend, and the handful of steps that every test is made of.

    :param case: the backend.
    :param task: the task that the jobs are of; of one task there is one job at a time.
    """

    case: Any
    task: str = "train"
    lines: list[str] = field(default_factory=list)

    @property
    def backend(self) -> Backend:
        return self.case.backend

    def identity(self, try_number: int = 1, **fields: object) -> Identity:
        return Identity(dag_id="contract", run_id="run", task_id=self.task, try_number=try_number, **fields)

    async def submit(self, job: JobPlan, try_number: int = 1) -> JobHandle:
        submission = await self.backend.submit(job, self.identity(try_number))
        return submission.handle

    async def end(
        self, handle: JobHandle, reader: str | None = "contract", startup_timeout: float | None = None
    ) -> JobStatus:
        deadline = datetime.now(timezone.utc) + timedelta(seconds=self.case.timeout)
        return await follow(
            self.backend,
            handle,
            emit=self.lines.append,
            reader=reader,
            deadline=deadline,
            startup_timeout=startup_timeout,
        )

    async def run(self, job: JobPlan, try_number: int = 1) -> tuple[JobHandle, JobStatus]:
        handle = await self.submit(job, try_number)
        return handle, await self.end(handle)

    async def cancelled(self, handle: JobHandle, reason: str = "the test wants it") -> JobStatus:
        """Cancel the job while it is followed, and return its last status."""
        following = asyncio.ensure_future(self.end(handle))
        await self.until(lambda: f"Training job {handle.name}: running." in self.lines)
        assert await self.backend.cancel(handle, reason)
        return await following

    async def was_cancelled(self, handle: JobHandle) -> bool:
        """Whether the job was cancelled; a backend may keep nothing of such a job."""
        try:
            return (await self.backend.status(handle)).phase is JobPhase.CANCELLED
        except JobLost:
            return True

    async def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + self.case.timeout
        while not condition():
            assert time.monotonic() < end, "it has not come true"
            await asyncio.sleep(self.case.pause)

    def noted(self, name: str) -> list[str]:
        file = self.case.shared / name
        return file.read_text().split() if file.exists() else []

    def release(self, name: str) -> None:
        (self.case.shared / name).touch()


@pytest.fixture
def local_case(tmp_path: Path) -> Iterator[LocalCase]:
    (tmp_path / "shared").mkdir()
    case = LocalCase(tmp_path / "jobs", tmp_path / "shared")
    yield case
    case.clear()


@pytest.fixture(params=[pytest.param("local_case", id="local", marks=pytest.mark.local)])
def backend_case(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def contract(backend_case: Any) -> Contract:
    return Contract(backend_case)
