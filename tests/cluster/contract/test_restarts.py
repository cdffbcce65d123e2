"""No replica is started again more often than ``backoff_limit`` says."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.status import JobPhase

_CRASHES = """
note("attempts-" + me, "x")
if me == "worker-1":
    print("attempt")
    sys.exit(3)
time.sleep(3600)
"""


@pytest.mark.parametrize("limit", [1, 2])
async def test_one_of_several_replicas_that_keeps_crashing(contract, limit):
    job = contract.case.job(_CRASHES, nodes=4, run_policy={"backoff_limit": limit})

    handle, status = await contract.run(job)

    assert (status.phase, status.first_failed) == (JobPhase.FAILED, "worker-1"), status
    assert len(contract.noted("attempts-worker-1")) == limit + 1
    assert status.replicas[1].restarts == limit
    assert status.replicas[1].exit_code == 3
    shown = contract.lines.count("[worker-1] attempt")
    # The kubelet may keep no log of a run that ends at once; a line says so.
    lost = [line for line in contract.lines if line.startswith("[worker-1] ... ") and "lines of its run" in line]
    assert shown + len(lost) == limit + 1, contract.lines
    assert contract.case.processes(handle) == 0


async def test_the_cluster_bounds_them_while_nothing_follows_the_job(contract):
    job = contract.case.job('note("attempts", "x"); sys.exit(3)', nodes=1, run_policy={"backoff_limit": 1})

    handle = await contract.submit(job)
    await contract.until(lambda: len(contract.noted("attempts")) > 1 and contract.case.processes(handle) == 0)

    # The Training Operator ends the restart that is one too many, once that has begun.
    late = contract.case.backend.name == "training-operator"
    assert 2 <= len(contract.noted("attempts")) <= 2 + late
