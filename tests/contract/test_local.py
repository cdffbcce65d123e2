"""What only the local backend has to survive: the loss of its own parts."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import psutil
import pytest

from airflow_trainer_provider.errors import JobLost, SubmitError
from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.processes import processes_of
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder, locked
from airflow_trainer_provider.local.supervisor.run import main
from tests.contract.conftest import Contract

pytestmark = pytest.mark.local

_WAIT = 'note("trained", me); wait_for("go")'


@pytest.fixture
def contract(local_case):
    return Contract(local_case)


def _supervisor(folder: RunFolder) -> psutil.Process:
    return next(
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] and process.info["cmdline"][-1] == str(folder.path)
    )


async def test_a_killed_supervisor_is_noticed_and_leaves_nothing(contract):
    job = contract.case.job(_WAIT)
    first = await contract.submit(job, 1)
    await contract.until(lambda: len(contract.noted("trained")) == 2)
    _supervisor(contract.case.folder(first)).send_signal(signal.SIGKILL)

    status = await contract.end(first)

    assert (status.phase, status.reason) == (JobPhase.FAILED, "SupervisorLost")
    assert contract.case.processes(first) == 0
    contract.release("go")
    second, status = await contract.run(job, 2)
    assert second.uid != first.uid
    assert status.phase is JobPhase.SUCCEEDED


async def test_a_supervisor_that_is_asked_to_end_ends_its_job(contract):
    handle = await contract.submit(contract.case.job(_WAIT))
    await contract.until(lambda: len(contract.noted("trained")) == 2)
    _supervisor(contract.case.folder(handle)).terminate()

    status = await contract.end(handle)

    assert (status.phase, status.reason) == (JobPhase.FAILED, "Terminated")
    assert contract.case.processes(handle) == 0


@contextmanager
def _full_disk(pid: int):
    """No file of a process can be written, as on a full disk. Those of processes that it has started can."""
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


async def test_a_full_disk_ends_no_job_and_its_end_is_written_once_there_is_room(contract):
    handle = await contract.submit(contract.case.job('note("trained", me); wait_for(me)'))
    await contract.until(lambda: len(contract.noted("trained")) == 2)
    folder = contract.case.folder(handle)
    with _full_disk(_supervisor(folder).pid):
        contract.release("worker-0")
        await contract.until(lambda: len(processes_of(handle.uid)) == 1)
        await asyncio.sleep(2)  # by then it would have ended the other
        assert len(processes_of(handle.uid)) == 1
        contract.release("worker-1")
        await contract.until(lambda: not processes_of(handle.uid))
        await asyncio.sleep(2)
        assert (await contract.backend.status(handle)).phase is JobPhase.RUNNING

    status = await contract.end(handle)

    assert [(row.name, row.reason) for row in status.replicas] == [("worker-0", "Completed"), ("worker-1", "Completed")]
    assert status.phase is JobPhase.SUCCEEDED


async def test_a_job_is_cancelled_although_the_disk_has_no_room_for_the_reason(contract):
    handle = await contract.submit(contract.case.job(_WAIT))
    await contract.until(lambda: len(contract.noted("trained")) == 2)

    with _full_disk(os.getpid()):
        assert await contract.backend.cancel(handle, "enough")

    status = await contract.end(handle)
    assert status.phase is JobPhase.CANCELLED
    assert status.message == "it was cancelled; the disk had no room for the reason"
    assert contract.case.processes(handle) == 0


async def test_a_lost_supervisor_is_noticed_also_where_the_disk_has_no_room_for_the_note(contract):
    handle = await contract.submit(contract.case.job(_WAIT))
    await contract.until(lambda: len(contract.noted("trained")) == 2)
    _supervisor(contract.case.folder(handle)).send_signal(signal.SIGKILL)

    with _full_disk(os.getpid()):
        assert (await contract.end(handle)).reason == "SupervisorLost"

    assert contract.case.processes(handle) == 0
    assert (await contract.backend.status(handle)).reason == "SupervisorLost"


@pytest.mark.no_second_chance
async def test_a_job_whose_submitter_was_killed_in_between_is_started_by_the_next_try(contract):
    job = contract.case.job('note("trained", me)', nodes=1)
    identity = contract.identity(1)
    contract.case.root.mkdir()
    folder = RunFolder(contract.case.root / identity.job_name())
    folder.create(JobRecord(uid="ab12", identity=identity, digest=spec_digest(job.spec), spec=job.spec))

    handle, status = await contract.run(job, 2)

    assert (handle.uid, status.phase) == ("ab12", JobPhase.SUCCEEDED)
    assert contract.noted("trained") == ["worker-0"]


async def test_a_job_that_had_no_room_for_its_first_status_is_not_started_again(contract):
    job = contract.case.job(_WAIT)
    handle = await contract.submit(job, 1)
    await contract.until(lambda: len(contract.noted("trained")) == 2)
    folder = contract.case.folder(handle)
    supervisor = _supervisor(folder)
    supervisor.kill()
    supervisor.wait()
    (folder.path / "state.json").unlink()
    contract.release("go")

    second, status = await contract.run(job, 2)

    assert second.uid != handle.uid
    assert folder.read_status().reason == "SupervisorLost"
    assert status.phase is JobPhase.SUCCEEDED
    assert len(contract.noted("trained")) == 4


@pytest.mark.no_second_chance
async def test_a_second_supervisor_does_nothing(contract):
    handle = await contract.submit(contract.case.job(_WAIT, nodes=1))
    await contract.until(lambda: contract.noted("trained"))

    main(str(contract.case.folder(handle).path))

    contract.release("go")
    assert (await contract.end(handle)).phase is JobPhase.SUCCEEDED
    assert contract.noted("trained") == ["worker-0"]


async def test_a_job_without_its_folder_is_lost_and_its_processes_end(contract):
    handle = await contract.submit(contract.case.job(_WAIT))
    await contract.until(lambda: len(contract.noted("trained")) == 2)

    shutil.rmtree(contract.case.folder(handle).path)

    with pytest.raises(JobLost, match=handle.name):
        await contract.end(handle)
    await contract.until(lambda: not processes_of(handle.uid))


async def test_folders_go_when_their_time_is_over(contract):
    handle, _ = await contract.run(contract.case.job("pass", nodes=1))
    running = await contract.submit(contract.case.job(_WAIT, nodes=1), 2)
    folder = contract.case.folder(handle)
    other = Identity(dag_id="another", run_id="run", task_id="train")

    def keeping(days: float) -> LocalBackend:
        return LocalBackend(contract.case.root, 0.05, timedelta(days=days))

    await keeping(1).submit(contract.case.job("pass", nodes=1), other)
    assert folder.path.exists()
    status = folder.read_status()
    folder.write_status(status.model_copy(update={"finished_at": datetime.now(timezone.utc) - timedelta(days=2)}))
    await keeping(1).submit(contract.case.job("pass", nodes=1), other)

    assert not folder.path.exists()
    assert contract.case.folder(running).path.exists()
    with pytest.raises(JobLost):
        await contract.backend.status(handle)
    contract.release("go")


async def test_a_folder_goes_when_its_jobs_own_time_is_over_and_not_before_its_outcome_is_safe(contract):
    policy = {"ttl_seconds_after_finished": 60}
    handle, _ = await contract.run(contract.case.job("pass", nodes=1, run_policy=policy))
    folder = contract.case.folder(handle)
    other = Identity(dag_id="another", run_id="run", task_id="train")

    async def is_there_after_another_submit() -> bool:
        await contract.backend.submit(contract.case.job("pass", nodes=1), other)
        return folder.path.exists()

    assert await is_there_after_another_submit()
    await contract.backend.acknowledge(handle)
    assert await is_there_after_another_submit()
    an_hour_ago = time.time() - 3600
    os.utime(folder.path / "collected", (an_hour_ago, an_hour_ago))
    assert not await is_there_after_another_submit()


async def test_restarts_wait_for_twice_as_long_each_time(contract):
    job = contract.case.job('note("begun", repr(time.time())); sys.exit(3)', nodes=1, run_policy={"backoff_limit": 2})

    await contract.run(job)

    first, second, third = map(float, contract.noted("begun"))
    assert second - first >= 1
    assert third - second >= 2
    # The time that an attempt itself takes comes on top.
    assert third - first < 3 + 60


async def test_jobs_survive_the_group_of_the_process_that_submitted_them(contract):
    handle = await contract.submit(contract.case.job(_WAIT))
    await contract.until(lambda: len(contract.noted("trained")) == 2)

    supervisor = _supervisor(contract.case.folder(handle))

    assert os.getpgid(supervisor.pid) != os.getpgid(0)
    assert os.getsid(supervisor.pid) != os.getsid(0)
    for process in processes_of(handle.uid):
        assert os.getsid(process.pid) == process.pid
    contract.release("go")
    await contract.end(handle)


async def test_only_this_user_sees_into_the_folders(contract):
    handle, _ = await contract.run(contract.case.job("pass", nodes=1))

    folder = contract.case.folder(handle).path
    assert folder.stat().st_mode & 0o077 == 0
    # It contains the spec with its variables.
    assert (folder / "job.json").stat().st_mode & 0o077 == 0


async def test_a_root_that_cannot_be_made_is_named(contract, tmp_path):
    (tmp_path / "file").touch()
    backend = LocalBackend(tmp_path / "file" / "jobs", 0.05, None)

    with pytest.raises(SubmitError, match=r"\[trainer\] local_root"):
        await backend.submit(contract.case.job("pass"), contract.identity())


async def test_a_program_that_vanished_after_the_check_has_a_reason_of_its_own(contract, tmp_path):
    program = tmp_path / "train"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    job = contract.case.job("pass", nodes=1, command=[str(program)])
    program.unlink()

    _, status = await contract.run(job)

    assert (status.replicas[0].exit_code, status.replicas[0].reason) == (127, "CommandNotFound")


async def test_airflows_secrets_do_not_reach_the_processes(contract, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "hunter2")
    monkeypatch.setenv("AIRFLOW_CONN_DB", "postgres://user:hunter2@db")

    await contract.run(contract.case.job("print(sorted(os.environ.values()))"))

    assert "hunter2" not in "\n".join(contract.lines)
    assert len([line for line in contract.lines if line.startswith("[")]) == 2


async def test_who_only_serves_the_others_ends_with_them(contract):
    fields = {"framework": "tensorflow", "replicas": {"ps": {}}}
    handle, status = await contract.run(contract.case.job('me == "ps-0" and time.sleep(300)', nodes=1, **fields))

    assert status.phase is JobPhase.SUCCEEDED
    assert [(row.name, row.reason) for row in status.replicas] == [("chief-0", "Completed"), ("ps-0", "Stopped")]
    assert contract.case.processes(handle) == 0


async def test_what_outlives_its_replica_is_gone_before_the_next_attempt(contract):
    snippet = """
        deaf = "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        deaf += f"pathlib.Path({str(shared / 'deaf')!r}).touch(); time.sleep(300)"
        if attempt == 0:
            child = subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
            note("child", str(child.pid))
            wait_for("deaf")
            sys.exit(1)
        stat = pathlib.Path("/proc", (shared / "child").read_text().strip(), "stat")
        note("child", stat.read_text().rpartition(")")[2].split()[0] if stat.exists() else "gone")
    """
    policy = {"backoff_limit": 1, "grace_period_seconds": 0.5}

    _, status = await contract.run(contract.case.job(snippet, nodes=1, run_policy=policy))

    assert status.phase is JobPhase.SUCCEEDED
    # Z: it was killed, and no process has asked for its exit code.
    assert contract.noted("child")[1] in ("gone", "Z")


async def test_a_submit_waits_for_another_one_of_the_task(contract):
    root = contract.case.root
    root.mkdir()
    with locked(root / f".{contract.identity().key}.lock", wait=True):
        submitting = asyncio.ensure_future(contract.submit(contract.case.job("pass", nodes=1)))
        await asyncio.sleep(0.3)
        assert not list(root.glob("*/job.json"))

    assert (await contract.end(await submitting)).phase is JobPhase.SUCCEEDED


async def test_of_several_results_the_first_replicas_is_read(contract):
    write = 'pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(me))'

    handle, status = await contract.run(contract.case.job(write))

    assert status.phase is JobPhase.SUCCEEDED
    assert await contract.backend.result(handle) == b'"worker-0"'


async def test_replicas_share_a_folder_that_is_empty_at_first_and_stays_over_restarts(contract):
    train = """
        if attempt == 0:
            assert not set(os.listdir()) - {"worker-0-0", "worker-1-0"}
        pathlib.Path(f"{me}-{attempt}").touch()
        while len([each for each in os.listdir() if each.endswith(f"-{attempt}")]) < 2:
            time.sleep(0.05)
        sys.exit(3 if attempt == 0 else 0)
        """

    handle, status = await contract.run(contract.case.job(train, run_policy={"backoff_limit": 1}))

    assert status.phase is JobPhase.SUCCEEDED
    found = {each.name for each in (contract.case.folder(handle).path / "work").iterdir()}
    assert found == {"worker-0-0", "worker-1-0", "worker-0-1", "worker-1-1"}
