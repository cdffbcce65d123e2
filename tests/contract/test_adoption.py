"""At most one job of a task trains, whatever its tries do."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.errors import JobLost, SubmitError
from airflow_trainer_provider.job.status import JobPhase

pytestmark = pytest.mark.no_second_chance

START, HOUR = datetime(2026, 11, 25, tzinfo=timezone.utc), timedelta(hours=1)
_TRAIN = 'note("trained", me); wait_for("go")'
_DEAF = 'signal.signal(signal.SIGTERM, signal.SIG_IGN); note("old"); time.sleep(300)'


async def test_the_next_try_adopts_a_running_job(contract):
    job = contract.case.job(_TRAIN)
    first = await contract.submit(job, 1)
    await contract.until(lambda: len(contract.noted("trained")) == 2)

    again = await contract.backend.submit(job, contract.identity(2))
    contract.release("go")
    status = await contract.end(again.handle)

    assert (again.handle.name, again.handle.uid, again.handle.owner) == (first.name, first.uid, 2)
    assert (await contract.backend.task_of(again.handle)).task_instance == contract.identity().task_instance
    assert "try 1 started it" in again.adopted
    assert status.phase is JobPhase.SUCCEEDED
    assert sorted(contract.noted("trained")) == ["worker-0", "worker-1"]


async def test_an_uncollected_result_is_taken_and_a_collected_one_is_not(contract):
    job = contract.case.job('note("trained", me)', nodes=1)
    first, _ = await contract.run(job, 1)

    second = await contract.submit(job, 2)
    assert second.uid == first.uid
    await contract.backend.acknowledge(second)
    third, status = await contract.run(job, 3)

    assert third.uid != first.uid
    assert status.phase is JobPhase.SUCCEEDED
    assert len(contract.noted("trained")) == 2


async def test_a_result_stays_when_the_wish_to_end_it_came_too_late(contract):
    job = contract.case.job('note("trained", me)', nodes=1)
    first, _ = await contract.run(job, 1)
    await contract.backend.cancel(first, "too late")

    assert (await contract.submit(job, 2)).uid == first.uid


async def test_a_job_that_was_released_belongs_to_the_next_try_again(contract):
    job = contract.case.job('wait_for("go")', nodes=1)
    first = await contract.submit(job, 1)
    await contract.backend.release(first)
    assert await contract.backend.is_released(first)

    second = await contract.submit(job, 2)

    assert second.uid == first.uid
    assert not await contract.backend.is_released(second)
    contract.release("go")
    assert (await contract.end(second)).phase is JobPhase.SUCCEEDED


async def test_a_job_that_outlived_its_task_is_no_result_of_one_that_is_cleared(contract):
    job = contract.case.job('note("trained", me)', nodes=1)
    first = (await contract.backend.submit(job, contract.identity(1, max_tries=0))).handle
    await contract.backend.release(first)
    await contract.end(first)

    cleared = await contract.backend.submit(job, contract.identity(2, max_tries=1))
    await contract.end(cleared.handle)
    retried = await contract.backend.submit(job, contract.identity(3, max_tries=1))

    assert (cleared.adopted, retried.handle.uid) == (None, cleared.handle.uid)
    assert len(contract.noted("trained")) == 2


@pytest.mark.parametrize("had_ended", [True, False], ids=["ended", "running"])
async def test_a_run_that_is_deleted_and_created_again_trains_again(contract, had_ended):
    job = contract.case.job('note("trained", me); wait_for("go")', nodes=1)
    first, second = (contract.identity(number, run_started_at=START + number * HOUR) for number in (2, 3))
    earlier = (await contract.backend.submit(job, first)).handle
    await contract.until(lambda: contract.noted("trained"))
    if had_ended:
        contract.release("go")
        await contract.end(earlier)
        (contract.case.shared / "go").unlink()

    # The tries of the new run begin with 1.
    again = await contract.backend.submit(job, second.model_copy(update={"try_number": 1}))
    with pytest.raises(SubmitError, match="try 2 is out of date"):
        await contract.backend.submit(job, first)
    # Whoever of the deleted run ends its jobs ends this one not.
    assert await contract.backend.find(first) == []
    assert [each.uid for each in await contract.backend.find(second)] == [again.handle.uid]
    contract.release("go")

    assert again.adopted is None
    assert (await contract.end(again.handle)).phase is JobPhase.SUCCEEDED
    assert contract.case.processes(earlier) == 0
    assert len(contract.noted("trained")) == 2


async def test_a_failed_job_is_tried_again(contract):
    job = contract.case.job('note("trained", me); sys.exit(1)', nodes=1)
    first, _ = await contract.run(job, 1)
    second, _ = await contract.run(job, 2)

    assert second.name != first.name
    assert len(contract.noted("trained")) == 2


async def test_a_running_job_of_another_spec_is_ended_first(contract):
    old = await contract.submit(contract.case.job('note("old"); time.sleep(300)', nodes=1), 1)
    await contract.until((contract.case.shared / "old").exists)

    new = await contract.submit(contract.case.job("pass", nodes=1), 2)

    assert await contract.was_cancelled(old)
    assert contract.case.processes(old) == 0
    assert (await contract.end(new)).phase is JobPhase.SUCCEEDED


async def test_a_job_that_is_being_ended_is_not_adopted(contract):
    job = contract.case.job(_TRAIN, nodes=1)
    first = await contract.submit(job, 1)
    await contract.backend.cancel(first, "the test wants it")

    second = await contract.submit(job, 2)

    assert second.uid != first.uid
    assert await contract.was_cancelled(first)


async def test_the_next_try_waits_for_a_job_that_is_deleted_and_goes_on(contract):
    first = await contract.submit(contract.case.job(_DEAF, nodes=1), 1)
    await contract.until((contract.case.shared / "old").exists)
    await contract.backend.cancel(first, "the task was cleared")

    second = await contract.submit(contract.case.job("pass", nodes=1), 2)

    assert contract.case.processes(first) == 0
    assert (await contract.end(second)).phase is JobPhase.SUCCEEDED


async def test_a_try_that_is_out_of_date_starts_nothing(contract):
    job = contract.case.job(_TRAIN, nodes=1)
    handle = await contract.submit(job, 2)

    with pytest.raises(SubmitError, match="try 1 is out of date"):
        await contract.submit(job, 1)

    contract.release("go")
    assert (await contract.end(handle)).phase is JobPhase.SUCCEEDED
    assert len(contract.noted("trained")) == 1


async def test_two_submits_at_once_train_once(contract):
    job = contract.case.job(_TRAIN, nodes=1)

    one, two = await asyncio.gather(contract.submit(job, 1), contract.submit(job, 1))
    contract.release("go")
    await contract.end(one)

    assert one.uid == two.uid
    assert contract.noted("trained") == [contract.case.leader]


async def test_a_handle_of_a_job_that_never_was_is_lost(contract):
    handle = await contract.submit(contract.case.job("pass", nodes=1))
    other = handle.model_copy(update={"uid": "0" * 16})

    with pytest.raises(JobLost, match=handle.name):
        await contract.backend.status(other)
    await contract.end(handle)


async def test_all_that_earlier_tries_have_ends_where_the_next_one_is_elsewhere(contract):
    first = await contract.submit(contract.case.job('note("old"); time.sleep(300)', nodes=1), 1)
    await contract.until((contract.case.shared / "old").exists)

    await contract.backend.end_earlier(contract.identity(2))

    assert contract.case.processes(first) == 0
    assert await contract.was_cancelled(first)
    assert await contract.backend.find(contract.identity(2)) == []


async def test_a_job_that_is_ending_is_waited_for_where_the_next_one_is_elsewhere(contract):
    first = await contract.submit(contract.case.job(_DEAF, nodes=1), 1)
    await contract.until((contract.case.shared / "old").exists)
    await contract.backend.cancel(first, "the task was cleared")

    await contract.backend.end_earlier(contract.identity(2))

    assert contract.case.processes(first) == 0


async def test_nothing_of_a_later_try_ends_where_one_that_is_out_of_date_is_elsewhere(contract):
    job = contract.case.job(_TRAIN, nodes=1)
    handle = await contract.submit(job, 2)

    with pytest.raises(SubmitError, match="try 1 is out of date"):
        await contract.backend.end_earlier(contract.identity(1))

    contract.release("go")
    assert (await contract.end(handle)).phase is JobPhase.SUCCEEDED


async def test_there_may_be_nothing_of_earlier_tries(contract):
    job = contract.case.job("pass", nodes=1)
    await contract.run(job, 1)

    await contract.backend.end_earlier(contract.identity(2))
    await contract.backend.end_earlier(contract.identity(3))
