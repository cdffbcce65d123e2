"""How a job ends is told the same way by every backend."""

from __future__ import annotations

import time

import pytest

from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis import diagnose
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.status import JobPhase


async def test_success_has_a_result_and_a_row_for_each_replica(contract):
    job = contract.case.job(
        """
        block = bytearray(40 << 20)
        pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps({"from": me, "metrics": {"loss": 0.5}}))
        """
    )

    handle, status = await contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, status
    summary = summarize(handle, status, await contract.backend.result(handle))
    assert summary["result"] == {"from": "worker-0", "metrics": {"loss": 0.5}}
    assert summary["metrics"] == {"loss": 0.5}
    assert "result_error" not in summary
    rows = [(row["group"], row["index"], row["exit_code"], row["reason"]) for row in summary["replicas"]]
    assert rows == [("worker", 0, 0, "Completed"), ("worker", 1, 0, "Completed")]
    if contract.case.measures_memory:
        assert all(row["peak_memory_bytes"] > 40 << 20 for row in summary["replicas"])
    assert status.queued_at <= status.started_at <= status.finished_at
    assert contract.case.processes(handle) == 0


async def test_no_result_is_no_error(contract):
    handle, status = await contract.run(contract.case.job("pass", nodes=1))

    summary = summarize(handle, status, await contract.backend.result(handle))

    assert summary["result"] is None
    assert "result_error" not in summary


async def test_a_result_that_is_too_large_is_said_to_be(contract):
    job = contract.case.job('pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text("1" * 5000)', nodes=1)

    handle, status = await contract.run(job)

    summary = summarize(handle, status, await contract.backend.result(handle))
    assert status.phase is JobPhase.SUCCEEDED
    assert summary["result"] is None
    assert "more than 4095 bytes" in summary["result_error"]


async def test_the_rank_that_raises_is_named_with_its_traceback_and_survivors_are_gone(contract):
    job = contract.case.job(
        """
        note("began-" + me)
        if me == "worker-1":
            wait_for("began-worker-0")
            raise ValueError("labels are missing")
        time.sleep(60)
        """
    )

    handle, status = await contract.run(job)

    assert (status.phase, status.first_failed) == (JobPhase.FAILED, "worker-1")
    survivor, culprit = status.replicas
    assert (culprit.exit_code, culprit.signal, culprit.reason) == (1, None, "Error")
    assert survivor.reason == "Stopped"
    assert contract.case.processes(handle) == 0
    log = await contract.backend.log_tail(handle, "worker-1", 100)
    verdict = diagnose(handle.name, get_framework("jax"), status, log)
    assert (verdict.replica, verdict.rank) == ("worker-1", 1)
    assert verdict.traceback[0] == "Traceback (most recent call last):"
    assert verdict.traceback[-1] == "ValueError: labels are missing"
    assert verdict.others == ({"replica": "worker-0", "exit_code": None, "signal": "SIGTERM", "reason": "Stopped"},)


async def test_the_end_is_told_soon_after_the_failure(contract):
    job = contract.case.job(
        """
        note("began-" + me)
        if me == "worker-1":
            wait_for("began-worker-0")
            note("failed", repr(time.time()))
            sys.exit(7)
        time.sleep(60)
        """
    )

    _, status = await contract.run(job)
    told = time.time()

    assert status.replicas[1].exit_code == 7
    assert told - float(contract.noted("failed")[0]) < contract.case.notices_within


async def test_a_signal_is_named(contract):
    _, status = await contract.run(contract.case.job("os.kill(os.getpid(), signal.SIGKILL)", nodes=1))

    assert status.phase is JobPhase.FAILED
    assert (status.replicas[0].exit_code, status.replicas[0].signal) == (None, "SIGKILL")


async def test_a_failure_starts_the_whole_job_again(contract):
    if not contract.case.restarts_all:
        pytest.skip("here a failure starts the failed replica again, and no other")
    job = contract.case.job(
        """
        note("attempts", f"{me}:{attempt}")
        print("attempt", attempt)
        if attempt == 0:
            wait_for("go")
            sys.exit(3 if me == "worker-0" else 0)
        """,
        run_policy={"backoff_limit": 1},
    )
    handle = await contract.submit(job)
    await contract.until(lambda: len(contract.noted("attempts")) == 2)
    contract.release("go")

    status = await contract.end(handle)

    assert (status.phase, status.restarts) == (JobPhase.SUCCEEDED, 1)
    assert [replica.restarts for replica in status.replicas] == [1, 1]
    assert sorted(contract.noted("attempts")) == ["worker-0:0", "worker-0:1", "worker-1:0", "worker-1:1"]
    told = [line for line in contract.lines if line.startswith("[worker-0]")]
    assert told == ["[worker-0] attempt 0", "[worker-0] attempt 1"]


async def test_restarts_come_to_an_end(contract):
    job = contract.case.job('note("attempts", "x"); sys.exit(3)', nodes=1, run_policy={"backoff_limit": 1})

    _, status = await contract.run(job)

    assert (status.phase, status.replicas[0].exit_code) == (JobPhase.FAILED, 3)
    # The Training Operator counts when it comes to look, which may be a restart late.
    most = 2 if contract.case.counts_restarts else 3
    assert 2 <= len(contract.noted("attempts")) <= most
    assert status.replicas[0].restarts == len(contract.noted("attempts")) - 1


async def test_the_active_deadline_ends_the_job(contract):
    job = contract.case.job("time.sleep(60)", nodes=1, run_policy={"active_deadline_seconds": 1.5})

    handle, status = await contract.run(job)

    assert (status.phase, status.reason, status.first_failed) == (JobPhase.FAILED, "DeadlineExceeded", None)
    assert contract.case.processes(handle) == 0


async def test_more_memory_than_the_limit_is_an_oom_kill(contract):
    job = contract.case.job(
        "block = bytearray(300 << 20); time.sleep(60)", nodes=1, resources_per_node={"memory": "100Mi"}
    )

    _, status = await contract.run(job)

    assert (status.phase, status.first_failed) == (JobPhase.FAILED, contract.case.leader)
    assert (status.replicas[0].reason, status.replicas[0].signal) == ("OOMKilled", "SIGKILL")
