"""The local backend: jobs as processes on this machine."""

from __future__ import annotations

import asyncio
import functools
import re
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow_trainer_provider.errors import JobLost, ManageError, Problem, SpecError, SubmitError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.backend import (
    Admit,
    CleanedUp,
    CleanUp,
    LogBlock,
    LogLine,
    LogSelection,
    Submission,
    Support,
    Tracked,
    Wanted,
)
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.job.plan.plan import JobPlan, Plan
from airflow_trainer_provider.job.result import masked_result
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.local.check import check, spec_job
from airflow_trainer_provider.local.checkpoints import make_checkpoint_folder, with_checkpoint_folder
from airflow_trainer_provider.local.environment import inherited_environment
from airflow_trainer_provider.local.kept import clean_up, prune
from airflow_trainer_provider.local.logs import LogReader, last_lines
from airflow_trainer_provider.local.overview import describe, overview, show_logs
from airflow_trainer_provider.local.processes import end_all
from airflow_trainer_provider.local.render import render, tool_urls
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder, locked, task_lock
from airflow_trainer_provider.local.supervisor.rank_shell import leader_of
from airflow_trainer_provider.text.mask import Mask, mask_of
from airflow_trainer_provider.text.redaction import secrets_in
from airflow_trainer_provider.timeouts import with_timeout

#: How long a job may take to end after its grace period, in seconds.
_END_SECONDS = 15
_LINES_AT_ONCE = 100


