"""How often the supervisor starts a job's attempts, and what comes between them, by a clock of its own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder
from airflow_trainer_provider.local.supervisor import run as supervisor
from airflow_trainer_provider.local.supervisor.attempt import Outcome
from airflow_trainer_provider.spec import parse_spec

FAILED = Outcome(JobPhase.FAILED, "Error", None, "worker-0")


@pytest.fixture
def case(tmp_path, monkeypatch):
    """Runs jobs whose attempts come to `outcome` at once; a wait takes as long as it may.

    `begun` has the time of each attempt, `statuses` what was written. `at` maps a time to what happens then.
    """
    case = SimpleNamespace(now=0.0, outcome=lambda interrupted: FAILED, begun=[], statuses=[], at={}, cannot_begin=[])
    case.folder = RunFolder(tmp_path / "job")

    class Wakeup:
        terminated = False

        def wait(self, seconds):
            case.now += seconds
            for time in [time for time in case.at if time <= case.now]:
                case.at.pop(time)()

    class Attempt:
        def __init__(self, job, record, folder, number, wakeup, interrupted, changed):
            self.interrupted = interrupted

        def prepare(self):
            if case.cannot_begin:
                raise case.cannot_begin.pop()

        def run(self):
            case.begun.append(case.now)
            return case.outcome(self.interrupted)

    def run(**policy):
        spec = parse_spec({"framework": "jax", "command": ["true"], "run_policy": policy})
        identity = Identity(dag_id="d", run_id="r", task_id="t")
        case.folder.create(JobRecord(uid="no-process-has-it", identity=identity, digest="", spec=spec))
        supervisor.Supervisor(case.folder).run()
        return case.folder.read_status()

    case.run = run
    write = RunFolder.write_status

    def recorded(folder, status):
        case.statuses.append(status)
        return write(folder, status)

    monkeypatch.setattr(RunFolder, "write_status", recorded)
    monkeypatch.setattr(supervisor, "Wakeup", Wakeup)
    monkeypatch.setattr(supervisor, "Attempt", Attempt)
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: case.now))
    return case


def test_the_pause_before_a_restart_doubles_up_to_a_minute(case):
    status = case.run(backoff_limit=8)

    pauses = [after - before for before, after in zip(case.begun, case.begun[1:], strict=False)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    restarting = [each for each in case.statuses if each.phase is JobPhase.RESTARTING]
    assert restarting[2].message == "worker-0 failed; attempt 4 of 9 begins in 4 s"
    assert (status.phase, status.restarts, status.first_failed) == (JobPhase.FAILED, 8, "worker-0")


def test_what_did_not_fail_by_itself_starts_no_second_time(case):
    case.outcome = lambda interrupted: Outcome(JobPhase.CANCELLED, "Cancelled", "enough")

    assert case.run(backoff_limit=3).phase is JobPhase.CANCELLED
    assert case.begun == [0]


def test_an_exit_code_that_is_declared_permanent_starts_no_second_attempt(case):
    case.outcome = lambda interrupted: Outcome(JobPhase.FAILED, "PermanentExitCode", None, "worker-0")

    assert case.run(backoff_limit=3, exit_codes={"fail": [3]}).reason == "PermanentExitCode"
    assert case.begun == [0]


def test_a_job_that_is_cancelled_between_two_attempts_begins_no_other(case):
    case.at = {2: lambda: case.folder.cancel("enough")}

    status = case.run(backoff_limit=3)

    assert (status.phase, status.message) == (JobPhase.CANCELLED, "enough")
    assert case.begun == [0, 1]


def test_the_deadline_counts_from_the_start_of_the_first_attempt(case):
    status = case.run(backoff_limit=9, active_deadline_seconds=5)

    assert (status.phase, status.reason) == (JobPhase.FAILED, "DeadlineExceeded")
    assert case.begun == [0, 1, 3]
    assert case.now == 5


def test_an_attempt_is_interrupted_at_the_deadline_and_not_before(case):
    def outcome(interrupted):
        case.now = 4.9
        assert interrupted() is None
        case.now = 5
        return interrupted()

    case.outcome = outcome

    assert case.run(active_deadline_seconds=5).reason == "DeadlineExceeded"


def test_a_status_that_the_disk_had_no_room_for_is_written_while_the_job_runs(case, monkeypatch):
    is_full, write = [True], RunFolder.write_status
    monkeypatch.setattr(
        RunFolder,
        "write_status",
        lambda folder, status: OSError(28, "full") if is_full[0] else write(folder, status),
    )
    seen = []

    def outcome(interrupted):
        seen.append(case.folder.read_status())
        is_full[0] = False
        interrupted()
        seen.append(case.folder.read_status().phase)
        return FAILED

    case.outcome = outcome

    assert case.run().phase is JobPhase.FAILED
    assert seen == [None, JobPhase.RUNNING]


def test_a_supervisor_that_is_asked_to_end_does_not_wait_for_room_on_the_disk(case, monkeypatch):
    monkeypatch.setattr(RunFolder, "write_status", lambda folder, status: OSError(28, "full"))
    case.at = {10: lambda: setattr(supervisor.Wakeup, "terminated", True)}

    assert case.run() is None
    assert case.now == 10


def test_an_attempt_that_cannot_write_its_files_has_a_reason_of_its_own(case):
    case.cannot_begin = [OSError(28, "No space left on device")]

    status = case.run(backoff_limit=3)

    assert (status.phase, status.reason) == (JobPhase.FAILED, "PreparationFailed")
    assert status.message == "attempt 1 cannot begin: [Errno 28] No space left on device"
    assert case.begun == []


def test_a_job_that_is_cancelled_while_its_end_cannot_be_written_has_no_supervisor_any_more(case, monkeypatch):
    monkeypatch.setattr(RunFolder, "write_status", lambda folder, status: OSError(28, "full"))
    case.at = {10: lambda: case.folder.cancel("enough")}

    assert case.run() is None
    assert case.now == 10
