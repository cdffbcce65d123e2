"""The folder of a job that another process removes between any two looks of this one, as a clean-up does."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import ExitStack
from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.errors import JobLost, SubmitError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.backend import LogSelection, Wanted
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from airflow_trainer_provider.local import backend as backend_module
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder
from airflow_trainer_provider.spec import parse_spec

pytestmark = pytest.mark.timeout(60)
NOW = datetime.now(timezone.utc)
TRY = Identity(dag_id="d", run_id="r", task_id="t")
SPEC = parse_spec({"framework": "jax", "command": ["true"]})
OTHER_SPEC = parse_spec({"framework": "jax", "command": ["false"]})


async def _logs(backend, handle):
    ended = asyncio.Event()
    ended.set()
    return [line async for line in backend.logs(handle, "reader", ended)]


async def _shown(backend, handle):
    return [block async for block in backend.show_logs(handle, LogSelection())]


async def _submitted(backend, handle, spec=SPEC):
    return await backend.submit(plan_job(spec), TRY.model_copy(update={"try_number": 2}))


#: What is done, and whether it may say that the job is lost.
ACTS = {
    "status": (lambda backend, handle: backend.status(handle), True),
    "log_tail": (lambda backend, handle: backend.log_tail(handle, "worker-0", 10), True),
    "logs": (_logs, True),
    "show_logs": (_shown, True),
    "result": (lambda backend, handle: backend.result(handle), True),
    "describe": (lambda backend, handle: backend.describe(handle), True),
    "task_of": (lambda backend, handle: backend.task_of(handle), True),
    "release": (lambda backend, handle: backend.release(handle), True),
    "delete": (lambda backend, handle: backend.delete(handle, "enough", wait=False), True),
    "is_released": (lambda backend, handle: backend.is_released(handle), False),
    "acknowledge": (lambda backend, handle: backend.acknowledge(handle), False),
    "cancel": (lambda backend, handle: backend.cancel(handle, "enough"), False),
    "find": (lambda backend, handle: backend.find(TRY), False),
    "search": (lambda backend, handle: backend.search(Wanted(name=handle.name)), False),
    "overviews": (lambda backend, handle: backend.overviews(), False),
    "submit": (_submitted, False),
    "submit of another spec": (lambda backend, handle: _submitted(backend, handle, OTHER_SPEC), False),
    "end earlier": (lambda backend, handle: backend.end_earlier(TRY), False),
}


def _begin(path):
    (path / "job.json").unlink(missing_ok=True)


def _finish(path):
    shutil.rmtree(path, ignore_errors=True)


#: The job's state, and how much of its folder goes at once. A clean-up removes no folder of a job that runs.
REMOVALS = {
    "of one that runs": (JobPhase.RUNNING, _finish),
    "of one that succeeded": (JobPhase.SUCCEEDED, _finish),
    "of one that succeeded, its record first": (JobPhase.SUCCEEDED, _begin),
    "of one that failed": (JobPhase.FAILED, _finish),
    "of one that failed, its record first": (JobPhase.FAILED, _begin),
}
_METHODS = ("record", "read_status", "lock", "attempts", "cancel", "collect", "release", "hand_to")
_PROPERTIES = ("owner", "cancel_reason", "collected_at", "released")


def made(root, phase):
    """The folder of a job of try 1."""
    folder = RunFolder(root / TRY.job_name())
    folder.create(JobRecord(uid="no-process-has-it", identity=TRY, digest=spec_digest(SPEC), spec=SPEC))
    replicas = (ReplicaStatus(group="worker", index=0, started_at=NOW),)
    finished_at = NOW if phase.ended else None
    folder.write_status(JobStatus(phase=phase, queued_at=NOW, finished_at=finished_at, replicas=replicas))
    folder.attempt(0).create()
    (folder.attempt(0).logs / "worker-0.log").write_text("hello\n")
    (folder.attempt(0).results / "worker-0").write_text("{}")
    return folder


def handle_of(folder):
    place = {"backend": "local", "location": str(folder.path.parent), "uid": "no-process-has-it"}
    return JobHandle(name=folder.name, framework="jax", leader="worker-0", owner=1, **place)


def goes_before(monkeypatch, folder, number, remove):
    """Remove the folder before one of the looks at it, counted from 1; how many there were is returned, in a list."""
    looks = [0]

    def look(at):
        looks[0] += at == folder
        if looks[0] == number and at == folder:
            remove(folder.path)

    def method(original):
        def called(self, *args):
            look(self)
            return original(self, *args)

        return called

    for name in _METHODS:
        monkeypatch.setattr(RunFolder, name, method(getattr(RunFolder, name)))
    for name in _PROPERTIES:
        monkeypatch.setattr(RunFolder, name, property(method(getattr(RunFolder, name).fget)))
    return looks


@pytest.mark.parametrize(("phase", "remove"), REMOVALS.values(), ids=REMOVALS)
@pytest.mark.parametrize(("act", "may_be_lost"), ACTS.values(), ids=ACTS)
async def test_a_folder_that_goes_between_two_looks_counts_as_not_there(
    tmp_path, monkeypatch, act, may_be_lost, phase, remove
):
    monkeypatch.setattr(LocalBackend, "_start_supervisor", lambda self, folder: None)
    # One that runs and stays does not end here.
    monkeypatch.setattr(backend_module, "_END_SECONDS", -SPEC.run_policy.grace_period_seconds - 1)
    number, looks = 0, [1]
    while looks[0] >= number:
        number += 1
        root = tmp_path / str(number)
        folder = made(root, phase)
        backend = LocalBackend(root, 0.01, None)
        with monkeypatch.context() as patch, ExitStack() as supervisor:
            if phase is JobPhase.RUNNING:
                supervisor.enter_context(folder.lock())
            looks = goes_before(patch, folder, number, remove)
            try:
                await act(backend, handle_of(folder))
            except JobLost:
                assert may_be_lost
            except SubmitError:
                assert looks[0] < number
    assert number > 1


async def test_a_file_that_is_missing_in_a_folder_that_is_there_is_no_loss_of_the_job(tmp_path):
    folder = made(tmp_path, JobPhase.SUCCEEDED)
    (folder.path / "owner").unlink()

    with pytest.raises(FileNotFoundError, match="owner"):
        await LocalBackend(tmp_path, 0.01, None).acknowledge(handle_of(folder))


async def test_a_result_of_which_the_removal_has_begun_is_not_taken_for_none(tmp_path, monkeypatch):
    folder = made(tmp_path, JobPhase.SUCCEEDED)
    attempts = RunFolder.attempts

    def removed_then(self):
        found = attempts(self)
        shutil.rmtree(self.path)
        return found

    monkeypatch.setattr(RunFolder, "attempts", removed_then)

    with pytest.raises(JobLost):
        await LocalBackend(tmp_path, 0.01, None).result(handle_of(folder))
