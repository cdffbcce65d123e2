"""What a backend must be able to do. One suite, tests/contract, holds every backend to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.job.plan.plan import Plan
from airflow_trainer_provider.job.progress.tracker import Position
from airflow_trainer_provider.job.status import JobPhase, JobStatus

#: Raises :class:`~airflow_trainer_provider.errors.TrainJobError` for a job that may not be created.
Admit = Callable[[Plan], None]


@dataclass(frozen=True)
class Submission:
    """The result of a submit.

    :param handle: the job.
    :param adopted: None for a job that was started now; else why an earlier one is used.
    """

    handle: JobHandle
    adopted: str | None = None


class Support(NamedTuple):
    """Whether a backend can run a job.

    :param can_run: whether it can.
    :param why: in a few words, either way.
    """

    can_run: bool
    why: str


@dataclass(frozen=True)
class Wanted:
    """Jobs by name or by label, whoever created them.

    :param name: the job's name; or
    :param selector: a label selector of Kubernetes.
    :param kind: e.g. ``PyTorchJob``, as Kubernetes calls it; None for any.
    :param every: all jobs that match; False for the only one.
    :raises SpecError: not exactly one of ``name`` and ``selector`` is given.
    """

    name: str | None = None
    selector: str | None = None
    kind: str | None = None
    every: bool = False

    def __post_init__(self) -> None:
        if (not self.name) == (not self.selector):
            fix = "Give one of the two. What is rendered to nothing counts as not given."
            raise SpecError([Problem("name", self.name, "either name or selector", fix)])

    def __str__(self) -> str:
        what = self.kind or "training job"
        return f"{what} called {self.name}" if self.name else f"{what} with labels {self.selector}"


@dataclass(frozen=True)
class CleanUp:
    """Which jobs that have ended go, and which objects that an interrupted submit has left.

    :param deployment: only those of the tasks of this Airflow.
    :param before: jobs that ended, and objects that were created, before this moment.
    :param selector: a label selector of Kubernetes; None for all.
    :param list_only: find them, and delete nothing.
    """

    deployment: str
    before: datetime
    selector: str | None = None
    list_only: bool = False

    def is_of(self, identity: Identity | None) -> bool:
        """Whether a job is one of this Airflow's.

        :param identity: the try that submitted it, as it was recorded; None where no task did.
        """
        return identity is not None and identity.deployment == self.deployment


@dataclass(frozen=True)
class CleanedUp:
    """A job, or an object that an interrupted submit had left, that was deleted or would be.

    :param kind: short name of the job's kind, or the object's kind.
    :param name: its name.
    :param location: its namespace, or the folder that holds its folder.
    :param since: when the job ended, or the object was created.
    :param phase: how the job ended; None for an object that is no job.
    :param identity: the try that submitted the job; None where that is not recorded.
    """

    kind: str
    name: str
    location: str
    since: datetime
    phase: JobPhase | None = None
    identity: Identity | None = None

    def __str__(self) -> str:
        what = f"{self.phase.value} at" if self.phase else "left by an interrupted submit of"
        return f"{self.kind} {self.location}/{self.name}, {what} {self.since:%Y-%m-%d %H:%M:%S %Z}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "kind": self.kind,
            "name": self.name,
            "location": self.location,
            "since": self.since.isoformat(),
            "phase": self.phase.value if self.phase else None,
            "task": self.identity.model_dump(mode="json") if self.identity else None,
        }


@dataclass(frozen=True)
class LogSelection:
    """Which of a job's lines are shown.

    :param replica: only those of this one, e.g. ``worker-1``; None for all.
    :param tail: only so many last lines of each container; None for all.
    :param previous: those of each container before its last restart.
    :param follow: and all that are written from now on, up to the job's end.
    """

    replica: str | None = None
    tail: int | None = None
    previous: bool = False
    follow: bool = False


class Tracked(NamedTuple):
    """The lines of the leader are wanted for the job's progress: all of them, each with its position.

    :param since: the lines behind this position are wanted, those that the reader's log has already among them; (0, 0)
        for all. None where nothing was reported before: of the lines that the log has, those of the last minutes will
        do.
    """

    since: Position | None


class LogLine(NamedTuple):
    """One line that a replica wrote.

    :param replica: e.g. ``worker-1``.
    :param text: without its line end, colours or overwritten parts.
    :param position: in the log of the leader, where that was asked for; lines that follow have greater ones.
    :param at: when it was written, in seconds since 1970, where the backend knows.
    :param is_hidden: whether it is for the job's progress only: the log has it, or it was cut there.
    """

    replica: str
    text: str
    position: Position | None = None
    at: float | None = None
    is_hidden: bool = False

    def __str__(self) -> str:
        return f"[{self.replica}] {self.text}"


class LogBlock(NamedTuple):
    """Some lines that a replica wrote, as many together as have come. Take them all before the next block.

    :param replica: e.g. ``worker-1``.
    :param texts: as those of a :class:`LogLine`.
    :param position: returns the position of the line that was taken last, the first number of which is its time in
        nanoseconds; None where positions are not asked for.
    :param is_hidden: as that of a :class:`LogLine`.
    """

    replica: str
    texts: Iterable[str]
    position: Callable[[], Position] | None = None
    is_hidden: bool = False

    def lines(self) -> Iterator[LogLine]:
        """One by one."""
        if self.position is None:
            return (LogLine(self.replica, text) for text in self.texts)
        return self._with_positions(self.position)

    def _with_positions(self, position: Callable[[], Position]) -> Iterator[LogLine]:
        for text in self.texts:
            at = position()
            yield LogLine(self.replica, text, at, at[0] / 1e9, self.is_hidden)


class MainObject(NamedTuple):
    """The Kubernetes object that stands for a job.

    :param conn_id: of the connection to its cluster.
    :param namespace: where it is.
    :param kind: e.g. ``PyTorchJob``.
    :param resource: e.g. ``pytorchjobs.kubeflow.org``, or ``services`` for one of the core group.
    :param name: of the object.
    """

    conn_id: str
    namespace: str
    kind: str
    resource: str
    name: str


class Backend(Protocol):
    """Where jobs run. All methods may be called from any process that sees the backend.

    :param name: of the backend.
    :param can_suspend: whether it suspends and resumes jobs.
    """

    name: str
    can_suspend: bool

    @property
    def namespace(self) -> str | None:
        """Where new jobs are created in a cluster; None for a backend that has no namespaces."""

    def check(self, job: Plan) -> None:
        """Refuse what this backend cannot express, before anything is created.

        :raises SpecError: naming the field, its value and the way out.
        """

    def render(self, job: Plan, identity: Identity) -> str:
        """The whole job as text, as it would be submitted for this task. Creates nothing."""

    async def support(self, job: Plan) -> Support:
        """Whether this backend can run a job that :meth:`check` accepts, as it is set up now. Creates nothing."""

    async def submit(self, job: Plan, identity: Identity, *, start: int = 1, admit: Admit | None = None) -> Submission:
        """Start the job, unless this task already has one.

        A job of an earlier try that still runs is adopted, and so is one that has succeeded and whose result was not
        collected. One of another spec, or of a task that was cleared since, is ended first. So at most one job of a
        task trains.

        :param start: which of the try's jobs it is, from 1: each has a name of its own.
        :param admit: is given the job with what the backend adds from a runtime, before anything is created; not called
            where nothing is added.
        :raises SubmitError: the backend did not take it.
        """

    async def end_earlier(self, identity: Identity) -> None:
        """End all jobs of this task, and wait until none of their processes is left: its next job is elsewhere.

        A job that has succeeded is not taken.

        :param identity: the task, and the try that starts its job elsewhere.
        :raises SubmitError: a later try has one of them, or one does not end.
        """

    async def find(self, identity: Identity) -> list[JobHandle]:
        """The jobs of this task that have not ended, and that no later try owns. Starts and adopts nothing.

        A job that was cancelled by a client that was interrupted before the job ended is among them.
        """

    async def task_of(self, handle: JobHandle) -> Identity | None:
        """The task that the job was submitted for; None where none was, or none is recorded that can be read.

        :raises JobLost: there is no such job any more.
        """

    async def status(self, handle: JobHandle) -> JobStatus:
        """The job's status now.

        :raises JobLost: there is no such job any more.
        """

    def watch(self, handle: JobHandle) -> AsyncIterator[JobStatus]:
        """The job's status now and after each change, up to its end.

        :raises JobLost: there is no such job any more.
        """

    def logs(
        self, handle: JobHandle, reader: str, ended: asyncio.Event, tracked: Tracked | None = None
    ) -> AsyncIterator[LogLine]:
        """All lines of all replicas from where this reader left off, as they are written, up to the job's end.

        :param reader: whose log cursor is kept; each reader gets each line once.
        :param ended: set by who watches the job, when it has ended.
        :param tracked: the leader's lines are read for the job's progress too; None where they are not.
        """

    async def log_tail(self, handle: JobHandle, replica: str, lines: int) -> list[str]:
        """The last lines of one replica."""

    async def result(self, handle: JobHandle) -> bytes | None:
        """What rank 0 wrote to ``$TRAINER_RESULT_PATH``; None where it wrote nothing."""

    async def acknowledge(self, handle: JobHandle) -> None:
        """Note that the outcome has reached XCom, so that clearing the task trains again.

        Nothing happens where a later try of the task owns the job by now.
        """

    async def release(self, handle: JobHandle) -> None:
        """Note that no task waits for the job: it outlives the end of its task.

        :raises JobLost: there is no such job any more.
        """

    async def is_released(self, handle: JobHandle) -> bool:
        """Whether the job was released, and not adopted since."""

    async def cancel(self, handle: JobHandle, reason: str, *, resumable: bool = True) -> bool:
        """End the job within its grace period.

        :param resumable: whether a job that was submitted so may be suspended, for the next try to resume; False ends
            it for good.
        :return: False where a later try of the task owns it by now, so that it goes on.
        """

    def title(self, handle: JobHandle) -> str:
        """What messages call the job."""

    def main_object(self, handle: JobHandle) -> MainObject | None:
        """The Kubernetes object that stands for the job; None where none does. Asks no cluster."""

    def where(self) -> str:
        """What messages say of where jobs are looked for, e.g. ``in namespace training``."""

    async def search(self, wanted: Wanted) -> list[JobHandle]:
        """The jobs that are looked for, whoever created them, as far as they exist."""

    async def overviews(self) -> list[Overview]:
        """The statuses of all jobs, whoever created them, the oldest first."""

    async def describe(self, handle: JobHandle) -> Description:
        """All that is known of a job, and why it failed where it has.

        :raises JobLost: there is no such job any more.
        """

    def show_logs(self, handle: JobHandle, selection: LogSelection) -> AsyncGenerator[LogBlock, None]:
        """A job's lines for a person. No reader's cursor moves.

        :raises ManageError: the job has no such replica, or the backend has no such lines.
        """

    async def suspend(self, handle: JobHandle, *, wait: bool = True) -> str:
        """Stop the job's processes and keep the job. A task that waits for it goes on waiting.

        :param wait: until the processes are gone.
        :return: what was done, as a sentence.
        :raises ManageError: it has ended, does not stop, or the backend cannot suspend jobs.
        """

    async def resume(self, handle: JobHandle) -> str:
        """Resume a suspended job, whose processes start over.

        :return: what was done, as a sentence.
        :raises ManageError: it has ended, or the backend cannot suspend jobs.
        """

    async def delete(self, handle: JobHandle, reason: str, *, wait: bool = True) -> str:
        """Delete a job with all that belongs to it.

        :param reason: what the error says in the tasks that wait for it.
        :param wait: until its processes are gone.
        :return: what was done, as a sentence.
        :raises JobLost: there is no such job any more.
        :raises ManageError: its processes do not end, or another try owns it by now.
        """

    async def clean_up(self, wanted: CleanUp) -> list[CleanedUp]:
        """Delete the jobs that have ended and that no task needs any more, and what interrupted submits have left.

        A job goes only once its outcome has reached XCom, or it was released: no task waits for it.

        :return: what was deleted, or would be.
        :raises SpecError: the backend has no labels to select by.
        """

    async def close(self) -> None:
        """Close what this backend alone has opened."""
