"""A job is found by its name, described, shown and deleted by whoever knows the name only."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.errors import JobLost, ManageError
from airflow_trainer_provider.hooks.jobs import get, overviews, until_running
from airflow_trainer_provider.job.backend import CleanUp, LogSelection
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase


async def _shown(backend, handle, **selection):
    blocks = backend.show_logs(handle, LogSelection(**selection))
    return [str(line) async for block in blocks for line in block.lines()]


async def test_a_job_is_managed_by_its_name(contract):
    backend, leader = contract.backend, contract.case.leader
    job = contract.case.job('print("hello", flush=True); note("began", me); time.sleep(300)')
    handle = await contract.submit(job)

    found, named = await get([backend], handle.name)
    assert (found, named.uid, named.location) == (backend, handle.uid, handle.location)
    assert handle.name in backend.title(named)
    with pytest.raises(JobLost, match="There is no training job called another"):
        await get([backend], "another")

    assert (await until_running(backend, named)).phase is JobPhase.RUNNING
    await contract.until(lambda: len(contract.noted("began")) == 2)
    (overview,) = [each for each in await overviews([backend]) if each.name == handle.name]
    assert (overview.running, overview.replicas, overview.framework) == (2, 2, "jax")
    assert overview.identity == contract.identity()
    assert (await backend.describe(named)).overview == overview

    assert await _shown(backend, named, replica=leader) == [f"[{leader}] hello"]
    with pytest.raises(ManageError, match="has no replica worker-7"):
        await _shown(backend, named, replica="worker-7")

    waiting = asyncio.ensure_future(contract.end(handle))
    following = asyncio.ensure_future(_shown(backend, named, follow=True))
    await contract.until(lambda: any("hello" in line for line in contract.lines))
    said = await backend.delete(named, "the test deletes it")
    assert handle.name in said
    status = await waiting
    assert (status.phase, status.message) == (JobPhase.CANCELLED, "the test deletes it")
    assert sorted(await following)[-1].endswith("hello")
    assert contract.case.processes(handle) == 0


async def test_only_jobs_that_are_over_and_whose_outcome_is_safe_are_cleaned_up(contract):
    backend = contract.backend

    async def submitted(task: str, script: str = "pass") -> JobHandle:
        identity = Identity(dag_id="contract", run_id="run", task_id=task, deployment="here")
        return (await backend.submit(contract.case.job(script, nodes=1, on_finish_action="keep"), identity)).handle

    async def names(**fields) -> set[str]:
        wanted = {"deployment": "here", "before": datetime.now(timezone.utc) + timedelta(minutes=1), **fields}
        return {each.name for each in await backend.clean_up(CleanUp(**wanted))}

    collected, waiting = await submitted("collected"), await submitted("waiting")
    runs = await submitted("runs", 'note("runs"); wait_for("go")')
    for handle in (collected, waiting):
        assert (await contract.end(handle)).phase is JobPhase.SUCCEEDED
    await backend.acknowledge(collected)
    # It is over only once it has ended.
    await backend.release(runs)
    await contract.until((contract.case.shared / "runs").exists)

    assert await names(before=datetime.now(timezone.utc) - timedelta(hours=1)) == set()
    assert await names(deployment="another") == set()
    assert await names(list_only=True) == {collected.name}
    assert (await backend.status(collected)).phase is JobPhase.SUCCEEDED
    assert await names() == {collected.name}

    left = {each.name for each in await overviews([backend])}
    assert {waiting.name, runs.name} <= left
    contract.release("go")
    assert (await contract.end(runs)).phase is JobPhase.SUCCEEDED
    assert await names() == {runs.name}


async def test_a_backend_says_whether_it_suspends_jobs(contract):
    handle = await contract.submit(contract.case.job('note("runs"); wait_for("go")', nodes=1))
    await contract.until((contract.case.shared / "runs").exists)

    suspends = contract.backend.suspend(handle)

    if contract.backend.can_suspend:
        assert await suspends
        assert (await contract.backend.status(handle)).phase is JobPhase.SUSPENDED
    else:
        with pytest.raises(ManageError):
            await suspends
