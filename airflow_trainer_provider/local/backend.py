"""The local backend: jobs as processes on this machine."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_trainer_provider.errors import JobLost, SubmitError
from airflow_trainer_provider.frameworks.layout import Job, lay_out
from airflow_trainer_provider.job.backend import LogLine, Submission
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.local.check import check, spec_job
from airflow_trainer_provider.local.environment import inherited_environment
from airflow_trainer_provider.local.logs import LogReader, tail
from airflow_trainer_provider.local.processes import end_all
from airflow_trainer_provider.local.render import render
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder, locked

if TYPE_CHECKING:
    from airflow_trainer_provider.kinds.manifest import ManifestJob

#: What a job may need to be gone after its grace period, in seconds.
_END_SECONDS = 15
_LINES_AT_ONCE = 100


class LocalBackend:
    """Jobs as processes on this machine.

    :param root: the folder that holds the jobs' folders.
    :param poll_interval: how often a job's state and logs are looked at, in seconds.
    :param keep: how long the folder of an ended job is kept; None keeps it for ever.
    """

    name = "local"

    def __init__(self, root: Path, poll_interval: float, keep: timedelta | None) -> None:
        self._root = root
        self._poll_interval = poll_interval
        self._keep = keep

    def check(self, job: Job | ManifestJob) -> None:
        """Refuse images, programs and folders that are not here, and more than this machine has."""
        check(self.name, spec_job(self.name, job))

    def render(self, job: Job | ManifestJob, identity: Identity) -> str:
        """The whole job as YAML. Creates nothing."""
        job = spec_job(self.name, job)
        return render(job, identity.job_name(job.spec.name), str(self._root))

    async def submit(self, job: Job | ManifestJob, identity: Identity) -> Submission:
        """Start the job, or adopt what an earlier try of this task left."""
        return await asyncio.to_thread(self._submit, spec_job(self.name, job), identity)

    async def find(self, identity: Identity) -> list[JobHandle]:
        """The jobs of this task that have not ended, and that no later try owns."""
        return await asyncio.to_thread(self._find, identity)

    async def jobs(self) -> list[tuple[JobHandle, Identity]]:
        """All jobs whose folders are here, whoever waits for them, with the try that submitted each."""
        return await asyncio.to_thread(self._all)

    async def status(self, handle: JobHandle) -> JobStatus:
        """How the job stands now."""
        return await asyncio.to_thread(self._status, self._folder(handle))

    async def watch(self, handle: JobHandle) -> AsyncIterator[JobStatus]:
        """The job's status now and after each change, up to its end."""
        folder, last = self._folder(handle), None
        while last is None or not last.phase.ended:
            status = await asyncio.to_thread(self._status, folder)
            if status != last:
                last = status
                yield status
            else:
                await asyncio.sleep(self._poll_interval)

    async def logs(self, handle: JobHandle, reader: str, ended: asyncio.Event) -> AsyncIterator[LogLine]:
        """All lines of all replicas from where this reader left off, up to the job's end."""
        place = LogReader(self._folder(handle), reader)
        last = False
        while not last:
            # Asked before reading: what was written before the end is then read for certain.
            last = ended.is_set()
            try:
                for number, line in enumerate(place.read(ended=last)):
                    yield line
                    if number % _LINES_AT_ONCE == 0:
                        # A long backlog must not keep the triggerer's other jobs waiting.
                        await asyncio.sleep(0)
            finally:
                place.save()
            if not last:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(ended.wait(), self._poll_interval)

    async def log_tail(self, handle: JobHandle, replica: str, lines: int) -> list[str]:
        """The last lines of one replica, in its last attempt."""
        attempts = self._folder(handle).attempts()
        return await asyncio.to_thread(tail, attempts[-1].logs / f"{replica}.log", lines) if attempts else []

    async def result(self, handle: JobHandle) -> bytes | None:
        """What rank 0 of the last attempt wrote."""
        folder = self._folder(handle)
        status = self._status(folder)
        if not status.replicas:
            return None
        results = folder.attempts()[-1].results
        # Rank 0 need not be in the first replica: the rendezvous of an elastic job gives the ranks out anew.
        for replica in status.replicas:
            try:
                return (results / replica.name).read_bytes()
            except FileNotFoundError:
                continue
        return None

    async def collected(self, handle: JobHandle) -> None:
        """Note that the outcome has reached XCom."""
        self._folder(handle).collect()

    async def cancel(self, handle: JobHandle, reason: str) -> bool:
        """Ask the job's supervisor to end it, unless a later try owns it by now."""
        return await asyncio.to_thread(self._cancel, handle, reason)

    def _submit(self, job: Job, identity: Identity) -> Submission:
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise SubmitError(f"{self._root} cannot be made ({error}); correct [trainer] local_root.") from error
        self._prune()
        digest = spec_digest(job.spec)
        with locked(self._root / f".{identity.key}.lock", wait=True):
            for folder in self._jobs_of(identity):
                adopted = self._adopt(folder, identity, digest)
                if adopted:
                    return Submission(self._handle(folder, job, identity.try_number), adopted)
            folder = self._create(job, identity, digest)
            self._start_supervisor(folder)
            return Submission(self._handle(folder, job, identity.try_number))

    def _find(self, identity: Identity) -> list[JobHandle]:
        folders = self._jobs_of(identity)
        running = [folder for folder in folders if not self._status(folder).phase.ended]
        handles = [self._handle(folder, lay_out(folder.record().spec), folder.owner) for folder in running]
        return [handle for handle in handles if handle.owner <= identity.try_number]

    def _all(self) -> list[tuple[JobHandle, Identity]]:
        folders = [RunFolder(record.parent) for record in self._root.glob("*/job.json")]
        return [
            (self._handle(each, lay_out(each.record().spec), each.owner), each.record().identity) for each in folders
        ]

    def _adopt(self, folder: RunFolder, identity: Identity, digest: str) -> str | None:
        """Why this earlier job is the one to use; None where it is not, and has ended."""
        record = folder.record()
        if folder.owner > identity.try_number:
            raise SubmitError(
                f"Try {folder.owner} of this task already has job {folder.name}; "
                f"try {identity.try_number} is out of date and starts nothing."
            )
        status = self._status(folder, start=True)
        same = record.digest == digest
        if status.phase is JobPhase.SUCCEEDED and same and not folder.collected:
            folder.hand_to(identity.try_number)
            return f"it succeeded in try {record.identity.try_number}, and nobody has taken its result"
        if status.phase.ended:
            return None
        if same and folder.cancel_reason is None:
            folder.hand_to(identity.try_number)
            return f"try {record.identity.try_number} started it, and it still runs"
        folder.cancel("the task was tried again with other parameters")
        self._wait_for_end(folder, record.spec.run_policy.grace_period_seconds)
        return None

    def _create(self, job: Job, identity: Identity, digest: str) -> RunFolder:
        name = identity.job_name(job.spec.name)
        record = JobRecord(uid=secrets.token_hex(8), identity=identity, digest=digest, spec=job.spec)
        # The same try has a second job where a task is run by hand again under the same run and try.
        for suffix in ("", *(f"-{again}" for again in range(2, 1000))):
            folder = RunFolder(self._root / f"{name}{suffix}")
            if not folder.path.exists():
                folder.create(record)
                return folder
        raise SubmitError(f"{self._root} holds 999 jobs called {name}; remove some.")

    def _start_supervisor(self, folder: RunFolder) -> None:
        command = [sys.executable, "-m", "airflow_trainer_provider.local.supervisor", str(folder.path)]
        with (folder.path / "supervisor.log").open("ab") as log:
            subprocess.run(
                command,
                env=inherited_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                check=False,
            )

    def _status(self, folder: RunFolder, *, start: bool = False) -> JobStatus:
        """How the job stands; a job whose supervisor is gone has ended.

        :param start: start the supervisor of a job that never had one: its submitter was killed in between.
        """
        status = self._read_status(folder)
        if status and status.phase.ended:
            return status
        with folder.lock() as orphaned:
            # Read again: it may have ended between the two.
            status = self._read_status(folder)
            if not orphaned or (status and status.phase.ended):
                return status or _queued(folder)
            if status is not None or not start:
                return self._bury(folder, status or _queued(folder))
        self._start_supervisor(folder)
        return self._status(folder)

    def _read_status(self, folder: RunFolder) -> JobStatus | None:
        if not folder.path.is_dir():
            raise JobLost(f"Training job {folder.name} is gone: {folder.path} is not there (any more).")
        return folder.read_status()

    def _bury(self, folder: RunFolder, status: JobStatus) -> JobStatus:
        """End what a killed supervisor left behind, and say so."""
        end_all(folder.record().uid)
        message = f"the supervisor of the job was killed; see {folder.path}/supervisor.log"
        lost = status.model_copy(
            update={
                "phase": JobPhase.FAILED,
                "reason": "SupervisorLost",
                "message": message,
                "finished_at": datetime.now(timezone.utc),
            }
        )
        folder.write_status(lost)
        return lost

    def _cancel(self, handle: JobHandle, reason: str) -> bool:
        folder = self._folder(handle)
        key = folder.record().identity.key
        with locked(folder.path.parent / f".{key}.lock", wait=True):
            if folder.owner != handle.owner:
                return False
            folder.cancel(reason)
            return True

    def _wait_for_end(self, folder: RunFolder, grace: float) -> None:
        end = time.monotonic() + grace + _END_SECONDS
        while not self._status(folder).phase.ended:
            if time.monotonic() > end:
                raise SubmitError(
                    f"Job {folder.name} of an earlier try was asked to end and has not; nothing was started."
                )
            time.sleep(0.1)

    def _jobs_of(self, identity: Identity) -> list[RunFolder]:
        """The task's jobs, the latest try's first."""
        pattern = re.compile(rf".*-{identity.key}-(\d+)(-\d+)?")
        matches = [pattern.fullmatch(entry.name) for entry in self._root.glob(f"*-{identity.key}-*")]
        names = sorted((int(match[1]), match[0]) for match in matches if match)
        return [RunFolder(self._root / name) for _, name in reversed(names)]

    def _handle(self, folder: RunFolder, job: Job, owner: int) -> JobHandle:
        return JobHandle(
            name=folder.name,
            uid=folder.record().uid,
            backend=self.name,
            framework=job.framework.name,
            leader=job.leader.name,
            owner=owner,
            location=str(self._root),
        )

    def _folder(self, handle: JobHandle) -> RunFolder:
        folder = RunFolder(Path(handle.location) / handle.name)
        try:
            found = folder.record().uid
        except FileNotFoundError:
            raise JobLost(f"Training job {handle.name} is gone: {folder.path} is not there (any more).") from None
        if found != handle.uid:
            raise JobLost(f"Training job {handle.name} is gone: another job has its name now.")
        return folder

    def _prune(self) -> None:
        """Remove the folders of jobs that ended longer ago than they are kept."""
        if self._keep is None:
            return
        before = datetime.now(timezone.utc) - self._keep
        for state in self._root.glob("*/state.json"):
            folder = RunFolder(state.parent)
            status = folder.read_status()
            if status and status.finished_at and status.finished_at < before:
                shutil.rmtree(folder.path, ignore_errors=True)


def _queued(folder: RunFolder) -> JobStatus:
    submitted = datetime.fromtimestamp((folder.path / "job.json").stat().st_mtime, timezone.utc)
    return JobStatus(phase=JobPhase.QUEUED, queued_at=submitted)
