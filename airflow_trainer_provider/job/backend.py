"""What a backend must be able to do. One suite, tests/contract, holds every backend to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobStatus

if TYPE_CHECKING:
    from airflow_trainer_provider.frameworks.layout import Job
    from airflow_trainer_provider.kinds.manifest import ManifestJob


@dataclass(frozen=True)
class Submission:
    """What came of the wish to run a job.

    :param handle: the job.
    :param adopted: None for a job that was started now; else why an earlier one is used.
    """

    handle: JobHandle
    adopted: str | None = None


class LogLine(NamedTuple):
    """One line that a replica wrote.

    :param replica: e.g. ``worker-1``.
    :param text: without its line end, colours or overwritten parts.
    """

    replica: str
    text: str

    def __str__(self) -> str:
        return f"[{self.replica}] {self.text}"


class LogBlock(NamedTuple):
    """Some lines that a replica wrote, as many together as have come. Take them all before the next block.

    :param replica: e.g. ``worker-1``.
    :param texts: as those of a :class:`LogLine`.
    """

    replica: str
    texts: Iterable[str]

    def lines(self) -> Iterator[LogLine]:
        """One by one."""
        return (LogLine(self.replica, text) for text in self.texts)


class Backend(Protocol):
    """Where jobs run. All methods may be called from any process that sees the backend."""

    name: str

    def check(self, job: Job | ManifestJob) -> None:
        """Refuse what this backend cannot express, before anything is created.

        :raises SpecError: naming the field, its value and the way out.
        """

    def render(self, job: Job | ManifestJob, identity: Identity) -> str:
        """The whole job as text, as it would be submitted for this task. Creates nothing."""

    async def submit(self, job: Job | ManifestJob, identity: Identity) -> Submission:
        """Start the job, unless this task already has one.

        A job of an earlier try that still runs is adopted; one that has succeeded, and whose result nobody has
        collected yet, is taken as it is; one of another spec is ended first. So at most one job of a task trains.

        :raises SubmitError: the backend did not take it.
        """

    async def find(self, identity: Identity) -> list[JobHandle]:
        """The jobs of this task that have not ended, and that no later try owns. Starts and adopts nothing."""

    async def status(self, handle: JobHandle) -> JobStatus:
        """How the job stands now.

        :raises JobLost: there is no such job any more.
        """

    def watch(self, handle: JobHandle) -> AsyncIterator[JobStatus]:
        """The job's status now and after each change, up to its end.

        :raises JobLost: there is no such job any more.
        """

    def logs(self, handle: JobHandle, reader: str, ended: asyncio.Event) -> AsyncIterator[LogLine]:
        """All lines of all replicas from where this reader left off, as they are written, up to the job's end.

        :param reader: whose place in the logs is kept; each reader gets each line once.
        :param ended: set by who watches the job, when it has ended.
        """

    async def log_tail(self, handle: JobHandle, replica: str, lines: int) -> list[str]:
        """The last lines of one replica."""

    async def result(self, handle: JobHandle) -> bytes | None:
        """What rank 0 wrote to ``$TRAINER_RESULT_PATH``; None where it wrote nothing."""

    async def collected(self, handle: JobHandle) -> None:
        """Note that the outcome has reached XCom, so that clearing the task trains anew."""

    async def cancel(self, handle: JobHandle, reason: str) -> bool:
        """Ask the job to end, within its grace period.

        :return: False where a later try of the task owns it by now, so that it goes on.
        """
