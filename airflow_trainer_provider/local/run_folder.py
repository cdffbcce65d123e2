"""The folder of one job, with all that is known of the job, for every process that needs it.

::

    job.json        the task that it belongs to, and the spec (written once, at submit)
    owner           the try of the task that waits for it
    state.json      its status                                (written by its supervisor only)
    cancel          why the job should end; exists once it should
    collected       exists once the outcome has reached XCom
    released        exists once no task waits for the job any more
    lock            held by the supervisor as long as it runs
    supervisor.log  the supervisor's own log
    work/           the working directory of the processes
    <attempt>/      logs/<replica>.log, results/<replica>, files/<name>, function/<path>, exits/<replica>
    readers/        how far each reader has read the logs
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.job.identity import KEY_LENGTH, Identity
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.spec import TrainJobSpec


class JobRecord(BaseModel):
    """What was submitted.

    :param uid: distinguishes the job from any other job.
    :param identity: the try of the task that submitted it.
    :param digest: of the spec.
    :param spec: what to run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uid: str
    identity: Identity
    digest: str
    spec: TrainJobSpec


@dataclass(frozen=True)
class AttemptFolders:
    """The folders of one attempt at a job.

    :param path: the attempt's own folder.
    """

    path: Path

    @property
    def logs(self) -> Path:
        """One file per replica."""
        return self.path / "logs"

    @property
    def results(self) -> Path:
        """One file per replica that wrote a result."""
        return self.path / "results"

    @property
    def files(self) -> Path:
        """The files that the framework writes for its replicas."""
        return self.path / "files"

    @property
    def function(self) -> Path:
        """The files of the job's function, where it has one."""
        return self.path / "function"

    @property
    def exits(self) -> Path:
        """Exit codes of processes that another replica's launcher started; the oldest file is that of the first
        failure.
        """
        return self.path / "exits"

    def create(self) -> None:
        """Create these folders, except that of the function."""
        for folder in (self.logs, self.results, self.files, self.exits):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class RunFolder:
    """The folder of one job.

    :param path: its name is the job's name.
    """

    path: Path

    @property
    def name(self) -> str:
        """The job's name."""
        return self.path.name

    @property
    def work(self) -> Path:
        """Where the processes start."""
        return self.path / "work"

    def create(self, record: JobRecord) -> None:
        """Create the folder as a whole or not at all. Only this user can read it: the spec may be confidential.

        :raises FileExistsError: there is a folder of that name.
        """
        if self.path.exists():
            raise FileExistsError(self.path)
        draft = self.path.with_name(f".{self.name}.{record.uid}")
        draft.mkdir(parents=True, mode=0o700)
        (draft / "work").mkdir()
        (draft / "readers").mkdir()
        (draft / "job.json").touch(mode=0o600)
        (draft / "job.json").write_text(record.model_dump_json(exclude_defaults=True))
        (draft / "owner").write_text(str(record.identity.try_number))
        draft.rename(self.path)

    def record(self) -> JobRecord:
        """What was submitted.

        :raises FileNotFoundError: the job is gone.
        """
        return JobRecord.model_validate_json((self.path / "job.json").read_bytes())

    @property
    def is_there(self) -> bool:
        """Whether the job exists. The removal of a folder begins with its record."""
        return (self.path / "job.json").exists()

    def lost(self) -> JobLost:
        """The error for a job whose folder is gone."""
        return JobLost(f"Training job {self.name} is gone: {self.path} is not there (any more).")

    @contextmanager
    def lost_if_gone(self) -> Iterator[None]:
        """Turn the error about a missing file into the loss of the job, where another process removes the folder.

        :raises JobLost: the folder is being removed, or gone.
        """
        try:
            yield
        except FileNotFoundError:
            if self.is_there:
                raise
            raise self.lost() from None

    @property
    def owner(self) -> int:
        """The try of the task that waits for the job."""
        return int((self.path / "owner").read_text())

    def hand_to(self, try_number: int) -> None:
        """Make another try of the task the owner."""
        self._replace("owner", str(try_number))
        (self.path / "released").unlink(missing_ok=True)

    def read_status(self) -> JobStatus | None:
        """The status that the supervisor wrote last; None before its first."""
        try:
            return JobStatus.model_validate_json((self.path / "state.json").read_bytes())
        except FileNotFoundError:
            return None

    def write_status(self, status: JobStatus) -> OSError | None:
        """Replace the status; a reader sees the old one or the new one, never half.

        :return: the error if it could not be written, e.g. on a full disk; None where it was written.
        :raises FileNotFoundError: the folder is gone.
        """
        try:
            self._replace("state.json", status.model_dump_json())
        except FileNotFoundError:
            raise
        except OSError as error:
            return error
        return None

    @property
    def cancel_reason(self) -> str | None:
        """Why the job should end; None while it should run."""
        try:
            return (self.path / "cancel").read_text() or "it was cancelled; the disk had no room for the reason"
        except FileNotFoundError:
            return None

    def cancel(self, reason: str) -> None:
        """Ask the supervisor to end the job. The first reason stays."""
        if self.cancel_reason is None:
            try:
                self._replace("cancel", reason)
            except FileNotFoundError:
                raise
            except OSError:
                # A full disk still takes an empty file.
                (self.path / "cancel").touch()

    @property
    def collected(self) -> bool:
        """Whether the outcome has reached XCom."""
        return self.collected_at is not None

    @property
    def collected_at(self) -> datetime | None:
        """When the outcome reached XCom; None where it has not."""
        try:
            return datetime.fromtimestamp((self.path / "collected").stat().st_mtime, timezone.utc)
        except FileNotFoundError:
            return None

    def collect(self) -> None:
        """Note that the outcome has reached XCom."""
        (self.path / "collected").touch()

    @property
    def released(self) -> bool:
        """Whether the job outlives its task."""
        return (self.path / "released").exists()

    def release(self) -> None:
        """Note that no task waits for the job any more."""
        (self.path / "released").touch()

    def attempt(self, number: int) -> AttemptFolders:
        """The folders of one attempt, counted from 0."""
        return AttemptFolders(self.path / str(number))

    def attempts(self) -> list[AttemptFolders]:
        """The attempts so far, in order."""
        numbers = sorted(int(entry.name) for entry in self.path.iterdir() if entry.name.isdigit())
        return [self.attempt(number) for number in numbers]

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the supervisor's lock while inside, if no other process does.

        The system releases it when the last process that holds it ends, however that ends.

        :return: whether it is held now.
        """
        with locked(self.path / "lock", wait=False) as held:
            yield held

    def _replace(self, name: str, text: str) -> None:
        draft = self.path / f".{name}.{os.getpid()}"
        draft.write_text(text)
        draft.replace(self.path / name)


def task_lock(root: Path, key: str) -> Path:
    """The file that a process locks while it decides what happens to the jobs of one task.

    :param root: the folder that holds the jobs.
    :param key: of the task, as :attr:`Identity.key` has it.
    """
    return root / f".{key}.lock"


def task_locks(root: Path) -> Iterator[Path]:
    """All existing lock files of tasks, without other files in the folder."""
    return root.glob(f".{'[0-9a-f]' * KEY_LENGTH}.lock")


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a lock file while inside.

    :param path: the file; made where it is missing.
    :param wait: whether to wait until another holder releases the lock.
    :return: whether the lock is held now; always True with ``wait``.
    """
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            if _is_file(file.fileno(), path):
                yield True
                return


def _is_file(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one at that path: another process may have removed it since it was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
