"""What becomes of a job once its outcome is safe."""

from __future__ import annotations

import asyncio
import json

import pytest

from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase

_TRAIN = 'note("trained-" + sys.argv[1], me)'


def _task(name, try_number=1):
    return Identity(dag_id="contract", run_id="run", task_id=name, try_number=try_number)


async def test_a_job_is_kept_as_asked_and_a_kept_one_is_not_taken_for_the_next_runs(contract):
    case = contract.case
    kept = case.job(_TRAIN, nodes=1, args=["kept"], on_finish_action="keep")
    jobs = {
        "kept": kept,
        "deleted": case.job(_TRAIN, nodes=1, args=["deleted"], on_finish_action="delete_succeeded"),
        "failed": case.job("sys.exit(3)", nodes=1, on_finish_action="delete_succeeded"),
    }
    submissions = await asyncio.gather(*(contract.backend.submit(job, _task(name)) for name, job in jobs.items()))
    handles = dict(zip(jobs, (each.handle for each in submissions), strict=True))
    statuses = await asyncio.gather(*map(contract.end, handles.values()))
    assert [status.phase for status in statuses] == [JobPhase.SUCCEEDED, JobPhase.SUCCEEDED, JobPhase.FAILED]
    # Until its outcome is safe, no job goes.
    assert all(map(case.main, handles.values()))

    for handle in handles.values():
        await contract.backend.acknowledge(handle)

    await contract.until(lambda: not case.main(handles["deleted"]))
    assert case.main(handles["kept"])
    assert case.main(handles["failed"])
    # As when the task is cleared.
    again = (await contract.backend.submit(kept, _task("kept", 2))).handle
    assert again.uid != handles["kept"].uid
    assert (await contract.end(again)).phase is JobPhase.SUCCEEDED
    assert len(contract.noted("trained-kept")) == 2


async def test_a_kept_job_goes_when_its_time_is_over_and_not_before_its_outcome_is_safe(contract):
    if contract.backend.name == "trainer":
        pytest.skip("nothing in the cluster can delete a TrainJob after a while, and the field is refused")
    policy = {"ttl_seconds_after_finished": 1}
    handle, status = await contract.run(contract.case.job("pass", nodes=1, on_finish_action="keep", run_policy=policy))
    await asyncio.sleep(4)
    assert status.phase is JobPhase.SUCCEEDED
    main = contract.case.main(handle)
    assert "ttlSecondsAfterFinished" not in json.dumps(main["spec"])
    assert "ownerReferences" not in main["metadata"]

    await contract.backend.acknowledge(handle)

    await contract.until(lambda: not contract.case.main(handle))
    await contract.until(lambda: not contract.case.pods(handle))


async def test_the_pods_of_a_kept_job_go_once_its_outcome_is_safe(contract):
    policy = {"clean_pods": "All"}
    handle, status = await contract.run(contract.case.job("pass", nodes=1, on_finish_action="keep", run_policy=policy))
    assert status.phase is JobPhase.SUCCEEDED
    assert contract.case.pods(handle)

    await contract.backend.acknowledge(handle)

    await contract.until(lambda: not contract.case.pods(handle))
    assert (await contract.backend.status(handle)).phase is JobPhase.SUCCEEDED
    # No controller makes them again.
    await asyncio.sleep(3)
    assert not contract.case.pods(handle)
