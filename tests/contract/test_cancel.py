"""A job that is asked to end is gone within its grace period, with everything that it started."""

from __future__ import annotations

import time

from airflow_trainer_provider.job.status import JobPhase

#: Seconds in which a process that was asked to end can note it, on a machine that stalls for some.
GRACE = 4


async def test_a_cancelled_job_gets_sigterm_and_is_gone(contract):
    job = contract.case.job(
        """
        # A session of its own, as a data loader or a notebook's kernel has.
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        note("children", str(child.pid))
        time.sleep(300)
        """,
        run_policy={"grace_period_seconds": 5},
    )
    handle = await contract.submit(job)
    await contract.until(lambda: len(contract.noted("children")) == 2)
    assert contract.case.processes(handle) >= 2
    asked = time.monotonic()

    status = await contract.cancelled(handle)

    assert (status.phase, status.message) == (JobPhase.CANCELLED, "the test wants it")
    assert [replica.reason for replica in status.replicas] == ["Stopped", "Stopped"]
    assert contract.case.processes(handle) == 0
    assert time.monotonic() - asked < 5 + contract.case.notices_within


async def test_what_does_not_listen_is_killed_after_the_grace_period(contract):
    job = contract.case.job(
        """
        signal.signal(signal.SIGTERM, lambda *_: note("asked"))
        note("began")
        while True:
            time.sleep(1)
        """,
        nodes=1,
        run_policy={"grace_period_seconds": GRACE},
    )
    handle = await contract.submit(job)
    await contract.until((contract.case.shared / "began").exists)
    asked = time.monotonic()

    status = await contract.cancelled(handle)

    assert (contract.case.shared / "asked").exists()
    assert (status.phase, status.replicas[0].signal) == (JobPhase.CANCELLED, "SIGKILL")
    assert contract.case.processes(handle) == 0
    assert GRACE <= time.monotonic() - asked < 2 * GRACE + contract.case.notices_within


async def test_a_process_may_use_its_grace_period(contract):
    job = contract.case.job(
        """
        def save(*_):
            time.sleep(0.5)
            note("saved")
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        note("began")
        time.sleep(300)
        """,
        nodes=1,
        run_policy={"grace_period_seconds": 60},
    )
    handle = await contract.submit(job)
    await contract.until((contract.case.shared / "began").exists)

    status = await contract.cancelled(handle)

    assert (contract.case.shared / "saved").exists()
    assert status.phase is JobPhase.CANCELLED


async def test_an_owner_that_was_superseded_ends_nothing(contract):
    job = contract.case.job('note("began"); wait_for("go")', nodes=1)
    old = await contract.submit(job, 1)
    new = await contract.submit(job, 2)

    assert not await contract.backend.cancel(old, "an old worker was notified late")
    contract.release("go")

    assert (await contract.end(new)).phase is JobPhase.SUCCEEDED
