"""What the tests of cluster backends do with jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.status import JobPhase
from tests.contract.conftest import Contract


async def running(contract: Contract, handle: JobHandle) -> None:
    """Wait until somebody who follows the job has seen it run, and its script has begun."""
    await contract.until((contract.case.shared / "began").exists)
    await contract.until(lambda: f"Training job {handle.name}: running." in contract.lines)


async def verdict(
    contract: Contract,
    job: Job,
    then: Callable[[JobHandle], Awaitable[None]] | None = None,
    startup_timeout: float | None = None,
) -> Diagnosis:
    """Run a job that fails, and say why it did, as a task would.

    :param then: what happens to the job meanwhile.
    """
    handle = await contract.submit(job)
    waiting = follow(
        contract.backend,
        handle,
        emit=contract.lines.append,
        reader="verdict",
        deadline=None,
        startup_timeout=startup_timeout,
    )
    following = asyncio.ensure_future(asyncio.wait_for(waiting, contract.case.patience))
    if then:
        await then(handle)
    status = await following
    assert status.phase is JobPhase.FAILED, status
    replica = status.first_failed
    log = await contract.backend.log_tail(handle, replica, 400) if replica else []
    diagnosis = diagnose(handle.name, get_framework("jax"), status, log)
    assert contract.case.processes(handle) == 0
    return diagnosis
