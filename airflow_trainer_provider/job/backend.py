"""The interface that every backend implements. The test suite tests/contract checks every backend against it."""

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
    :param adopted: None for a job that was newly started; otherwise why an earlier job is used.
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
    :param every: True for all jobs that match; False for the only one.
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
    """Which ended jobs are deleted, and which objects that interrupted submits have left.

    :param deployment: only jobs and objects of this Airflow deployment.
    :param before: jobs that ended, and objects that were created, before this moment.
    :param selector: a label selector of Kubernetes; None for all.
    :param list_only: whether to only list them, and to delete nothing.
    """

    deployment: str
    before: datetime
    selector: str | None = None
    list_only: bool = False

    def is_of(self, identity: Identity | None) -> bool:
        """Whether a job belongs to this Airflow deployment.

        :param identity: the try that submitted it, as it was recorded; None where no task submitted it.
        """
        return identity is not None and identity.deployment == self.deployment


@dataclass(frozen=True)
class CleanedUp:
    """A job, or an object that an interrupted submit has left, that was deleted or would be deleted.

    :param kind: short name of the job's kind, or the object's kind.
    :param name: its name.
    :param location: its namespace, or the parent of its folder.
    :param since: when the job ended, or the object was created.
    :param phase: how the job ended; None for an object that is not a job.
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

    :param replica: only the lines of this replica, e.g. ``worker-1``; None for all.
    :param tail: only this many last lines of each container; None for all.
    :param previous: whether to show the lines of each container from before its last restart.
    :param follow: whether to also show the lines that are written from now on, up to the job's end.
    """

    replica: str | None = None
    tail: int | None = None
    previous: bool = False
    follow: bool = False


class Tracked(NamedTuple):
    """Requests all lines of the leader, each with its position, for the job's progress.

    :param since: the lines after this position are requested, including those that the reader's log already has; (0, 0)
        for all lines. None where nothing was reported before: of the lines that the log already has, those of the last
        minutes are enough.
    """

    since: Position | None


class LogLine(NamedTuple):
    """One line that a replica wrote.

    :param replica: e.g. ``worker-1``.
    :param text: without its line end, colours or overwritten parts.
    :param position: in the log of the leader, where it was requested; later lines have greater positions.
    :param at: when it was written, in seconds since 1970, where the backend knows.
    :param is_hidden: whether it is only for the job's progress: the log already has it, or has no room for it.
    """

    replica: str
    text: str
    position: Position | None = None
    at: float | None = None
    is_hidden: bool = False

    def __str__(self) -> str:
        return f"[{self.replica}] {self.text}"


class LogBlock(NamedTuple):
    """The lines of a replica that have arrived together. Read all of them before the next block.

    :param replica: e.g. ``worker-1``.
    :param texts: as those of a :class:`LogLine`.
    :param position: returns the position of the line that was read last, whose first number is the line's time in
        nanoseconds; None where positions were not requested.
    :param is_hidden: as that of a :class:`LogLine`.
    """

    replica: str
    texts: Iterable[str]
    position: Callable[[], Position] | None = None
    is_hidden: bool = False

    def lines(self) -> Iterator[LogLine]:
        """The lines, one by one."""
        if self.position is None:
            return (LogLine(self.replica, text) for text in self.texts)
        return self._with_positions(self.position)

    def _with_positions(self, position: Callable[[], Position]) -> Iterator[LogLine]:
        for text in self.texts:
            at = position()
            yield LogLine(self.replica, text, at, at[0] / 1e9, self.is_hidden)


class MainObject(NamedTuple):
    """The Kubernetes object that represents a job.

    :param conn_id: of the connection to its cluster.
    :param namespace: its namespace.
    :param kind: e.g. ``PyTorchJob``.
    :param resource: e.g. ``pytorchjobs.kubeflow.org``, or ``services`` for the core group.
    :param name: of the object.
    """

    conn_id: str
    namespace: str
    kind: str
    resource: str
    name: str