class LocalBackend:
    """Jobs as processes on this machine.

    :param root: the folder that holds the jobs' folders.
    :param poll_interval: how often a job's status and logs are read, in seconds.
    :param keep: how long the folder of an ended job is kept; None keeps it for ever.
    """

    name = "local"
    namespace = None
    can_suspend = False

    def __init__(self, root: Path, poll_interval: float, keep: timedelta | None) -> None:
        self._root = root
        self._poll_interval = poll_interval
        self._keep = keep

    def check(self, job: Plan) -> None:
        """Refuse images, missing programs and folders, and requests for more than this machine has."""
        check(self.name, spec_job(self.name, job))

    def render(self, job: Plan, identity: Identity) -> str:
        """The whole job as YAML. Creates nothing."""
        job = spec_job(self.name, job)
        return render(with_checkpoint_folder(job, identity), identity.job_name(job.spec.name), str(self._root))

    async def support(self, job: Plan) -> Support:
        """Whether this machine runs the job: it runs every job that :meth:`check` accepts."""
        return Support(True, "it needs nothing but this machine")

    async def submit(self, job: Plan, identity: Identity, *, start: int = 1, admit: Admit | None = None) -> Submission:
        """Start the job, or adopt the one that an earlier try left. Each job has a folder and a name of its own."""
        return await asyncio.to_thread(self._submit, spec_job(self.name, job), identity)

    async def end_earlier(self, identity: Identity) -> None:
        """End the jobs of earlier tries on this machine."""
        await asyncio.to_thread(self._end_earlier, identity)

    async def find(self, identity: Identity) -> list[JobHandle]:
        """The jobs of this task that have not ended, and that no later try owns."""
        return await asyncio.to_thread(self._find, identity)

    async def task_of(self, handle: JobHandle) -> Identity | None:
        """The task that the job's record names."""
        return await asyncio.to_thread(self._task_of, handle)

    async def status(self, handle: JobHandle) -> JobStatus:
        """The job's status now."""
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

    async def logs(
        self, handle: JobHandle, reader: str, ended: asyncio.Event, tracked: Tracked | None = None
    ) -> AsyncIterator[LogLine]:
        """All lines of all replicas from where this reader left off, up to the job's end."""
        folder = self._folder(handle)
        with folder.lost_if_gone():
            log_reader, mask = LogReader(folder, reader), _mask(folder)
            last = False
            try:
                if tracked:
                    async for line in _emitted(log_reader, handle.leader, tracked, mask):
                        yield line
                while not last:
                    # Checked before reading, so that every line from before the end is read for certain.
                    last = ended.is_set()
                    slices = log_reader.slices(ended=last)
                    # In a thread: a long backlog must not keep the triggerer's other jobs waiting.
                    while part := await asyncio.to_thread(next, slices, None):
                        for number, line in enumerate(log_reader.emitting(part), 1):
                            yield line._replace(text=mask.text(line.text)) if mask else line
                            if number % _LINES_AT_ONCE == 0:
                                await asyncio.sleep(0)
                    log_reader.save_trailing()
                    if not last:
                        with suppress(asyncio.TimeoutError):
                            await with_timeout(ended.wait(), self._poll_interval)
            finally:
                log_reader.save()

    async def log_tail(self, handle: JobHandle, replica: str, lines: int) -> list[str]:
        """The last lines of one replica, in its last attempt."""
        found = self._last_lines(handle, replica, lines)
        return await asyncio.to_thread(lambda: list(found))

    def _last_lines(self, handle: JobHandle, replica: str, lines: int | None) -> Iterator[str]:
        folder = self._folder(handle)
        with folder.lost_if_gone():
            attempts, mask = folder.attempts(), _mask(folder)
        return map(mask.text, last_lines(attempts[-1].logs / f"{replica}.log", lines) if attempts else ())

    async def result(self, handle: JobHandle) -> bytes | None:
        """The result that rank 0 of the last attempt wrote."""
        folder = self._folder(handle)
        with folder.lost_if_gone():
            status, mask = self._status(folder), _mask(folder)
            attempts = folder.attempts()
        # Rank 0 need not be in the first replica: the rendezvous of an elastic job assigns the ranks again.
        for replica in status.replicas if attempts else ():
            try:
                return masked_result((attempts[-1].results / replica.name).read_bytes(), mask)
            except FileNotFoundError:
                continue
        if not folder.is_there:
            raise folder.lost()
        return None

    async def acknowledge(self, handle: JobHandle) -> None:
        """Note that the outcome has reached XCom. A job whose folder is gone needs no note."""
        with suppress(JobLost):
            folder = self._folder(handle)
            with folder.lost_if_gone():
                if folder.owner == handle.owner:
                    folder.collect()

    async def release(self, handle: JobHandle) -> None:
        """Note that the job outlives its task."""
        folder = self._folder(handle)
        with folder.lost_if_gone():
            folder.release()

    async def is_released(self, handle: JobHandle) -> bool:
        """Whether the job outlives its task."""
        try:
            return self._folder(handle).released
        except JobLost:
            return False

    async def cancel(self, handle: JobHandle, reason: str, *, resumable: bool = True) -> bool:
        """Ask the job's supervisor to end it, unless a later try owns it now. Local jobs are never resumed."""
        try:
            return await asyncio.to_thread(self._cancel, handle, reason)
        except JobLost:
            return True

    def title(self, handle: JobHandle) -> str:
        """Its name."""
        return f"training job {handle.name}"

    def main_object(self, handle: JobHandle) -> None:
        """None: a local job has a folder and no object."""

    def where(self) -> str:
        """The folder of the jobs' folders."""
        return f"of the local backend in {self._root}"

    async def search(self, wanted: Wanted) -> list[JobHandle]:
        """The job with the name that is looked for."""
        if wanted.name is None:
            raise SpecError([_no_labels(wanted.selector, "Give the job's name.")])
        if wanted.kind not in (None, self.name):
            return []
        return [handle for handle, _ in await asyncio.to_thread(self._all) if handle.name == wanted.name]

    async def overviews(self) -> list[Overview]:
        """The statuses of all jobs whose folders are here, the oldest first."""
        found = []
        for job in await asyncio.to_thread(self._all):
            # Another process may remove the job's folder meanwhile.
            with suppress(JobLost):
                found.append(await overview(self, *job))
        return sorted(found, key=lambda job: job.status.queued_at)

    async def describe(self, handle: JobHandle) -> Description:
        """All that is known of a job."""
        folder = self._folder(handle)
        with folder.lost_if_gone():
            identity = folder.record().identity
        return await describe(self, handle, identity)

    async def show_logs(self, handle: JobHandle, selection: LogSelection) -> AsyncGenerator[LogBlock, None]:
        """The lines of a job's last attempt; where they are followed, those of all attempts."""
        last = functools.partial(self._last_lines, handle)
        async with aclosing(show_logs(self, handle, selection, last)) as blocks:
            async for block in blocks:
                yield block

    async def suspend(self, handle: JobHandle, *, wait: bool = True) -> str:
        """Refuse: a process cannot release its machine and continue later."""
        raise self._cannot(handle, "suspended")

    async def resume(self, handle: JobHandle) -> str:
        """Refuse: no job is suspended."""
        raise self._cannot(handle, "suspended or resumed")

    async def delete(self, handle: JobHandle, reason: str, *, wait: bool = True) -> str:
        """End a job's processes. Its folder stays as long as ``[trainer] local_keep_days`` says."""
        if (await self.status(handle)).phase.ended:
            return f"Training job {handle.name} has ended already; its logs stay."
        if not await self.cancel(handle, reason):
            message = f"A later try of its task waits for training job {handle.name}: it was not ended."
            raise ManageError(f"{message} Take its handle.", retryable=False)
        if wait:
            async for _ in self.watch(handle):
                pass
        return f"Ended training job {handle.name}; its logs stay."

    async def clean_up(self, wanted: CleanUp) -> list[CleanedUp]:
        """Remove the folders of jobs that no task needs any more, and of jobs whose time to live is over."""
        if wanted.selector is not None:
            raise SpecError([_no_labels(wanted.selector, "Leave it out.")])
        return await asyncio.to_thread(clean_up, self._root, self._keep, wanted)

    async def close(self) -> None:
        """Do nothing: this backend has no connections."""

    def _cannot(self, handle: JobHandle, what: str) -> ManageError:
        message = f"Training job {handle.name} runs on backend {self.name!r}, whose jobs cannot be {what}."
        return ManageError(f"{message} Delete it to end it.", retryable=False)

    def _submit(self, job: JobPlan, identity: Identity) -> Submission:
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise SubmitError(f"{self._root} cannot be made ({error}); correct [trainer] local_root.") from error
        prune(self._root, self._keep)
        digest = spec_digest(job.spec)
        with locked(task_lock(self._root, identity.key), wait=True):
            for folder in self._jobs_of(identity):
                # A job whose folder another process removes meanwhile has ended.
                with suppress(JobLost), folder.lost_if_gone():
                    adopted = self._adopt(folder, identity, digest)
                    if adopted:
                        return Submission(self._handle(folder, job, identity.try_number), adopted)
            make_checkpoint_folder(job, identity)
            folder = self._create(job, identity, digest)
            self._start_supervisor(folder)
            return Submission(self._handle(folder, job, identity.try_number))

    def _end_earlier(self, identity: Identity) -> None:
        if self._root.is_dir():
            with locked(task_lock(self._root, identity.key), wait=True):
                for folder in self._jobs_of(identity):
                    with suppress(JobLost), folder.lost_if_gone():
                        self._adopt(folder, identity, None)

    def _find(self, identity: Identity) -> list[JobHandle]:
        handles = []
        for folder in self._jobs_of(identity):
            with suppress(JobLost), folder.lost_if_gone():
                record = folder.record()
                is_later = identity.is_out_of_date(record.identity, folder.owner)
                if not is_later and not self._status(folder).phase.ended:
                    handles.append(self._handle(folder, plan_job(record.spec), folder.owner))
        return handles

    def _task_of(self, handle: JobHandle) -> Identity:
        folder = self._folder(handle)
        with folder.lost_if_gone():
            return folder.record().identity

    def _all(self) -> list[tuple[JobHandle, Identity]]:
        found = []
        for path in self._root.glob("*/job.json"):
            folder = RunFolder(path.parent)
            with suppress(JobLost), folder.lost_if_gone():
                record = folder.record()
                found.append((self._handle(folder, plan_job(record.spec), folder.owner), record.identity))
        return found

    def _adopt(self, folder: RunFolder, identity: Identity, digest: str | None) -> str | None:
        """Adopt an earlier job, or end it.

        :param digest: of the spec that is wanted; None where no earlier job is wanted.
        :return: why the job was adopted; None where it was not, and has ended.
        """
        record = folder.record()
        earlier = record.identity
        _ensure_current(folder, earlier, identity)
        status = self._status(folder, start=True)
        cleared = identity.was_cleared_since(earlier)
        # A released job outlives its task, as the task asked for. A user who clears that task wants a new training.
        is_wanted = identity.is_same_run(earlier) and not (cleared and folder.released)
        same = is_wanted and record.digest == digest
        if status.phase is JobPhase.SUCCEEDED and not folder.collected and digest is not None:
            if same:
                folder.hand_to(identity.try_number)
                return f"it succeeded in try {earlier.try_number}, and its result has not been collected"
            # No later try collects its result either.
            folder.collect()
        if status.phase.ended:
            return None
        if same and not cleared and folder.cancel_reason is None:
            folder.hand_to(identity.try_number)
            return f"try {earlier.try_number} started it, and it still runs"
        folder.cancel(identity.why_ended(earlier))
        self._wait_for_end(folder, record.spec.run_policy.grace_period_seconds)
        return None

    def _create(self, job: JobPlan, identity: Identity, digest: str) -> RunFolder:
        name = identity.job_name(job.spec.name)
        record = JobRecord(uid=secrets.token_hex(8), identity=identity, digest=digest, spec=job.spec)
        # A try has a second job where its task is run again by hand, with the same run and try number.
        for suffix in ("", *(f"-{again}" for again in range(2, 1000))):
            folder = RunFolder(self._root / f"{name}{suffix}")
            if not folder.path.exists():
                folder.create(record)
                return folder
        raise SubmitError(f"{self._root} holds 999 jobs called {name}; remove some.")

    def _start_supervisor(self, folder: RunFolder) -> None:
        command = [sys.executable, "-m", "airflow_trainer_provider.local.supervisor.run", str(folder.path)]
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
        """The job's status; a job whose supervisor is gone has ended.

        :param start: whether to start the supervisor of a job that never had one, as its submitter was killed in
            between.
        """
        with folder.lost_if_gone():
            status = self._read_status(folder)
            if status and status.phase.ended:
                return status
            with folder.lock() as orphaned:
                # Read again: the job may have ended before the lock was taken.
                status = self._read_status(folder)
                if not orphaned or (status and status.phase.ended):
                    return status or _queued(folder)
                # A job that has attempts and no status has begun: there was no room for the status on the disk.
                if not start or status is not None or folder.attempts():
                    return self._bury(folder, status or _queued(folder))
            self._start_supervisor(folder)
        return self._status(folder)

    def _read_status(self, folder: RunFolder) -> JobStatus | None:
        status = folder.read_status()
        if status is None and not folder.is_there:
            raise folder.lost()
        return status

    def _bury(self, folder: RunFolder, status: JobStatus) -> JobStatus:
        """End the processes that a killed supervisor left behind, and write that as the job's status."""
        end_all(folder.record().uid)
        message = f"the supervisor of the job was killed, or could not go on; see {folder.path}/supervisor.log"
        lost = status.model_copy(
            update={
                "phase": JobPhase.FAILED,
                "reason": "SupervisorLost",
                "message": message,
                "finished_at": datetime.now(timezone.utc),
            }
        )
        # Where the disk is full, the next reader of the status does the same again.
        folder.write_status(lost)
        return lost

    def _cancel(self, handle: JobHandle, reason: str) -> bool:
        folder = self._folder(handle)
        with folder.lost_if_gone(), locked(self._lock_of(folder), wait=True):
            if folder.owner != handle.owner:
                return False
            folder.cancel(reason)
            status = folder.read_status()
            if status is not None and status.phase is JobPhase.FAILED and not folder.collected:
                # The job had failed before: no task collects the outcome any more.
                folder.collect()
            return True

    def _lock_of(self, folder: RunFolder) -> Path:
        """The file that a process locks while it decides what happens to the task's jobs."""
        return task_lock(folder.path.parent, folder.record().identity.key)

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
        names: list[tuple[int, str]] = []
        for key in identity.keys:
            pattern = re.compile(rf".*-{key}-(\d+)(-\d+)?")
            matches = [pattern.fullmatch(entry.name) for entry in self._root.glob(f"*-{key}-*")]
            names += [(int(match[1]), match[0]) for match in matches if match]
        folders = [RunFolder(self._root / name) for _, name in sorted(names, reverse=True)]
        return [folder for folder in folders if _is_of(folder, identity)]

    def _handle(self, folder: RunFolder, job: JobPlan, owner: int) -> JobHandle:
        return JobHandle(
            name=folder.name,
            uid=folder.record().uid,
            backend=self.name,
            framework=job.framework.name,
            leader=leader_of(job).name,
            owner=owner,
            location=str(self._root),
            tools=tool_urls(job, folder.name),
        )

    def _folder(self, handle: JobHandle) -> RunFolder:
        folder = RunFolder(Path(handle.location) / handle.name)
        with folder.lost_if_gone():
            found = folder.record().uid
        if found != handle.uid:
            raise JobLost(f"Training job {handle.name} is gone: another job has its name now.")
        return folder


