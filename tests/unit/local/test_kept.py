"""Folders whose removal has begun: another process is at it, or was killed in the middle."""

from __future__ import annotations

import os
import shutil
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.backend import CleanUp
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.local import kept
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder, locked, task_lock
from airflow_trainer_provider.spec import parse_spec

NOW = datetime.now(timezone.utc)
IDENTITY = Identity(dag_id="d", run_id="r", task_id="t", deployment="here")
SPEC = parse_spec({"framework": "jax", "command": ["true"], "run_policy": {"ttl_seconds_after_finished": 0}})
WANTED = CleanUp("here", NOW + timedelta(minutes=1))


@pytest.fixture
def folder(tmp_path):
    """The folder of a job that has ended, and whose outcome is safe."""
    folder = RunFolder(tmp_path / IDENTITY.job_name())
    folder.create(JobRecord(uid="no-process-has-it", identity=IDENTITY, digest="", spec=SPEC))
    folder.write_status(JobStatus(phase=JobPhase.SUCCEEDED, queued_at=NOW, finished_at=NOW))
    folder.collect()
    return folder


def handle_of(folder):
    place = {"backend": "local", "location": str(folder.path.parent)}
    owner = {"framework": "jax", "leader": "worker-0", "owner": 1}
    return JobHandle(name=folder.name, uid=folder.record().uid, **place, **owner)


@pytest.mark.parametrize("gone", [["job.json"], ["job.json", "collected", "owner"]])
def test_the_next_submit_finishes_a_removal(folder, gone):
    for name in gone:
        (folder.path / name).unlink()

    assert kept.clean_up(folder.path.parent, None, WANTED) == []
    kept.prune(folder.path.parent, None)

    assert not folder.path.exists()


async def test_a_submit_passes_over_a_job_of_its_task_that_is_being_removed(folder):
    for name in ("job.json", "state.json"):
        (folder.path / name).unlink()
    backend = LocalBackend(folder.path.parent, 0.05, None)

    submission = await backend.submit(plan_job(SPEC), IDENTITY)

    assert submission.adopted is None
    assert submission.handle.name == f"{folder.name}-2"


@pytest.mark.parametrize("remove", [kept.prune, lambda root, keep: kept.clean_up(root, keep, WANTED)])
def test_two_processes_may_remove_one_folder(folder, monkeypatch, remove):
    read = RunFolder.read_status

    def read_before_it_goes(folder):
        status = read(folder)
        shutil.rmtree(folder.path, ignore_errors=True)
        return status

    monkeypatch.setattr(RunFolder, "read_status", read_before_it_goes)

    remove(folder.path.parent, None)

    assert not folder.path.exists()


async def test_the_folder_of_a_failed_job_goes_whose_task_was_over_before_it_collected_the_outcome(folder):
    (folder.path / "collected").unlink()
    folder.write_status(folder.read_status().model_copy(update={"phase": JobPhase.FAILED}))
    kept.prune(folder.path.parent, None)
    assert folder.path.exists()
    backend = LocalBackend(folder.path.parent, 0.05, None)

    await backend.cancel(handle_of(folder), "the task is failed")

    assert folder.collected
    kept.prune(folder.path.parent, None)
    assert not folder.path.exists()


@pytest.mark.parametrize("remove", [kept.prune, lambda root, keep: kept.clean_up(root, keep, WANTED)])
@pytest.mark.parametrize(("phase", "goes"), [(JobPhase.CANCELLED, True), (JobPhase.FAILED, False)])
def test_the_folder_of_a_cancelled_job_goes_as_no_task_collects_it(folder, remove, phase, goes):
    (folder.path / "collected").unlink()
    folder.write_status(folder.read_status().model_copy(update={"phase": phase}))

    remove(folder.path.parent, None)

    assert folder.path.exists() != goes


def test_a_removal_that_is_interrupted_leaves_no_job_and_its_status(folder, monkeypatch):
    def killed(path, ignore_errors):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kept.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            kept.prune(folder.path.parent, None)
    assert not (folder.path / "job.json").exists()
    assert folder.read_status() is not None

    kept.prune(folder.path.parent, None)

    assert not folder.path.exists()


def test_lock_files_that_no_process_holds_are_removed(tmp_path):
    free, held = (task_lock(tmp_path, key) for key in ("0123456789", "abcdef0123"))
    foreign = tmp_path / ".foreign.lock"
    free.touch()
    foreign.touch()

    with locked(held, wait=True):
        kept.prune(tmp_path, None)

        assert set(tmp_path.iterdir()) == {held, foreign}


async def test_a_submit_removes_the_lock_files_that_earlier_ones_have_left(tmp_path):
    backend = LocalBackend(tmp_path, 0.05, None)
    tasks = [IDENTITY.model_copy(update={"task_id": task}) for task in ("first", "second", "third")]
    first, second, held = (task_lock(tmp_path, task.key) for task in tasks)

    with locked(held, wait=True):
        await backend.submit(plan_job(SPEC), tasks[0])
        assert first.exists()
        await backend.submit(plan_job(SPEC), tasks[1])

        assert set(tmp_path.glob(".*.lock")) == {second, held}


def test_the_lock_file_of_a_task_is_found_by_its_name(tmp_path):
    identity = Identity(dag_id="d", run_id="r", task_id="t", try_number=1, deployment="prod")
    task_lock(tmp_path, identity.key).touch()

    kept.prune(tmp_path, None)

    assert not list(tmp_path.iterdir())


def test_who_waits_for_a_lock_file_that_is_removed_meanwhile_locks_another(tmp_path):
    file, order = tmp_path / ".task.lock", []

    def wait():
        with locked(file, wait=True):
            order.append("waited")
            with locked(file, wait=False) as free:
                order.append(free)

    with locked(file, wait=True):
        waiting = threading.Thread(target=wait)
        waiting.start()
        _wait_until_opened(file, 2)
        file.unlink()
        order.append("removed")
    waiting.join(60)

    assert order == ["removed", "waited", False]


def _wait_until_opened(file, times):
    """Wait until this process has opened a file so often."""
    deadline = time.monotonic() + 60
    while sum(os.path.realpath(each) == str(file) for each in Path("/proc/self/fd").iterdir()) < times:
        assert time.monotonic() < deadline
        time.sleep(0.01)
