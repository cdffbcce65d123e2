"""Decides which folders of ended jobs are kept, and removes the others."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow_trainer_provider.job.backend import CleanedUp, CleanUp
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder, locked, task_locks


def prune(root: Path, keep: timedelta | None) -> None:
    """Remove the folders of jobs whose time is over, and the lock files of tasks.

    :param root: the folder that holds them.
    :param keep: how long each of them is kept at most; None leaves that to the time to live of each job.
    """
    now = datetime.now(timezone.utc)
    for state in root.glob("*/state.json"):
        folder = RunFolder(state.parent)
        if _is_over(folder, keep, now):
            _remove(folder)
    for file in task_locks(root):
        # A lock file that a process holds is in use. A process that waits for a removed one creates another.
        with suppress(OSError), locked(file, wait=False) as held:
            if held:
                file.unlink()


def clean_up(root: Path, keep: timedelta | None, wanted: CleanUp) -> list[CleanedUp]:
    """Remove the folders of ended jobs that no task needs any more, and of jobs whose time is over.

    :param root: the folder that holds them.
    :param keep: how long each of them is kept at most; None leaves that to the time to live of each job.
    :param wanted: which jobs.
    :return: what was removed, or would be.
    """
    now, found = datetime.now(timezone.utc), []
    for state in sorted(root.glob("*/state.json")):
        folder = RunFolder(state.parent)
        try:
            status, identity = folder.read_status(), folder.record().identity
        except FileNotFoundError:
            # The removal of the folder has begun; the next submit finishes it.
            continue
        if status is None or status.finished_at is None or not status.phase.ended or not wanted.is_of(identity):
            continue
        if (_is_safe(folder, status) and status.finished_at < wanted.before) or _is_over(folder, keep, now):
            found.append(CleanedUp("local", folder.name, str(root), status.finished_at, status.phase, identity))
            if not wanted.list_only:
                _remove(folder)
    return found


def _is_over(folder: RunFolder, keep: timedelta | None, now: datetime) -> bool:
    status = folder.read_status()
    if status is None or status.finished_at is None:
        return False
    try:
        record = folder.record()
    except FileNotFoundError:
        # The removal of the folder has begun: another process is removing it, or was killed.
        return True
    return (keep is not None and now - status.finished_at > keep) or _has_lived(folder, record, status, now)


def _is_safe(folder: RunFolder, status: JobStatus) -> bool:
    """Whether no task collects the outcome of an ended job any more. A cancelled job has no outcome to collect."""
    return folder.collected or folder.released or status.phase is JobPhase.CANCELLED


def _has_lived(folder: RunFolder, record: JobRecord, status: JobStatus, now: datetime) -> bool:
    """Whether the job's time to live is over, which begins once its outcome is safe."""
    collected_at = folder.collected_at
    if collected_at is None and status.phase is JobPhase.CANCELLED:
        collected_at = status.finished_at
    ttl = record.spec.run_policy.ttl_seconds_after_finished
    return collected_at is not None and ttl is not None and now - collected_at >= timedelta(seconds=ttl)


def _remove(folder: RunFolder) -> None:
    """Remove a folder in an order that allows an interrupted removal to be detected and finished."""
    # The record is removed first: without it there is no job to adopt. The status is removed with the last files.
    with suppress(OSError):
        (folder.path / "job.json").unlink(missing_ok=True)
        for entry in list(folder.path.iterdir()):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
    shutil.rmtree(folder.path, ignore_errors=True)
