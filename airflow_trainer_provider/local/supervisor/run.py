"""Runs one job to its end, independently of the process that submitted it.

``python -m airflow_trainer_provider.local.supervisor.run RUN_FOLDER`` returns as soon as the supervisor runs in the
background, in a session of its own: killing the Airflow worker, or its process group, does not end it. A second
supervisor for the same folder returns at once without doing anything.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.diagnosis.causes import NOT_PREPARED, PERMANENT_EXIT_CODE
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from airflow_trainer_provider.local.checkpoints import with_checkpoint_folder
from airflow_trainer_provider.local.processes import end_all
from airflow_trainer_provider.local.run_folder import RunFolder
from airflow_trainer_provider.local.supervisor.attempt import TICK, Attempt, Outcome
from airflow_trainer_provider.local.supervisor.wakeup import Wakeup

#: Seconds before the first restart of a job; doubled for each further one.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_LOCK_TRIES = 20


class Supervisor:
    """Runs the attempts at one job.

    :param folder: the job's folder, whose lock is held.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._record = folder.record()
        self._job = with_checkpoint_folder(plan_job(self._record.spec), self._record.identity)
        self._wakeup = Wakeup()
        self._status = JobStatus(phase=JobPhase.QUEUED, queued_at=_now())
        self._is_saved = True
        seconds = self._job.spec.run_policy.active_deadline_seconds
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds

    def run(self) -> None:
        """Run the job to its end. The last status that is written shows the end, once the disk has room for it."""
        try:
            self._run()
        finally:
            # Also where the folder was removed: no other process knows of the job's processes any more.
            end_all(self._record.uid)

    def _run(self) -> None:
        self._write(started_at=_now())
        outcome = self._attempts()
        self._write(
            phase=outcome.phase,
            reason=outcome.reason,
            message=outcome.message,
            first_failed=outcome.first_failed,
            finished_at=_now(),
        )
        while not self._is_saved and not self._wakeup.terminated and not self._why_cancelled():
            self._wakeup.wait(TICK)
            self._save()

    def _attempts(self) -> Outcome:
        limit = self._job.spec.run_policy.backoff_limit
        for number in itertools.count():
            self._write(phase=JobPhase.RUNNING, reason=None, message=None, restarts=number)
            outcome = self._attempt(number)
            if outcome.first_failed is None or number == limit or outcome.reason == PERMANENT_EXIT_CODE:
                break
            seconds = min(_FIRST_PAUSE * 2**number, _LONGEST_PAUSE)
            message = f"{outcome.first_failed} failed; attempt {number + 2} of {limit + 1} begins in {seconds:g} s"
            self._write(phase=JobPhase.RESTARTING, reason=outcome.reason, message=message)
            if interruption := self._pause(seconds):
                return interruption
        return outcome

    def _attempt(self, number: int) -> Outcome:
        attempt = Attempt(
            self._job, self._record, self._folder, number, self._wakeup, self._interrupted, self._replicas
        )
        try:
            attempt.prepare()
        except FileNotFoundError:
            raise
        except OSError as error:
            return Outcome(JobPhase.FAILED, NOT_PREPARED, f"attempt {number + 1} cannot begin: {error}")
        return attempt.run()

    def _pause(self, seconds: float) -> Outcome | None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if interruption := self._interrupted():
                return interruption
            self._wakeup.wait(min(TICK, left))
        return None

    def _interrupted(self) -> Outcome | None:
        """Why the job has to end early; None where it need not."""
        if reason := self._why_cancelled():
            return Outcome(JobPhase.CANCELLED, "Cancelled", reason)
        if not self._is_saved:
            self._save()
        if self._wakeup.terminated:
            return Outcome(JobPhase.FAILED, "Terminated", "this machine asked the job's supervisor to end")
        if time.monotonic() >= self._deadline:
            seconds = self._job.spec.run_policy.active_deadline_seconds
            message = f"it had not ended {seconds:g} s after its start (run_policy.active_deadline_seconds)"
            return Outcome(JobPhase.FAILED, "DeadlineExceeded", message)
        return None

    def _why_cancelled(self) -> str | None:
        if not self._folder.path.is_dir():
            return "the job's folder was removed"
        return self._folder.cancel_reason

    def _replicas(self, replicas: tuple[ReplicaStatus, ...]) -> None:
        self._write(replicas=replicas)

    def _write(self, **changes: object) -> None:
        self._status = self._status.model_copy(update=changes)
        self._save()

    def _save(self) -> None:
        """Write the status. Where the disk is full, the job continues, and the status is written later.

        :raises FileNotFoundError: the folder was removed.
        """
        error = self._folder.write_status(self._status)
        if error and self._is_saved:
            # The supervisor's own log may be on the same disk.
            with suppress(OSError):
                print(f"{_now():%F %T} the status cannot be written; trying again: {error}", file=sys.stderr)
        self._is_saved = error is None


def _now() -> datetime:
    return datetime.now(timezone.utc)


def main(path: str) -> None:
    """Run the job in this folder in the background, unless its supervisor runs already."""
    folder = RunFolder(Path(path))
    for _ in range(_LOCK_TRIES):
        with folder.lock() as held:
            if held:
                # The child keeps the lock: it belongs to the open file, which both processes have.
                if os.fork() == 0:
                    Supervisor(folder).run()
                return
        # Another supervisor holds the lock for long; a process that checks for a supervisor holds it for a moment.
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1])
