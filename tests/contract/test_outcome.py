"""Every backend reports a job's end in the same way."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis.diagnosis import diagnose
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.job.verdict import verdict


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


async def test_a_process_has_the_variables_of_the_documentation(contract):
    names = ("TRAINER_JOB_NAME", "TRAINER_REPLICA", "TRAINER_INDEX", "TRAINER_ATTEMPT", "PYTHONUNBUFFERED")
    backend = contract.backend.name
    # With more nodes it is mpirun that starts the processes of the MPI Operator's jobs.
    replicas = ["launcher-0"] if backend == "mpi-operator" else ["worker-0", "worker-1"]
    train = f'note("variables", " ".join(os.environ.get(name, "-") for name in {names}))'

    handle, status = await contract.run(contract.case.job(train, nodes=len(replicas)))

    assert status.phase is JobPhase.SUCCEEDED, status
    attempt = "-" if backend in ("training-operator", "mpi-operator") else "0"
    indexes = ["-" if backend == "local" else replica.rpartition("-")[2] for replica in replicas]
    expected = [
        f"{handle.name} {replica} {index} {attempt} 1" for replica, index in zip(replicas, indexes, strict=True)
    ]
    assert sorted((contract.case.shared / "variables").read_text().splitlines()) == sorted(expected)


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
        time.sleep(300)
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


async def test_the_end_is_reported_soon_after_the_failure(contract):
    job = contract.case.job(
        """
        note("began-" + me)
        if me == "worker-1":
            wait_for("began-worker-0")
            note("failed", repr(time.time()))
            sys.exit(7)
        time.sleep(300)
        """
    )

    _, status = await contract.run(job)
    ended_at = time.time()

    assert status.replicas[1].exit_code == 7
    assert ended_at - float(contract.noted("failed")[0]) < contract.case.notices_within


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
    lines = [line for line in contract.lines if line.startswith("[worker-0]")]
    assert lines == ["[worker-0] attempt 0", "[worker-0] attempt 1"]


async def test_restarts_come_to_an_end(contract):
    job = contract.case.job('note("attempts", "x"); sys.exit(3)', nodes=1, run_policy={"backoff_limit": 1})

    _, status = await contract.run(job)

    assert (status.phase, status.replicas[0].exit_code) == (JobPhase.FAILED, 3)
    assert len(contract.noted("attempts")) == 2
    assert status.replicas[0].restarts == 1


@pytest.mark.parametrize("limit", [1, 2])
async def test_failures_of_all_replicas_start_each_as_often_as_the_limit_says(contract, limit):
    script = """
        note("attempts", me)
        time.sleep(1)
        sys.exit(3)
        """
    _, status = await contract.run(contract.case.job(script, run_policy={"backoff_limit": limit}))

    starts = Counter(contract.noted("attempts"))
    assert status.phase is JobPhase.FAILED
    if contract.case.adds_restarts_up:
        # Those that fail at the same moment may all start again before their restarts are counted.
        assert limit < sum(starts.values()) <= len(starts) * (limit + 1)
        assert max(starts.values()) <= limit + 1
    else:
        assert max(starts.values()) == limit + 1


async def test_an_exit_code_that_is_declared_permanent_ends_the_job(contract):
    if not contract.case.restarts_by_exit_code:
        pytest.skip("it restarts whatever the exit code, and refuses the field")
    policy = {"backoff_limit": 5, "exit_codes": {"restart": [75, 137]}}
    script = """
        note("attempts", "x")
        if attempt == 0:
            sys.exit(75)
        if attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit("the data is wrong")
        """

    handle, status = await contract.run(contract.case.job(script, nodes=1, run_policy=policy))

    assert (status.phase, status.reason, status.replicas[0].exit_code) == (JobPhase.FAILED, "PermanentExitCode", 1)
    assert len(contract.noted("attempts")) == 3
    await _assert_no_retry_can_help(contract, handle, status)


async def test_an_exit_code_that_is_declared_permanent_keeps_the_task_from_trying_again(contract):
    policy = {"exit_codes": {"fail": [3, "64-113"]}}

    handle, status = await contract.run(contract.case.job("sys.exit(3)", nodes=1, run_policy=policy))

    assert (status.phase, status.replicas[0].exit_code) == (JobPhase.FAILED, 3)
    await _assert_no_retry_can_help(contract, handle, status)


async def _assert_no_retry_can_help(contract, handle, status):
    why = await verdict(contract.backend, handle, get_framework(handle.framework), status)
    assert (why.reason, why.retry_can_help) == ("PermanentExitCode", "no")
    assert "run_policy.exit_codes" in why.way_out


async def test_the_active_deadline_ends_the_job(contract):
    job = contract.case.job("time.sleep(300)", nodes=1, run_policy={"active_deadline_seconds": 1.5})

    handle, status = await contract.run(job)
    ended_at = datetime.now(timezone.utc)

    assert (status.phase, status.reason, status.first_failed) == (JobPhase.FAILED, "DeadlineExceeded", None)
    assert contract.case.processes(handle) == 0
    # The deadline, the replicas' grace period, and the time in which an end is noticed.
    assert 1.5 <= (ended_at - status.queued_at).total_seconds() < 1.5 + 2 + contract.case.notices_within


async def test_more_memory_than_the_limit_is_an_oom_kill(contract):
    job = contract.case.job(
        "block = bytearray(300 << 20); time.sleep(300)", nodes=1, resources_per_node={"memory": "100Mi"}
    )

    _, status = await contract.run(job)

    assert (status.phase, status.first_failed) == (JobPhase.FAILED, contract.case.leader)
    assert (status.replicas[0].reason, status.replicas[0].signal) == ("OOMKilled", "SIGKILL")
