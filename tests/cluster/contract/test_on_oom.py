"""A job that ran out of memory, and the one with more that follows it within the same try."""

from __future__ import annotations

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.job.verdict import verdict
from airflow_trainer_provider.operators.failures.starts import Starts

_HOLD = 'block = bytearray(120 << 20); note("held"); wait_for("go")'


async def test_a_job_that_ran_out_of_memory_is_submitted_with_more_and_belongs_to_the_next_try(contract):
    policy = {"on_oom": {"factor": 1.5, "max": "1Gi"}}
    job = contract.case.job(_HOLD, nodes=1, resources_per_node={"memory": "100Mi"}, run_policy=policy)
    first, status = await contract.run(job)
    outcome = JobOutcome(failure=await verdict(contract.backend, first, job.framework, status))
    assert outcome.failure.reason == "OOMKilled"
    await contract.backend.acknowledge(first)

    another = Starts().following(outcome, job, plan_job)
    identity, start = contract.identity(), another.starts.count
    second = (await contract.backend.submit(another.job, identity, start=start)).handle
    await contract.until((contract.case.shared / "held").exists)

    assert (second.name, start) == (f"{first.name}-2", 2)
    # An MPI launcher has no limits of the nodes that train.
    assert [each["memory"] for each in contract.case.limits(second) if each] == ["150Mi"]
    # The next try asks for what the first has asked for.
    adopted = await contract.backend.submit(job, contract.identity(2))
    assert (adopted.handle.uid, adopted.adopted) == (second.uid, "try 1 started it, and it still runs")
    contract.release("go")
    assert (await contract.end(adopted.handle)).phase is JobPhase.SUCCEEDED