def _ensure_current(folder: RunFolder, earlier: Identity, identity: Identity) -> None:
    if identity.is_out_of_date(earlier, folder.owner):
        raise SubmitError(
            f"Try {folder.owner} of this task already has job {folder.name}; "
            f"try {identity.try_number} is out of date and starts nothing."
        )


def _no_labels(selector: str | None, fix: str) -> Problem:
    return Problem("selector", selector, "no value: a job of the local backend has no labels", fix)


def _is_of(folder: RunFolder, identity: Identity) -> bool:
    try:
        return identity.is_same_task(folder.record().identity)
    except FileNotFoundError:
        # The folder of an ended job, whose removal has begun.
        return False


async def _emitted(log_reader: LogReader, leader: str, tracked: Tracked, mask: Mask) -> AsyncIterator[LogLine]:
    """The lines of the leader that the task's log already has, and that the job's progress is read from."""
    again = log_reader.emitted(leader, tracked.since or (0, 0))
    while part := await asyncio.to_thread(next, again, None):
        for text, end in part.lines:
            yield LogLine(part.replica, mask.text(text), (part.attempt, end), is_hidden=True)


def _mask(folder: RunFolder) -> Mask:
    """The mask for the secrets in a job's spec."""
    return mask_of(secrets_in(folder.record().spec.model_dump()))


def _queued(folder: RunFolder) -> JobStatus:
    submitted = datetime.fromtimestamp((folder.path / "job.json").stat().st_mtime, timezone.utc)
    return JobStatus(phase=JobPhase.QUEUED, queued_at=submitted)