class Backend(Protocol):
    """A place where jobs run. All methods may be called from any process that has access to the backend.

    :param name: of the backend.
    :param can_suspend: whether it suspends and resumes jobs.
    """

    name: str
    can_suspend: bool

    @property
    def namespace(self) -> str | None:
        """Where new jobs are created in a cluster; None for a backend that has no namespaces."""

    def check(self, job: Plan) -> None:
        """Refuse settings that this backend does not support, before anything is created.

        :raises SpecError: naming the field, its value and the way out.
        """

    def render(self, job: Plan, identity: Identity) -> str:
        """The whole job as text, as it would be submitted for this task. Creates nothing."""

    async def support(self, job: Plan) -> Support:
        """Whether this backend can run a job that :meth:`check` accepts, as it is set up now. Creates nothing."""

    async def submit(self, job: Plan, identity: Identity, *, start: int = 1, admit: Admit | None = None) -> Submission:
        """Start the job, unless this task already has one.

        A job of an earlier try that still runs is adopted, and so is a job that has succeeded and whose result was not
        collected. A job with another spec, or of a task that was cleared since, is ended first. So at most one job of a
        task trains.

        :param start: the number of this job among the try's jobs, from 1: each job has its own name.
        :param admit: is called with the job and the values that the backend adds from a runtime, before anything is
            created; not called where nothing is added.
        :raises SubmitError: the backend did not accept the job.
        """

    async def end_earlier(self, identity: Identity) -> None:
        """End all jobs of this task, and wait until none of their processes is left: its next job runs on another
        backend.

        A job that has succeeded is not adopted.

        :param identity: the task, and the try that starts its job elsewhere.
        :raises SubmitError: a later try owns one of them, or one does not end.
        """

    async def find(self, identity: Identity) -> list[JobHandle]:
        """The jobs of this task that have not ended, and that no later try owns. Starts and adopts nothing.

        They include a job whose cancelling client was interrupted before the job ended.
        """

    async def task_of(self, handle: JobHandle) -> Identity | None:
        """The task that the job was submitted for; None where there was none, or where no readable record of it exists.

        :raises JobLost: the job no longer exists.
        """

    async def status(self, handle: JobHandle) -> JobStatus:
        """The job's status now.

        :raises JobLost: the job no longer exists.
        """

    def watch(self, handle: JobHandle) -> AsyncIterator[JobStatus]:
        """The job's status now and after each change, up to its end.

        :raises JobLost: the job no longer exists.
        """

    def logs(
        self, handle: JobHandle, reader: str, ended: asyncio.Event, tracked: Tracked | None = None
    ) -> AsyncIterator[LogLine]:
        """All lines of all replicas from where this reader left off, as they are written, up to the job's end.

        :param reader: whose log cursor is kept; each reader gets each line once.
        :param ended: set by the code that watches the job, when the job has ended.
        :param tracked: requests the leader's lines for the job's progress, too; None where progress is not tracked.
        """

    async def log_tail(self, handle: JobHandle, replica: str, lines: int) -> list[str]:
        """The last lines of one replica."""

    async def result(self, handle: JobHandle) -> bytes | None:
        """What rank 0 wrote to ``$TRAINER_RESULT_PATH``; None where it wrote nothing."""

    async def acknowledge(self, handle: JobHandle) -> None:
        """Record that the outcome has reached XCom, so that clearing the task trains again.

        Does nothing if a later try of the task owns the job by now.
        """

    async def release(self, handle: JobHandle) -> None:
        """Record that no task waits for the job: it outlives its task.

        :raises JobLost: the job no longer exists.
        """

    async def is_released(self, handle: JobHandle) -> bool:
        """Whether the job was released, and not adopted since."""

    async def cancel(self, handle: JobHandle, reason: str, *, resumable: bool = True) -> bool:
        """End the job within its grace period.

        :param resumable: whether the job, if it was submitted with that option, may be suspended for the next try to
            resume; False ends it for good.
        :return: False where a later try of the task owns the job by now, so that the job continues.
        """

    def title(self, handle: JobHandle) -> str:
        """The name of the job in messages."""

    def main_object(self, handle: JobHandle) -> MainObject | None:
        """The Kubernetes object that represents the job; None where there is none. Sends no request to a cluster."""

    def where(self) -> str:
        """The place where jobs are searched, as messages name it, e.g. ``in namespace training``."""

    async def search(self, wanted: Wanted) -> list[JobHandle]:
        """The existing jobs that match, whoever created them."""

    async def overviews(self) -> list[Overview]:
        """The statuses of all jobs, whoever created them, the oldest first."""

    async def describe(self, handle: JobHandle) -> Description:
        """All that is known of a job, and why it failed where it has.

        :raises JobLost: the job no longer exists.
        """

    def show_logs(self, handle: JobHandle, selection: LogSelection) -> AsyncGenerator[LogBlock, None]:
        """A job's lines as they are shown to a user. The cursor of no reader moves.

        :raises ManageError: the job has no such replica, or the backend has no such lines.
        """

    async def suspend(self, handle: JobHandle, *, wait: bool = True) -> str:
        """Stop the job's processes and keep the job. A task that waits for the job continues to wait.

        :param wait: whether to wait until the processes have ended.
        :return: what was done, as a sentence.
        :raises ManageError: it has ended, does not stop, or the backend cannot suspend jobs.
        """

    async def resume(self, handle: JobHandle) -> str:
        """Resume a suspended job, whose processes start over.

        :return: what was done, as a sentence.
        :raises ManageError: it has ended, or the backend cannot suspend jobs.
        """

    async def delete(self, handle: JobHandle, reason: str, *, wait: bool = True) -> str:
        """Delete a job and everything that belongs to it.

        :param reason: the reason that the error of waiting tasks gives.
        :param wait: whether to wait until its processes have ended.
        :return: what was done, as a sentence.
        :raises JobLost: the job no longer exists.
        :raises ManageError: its processes do not end, or another try owns it by now.
        """

    async def clean_up(self, wanted: CleanUp) -> list[CleanedUp]:
        """Delete the jobs that have ended and that no task needs any more, and the objects that interrupted submits
        have left.

        A job is deleted only once its outcome has reached XCom, or once it was released: then no task waits for it.

        :return: what was deleted, or would be deleted.
        :raises SpecError: the backend has no labels to select by.
        """

    async def close(self) -> None:
        """Close the resources that this backend alone has opened."""
