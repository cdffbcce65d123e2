"""Two tries that look for a job at the same moment and find none."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.job.status import JobPhase

pytestmark = pytest.mark.no_second_chance


async def test_of_two_tries_at_once_the_later_one_has_the_job(contract):
    job = contract.case.job('wait_for("go"); note("trained", me)', nodes=1)

    first, second = await asyncio.gather(
        contract.backend.submit(job, contract.identity(1)),
        contract.backend.submit(job, contract.identity(2)),
        return_exceptions=True,
    )

    handle = second.handle
    if isinstance(first, BaseException):
        assert isinstance(first, SubmitError), first
        assert "is out of date" in str(first)
    elif first.handle.uid != handle.uid:
        assert await contract.was_cancelled(first.handle)
    contract.release("go")
    assert (await contract.end(handle)).phase is JobPhase.SUCCEEDED
    assert contract.noted("trained") == [contract.case.leader]
