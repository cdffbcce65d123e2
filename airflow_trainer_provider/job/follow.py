"""Follows one job to its end. The operator and the trigger run this same coroutine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_trainer_provider.errors import JobLost, JobTimeout, TrainJobError
from airflow_trainer_provider.job.backend import Backend, LogLine, Tracked
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.monitor import GivenUp, Monitor
from airflow_trainer_provider.job.plan.tools import is_whole, with_node
from airflow_trainer_provider.job.progress.reporter import Reporter
from airflow_trainer_provider.job.queue.notes import QueueNotes
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.timeouts import end_tasks, with_timeout

Emit = Callable[[str], None]

log = logging.getLogger(__name__)

#: Seconds until the replicas' lines are read again after a failure.
_READ_AGAIN = 30.0
#: How long, in seconds, the wait for the end of a job that can only fail may take.
_ENDED_SECONDS = 900.0


async def follow(
    backend: Backend,
    handle: JobHandle,
    *,
    emit: Emit,
    reader: str | None,
    deadline: datetime | None,
    startup_timeout: float | None = None,
    leader_only: bool = False,
    only_until: Collection[JobPhase] | None = None,
    reporter: Reporter | None = None,
) -> JobStatus:
    """Wait for a job's end, and meanwhile emit its phases and its replicas' lines.

    A job that can only fail is ended; its last status is then failed, with the reason. A job created outside Airflow is
    left alone.

    :param backend: where it runs.
    :param handle: the job.
    :param emit: takes each line for the task's log.
    :param reader: the reader whose log cursor is kept; None to not read the logs.
    :param startup_timeout: see :class:`~airflow_trainer_provider.job.monitor.Monitor`.
    :param leader_only: whether to leave out the lines of all replicas except rank 0.
    :param deadline: when to give up waiting; None waits for ever.
    :param only_until: for a job created outside Airflow, the phases that end the wait as well; None for a job of this
        provider.
    :param reporter: takes the lines of rank 0 and the statuses, and reports them; None reports nothing.
    :return: the job's last status. All its lines have been emitted by then; if that was not possible, a line says so. A
        failure to read lines never ends the wait.
    :raises JobTimeout: the deadline has passed. The job continues: the caller decides whether to end it.
    :raises JobLost: the job no longer exists.
    """
    monitor = Monitor(startup_timeout) if only_until is None else None
    emit = _Emitter(emit)
    source = _Source(backend, handle, leader_only, reporter)
    lines = _Lines(source, emit, reader)
    last: JobStatus | None = None
    news = _News(handle, emit)
    try:
        async with aclosing(_statuses(backend, handle, monitor, deadline)) as statuses:
            async for last in statuses:
                await lines.follow(last)
                news.emit(last)
                if last.phase in (only_until or ()):
                    break
        await lines.finish()
    except TrainJobError:
        await lines.finish()
        raise
    finally:
        await lines.close()
    assert last is not None, "a watch yields at least the job's current status"
    return last


@asynccontextmanager
async def end_of(backend: Backend, handle: JobHandle) -> AsyncIterator[asyncio.Event]:
    """Watch a job for a caller that only reads its lines; the event is set at the job's end, or when the job can no
    longer be watched.

    :param backend: where it runs.
    :param handle: the job.
    :raises TrainJobError: on exit, if the job could no longer be watched. A job that no longer exists counts as ended.
    """
    ended = asyncio.Event()

    async def watch() -> None:
        try:
            async for _ in backend.watch(handle):
                pass
        except JobLost:
            pass
        finally:
            ended.set()

    watching = asyncio.ensure_future(watch())
    try:
        yield ended
        if watching.done():
            watching.result()
    finally:
        await end_tasks([watching])


def _may_have_lines(status: JobStatus) -> bool:
    """Whether any replica may have lines. A job in a queue costs less without a log reader."""
    underway = (JobPhase.STARTING, JobPhase.RUNNING, JobPhase.RESTARTING)
    return status.phase in underway or any(replica.reason or replica.started_at for replica in status.replicas)


async def _statuses(
    backend: Backend, handle: JobHandle, monitor: Monitor | None, deadline: datetime | None
) -> AsyncGenerator[JobStatus, None]:
    """The job's statuses up to its end. The last status of a job that can only fail is failed."""
    changes = _Changes(backend.watch(handle))
    status: JobStatus | None = None
    try:
        while True:
            # A verdict may be due although nothing changes.
            verdict_in = monitor.next_wakeup(_now()) if monitor and status else None
            if await changes.wait(_shortest(verdict_in, _seconds_to(deadline))):
                status = changes.take()
                if status is None:
                    return
                yield status
            elif deadline and _now() >= deadline:
                raise _timeout(handle, deadline)
            status, verdict = await _judged(backend, handle, monitor, status, deadline)
            if status and verdict:
                outcome = verdict.outcome(status, _now())
                last = await _end(backend, handle, verdict, changes, deadline)
                yield last if last and last.phase is JobPhase.SUCCEEDED else outcome
                return
    finally:
        await changes.close()


async def _end(
    backend: Backend, handle: JobHandle, verdict: GivenUp, changes: _Changes, deadline: datetime | None
) -> JobStatus | None:
    """End a job that can only fail, and wait until it has ended.

    The wait ends at the deadline, or after :data:`_ENDED_SECONDS`: an object that cannot be deleted, such as a pod on a
    lost node, must not delay the verdict.

    :return: the job's last status, where it is known.
    """
    # If it were suspended, the next try would resume it, and would fail as well.
    if await backend.cancel(handle, verdict.why, resumable=False):
        with suppress(asyncio.TimeoutError):
            return await with_timeout(changes.skip_to_end(), _shortest(_seconds_to(deadline), _ENDED_SECONDS))
    return None


async def _judged(
    backend: Backend,
    handle: JobHandle,
    monitor: Monitor | None,
    status: JobStatus | None,
    deadline: datetime | None,
) -> tuple[JobStatus | None, GivenUp | None]:
    """The job's status, and the verdict that the job can only fail; None where it may succeed."""
    verdict = monitor.observe(status, _now()) if monitor and status else None
    if monitor is None or status is None or verdict is None:
        return status, None
    # The watch may be behind, so its last status does not decide. But only the watch knows of failed pods that no
    # longer exist.
    is_again = monitor.failed_unrun
    try:
        fresh = await with_timeout(backend.status(handle), _seconds_to(deadline))
    except asyncio.TimeoutError as error:
        raise _timeout(handle, deadline) from error
    if is_again and fresh.waiting_since and status.waiting_since:
        since = min(fresh.waiting_since, status.waiting_since)
        fresh = fresh.model_copy(update={"waiting_since": since})
    found = monitor.observe(fresh, _now())
    return (status, verdict) if found and is_again else (fresh, found)


def _timeout(handle: JobHandle, deadline: datetime | None) -> JobTimeout:
    return JobTimeout(f"Training job {handle.name} had not ended by {deadline}.")


def _seconds_to(deadline: datetime | None) -> float | None:
    return (deadline - _now()).total_seconds() if deadline else None


def _shortest(*waits: float | None) -> float | None:
    """The shortest of some times to wait; None where there is none."""
    return min((wait for wait in waits if wait is not None), default=None)


class _News:
    """Emits the changes of a job's status to the task's log, each one once.

    :param handle: the job.
    :param emit: takes each line.
    """

    # One instance exists for each waiting job.
    __slots__ = ("_emit", "_last", "_name", "_queue", "_tools")

    def __init__(self, handle: JobHandle, emit: Emit) -> None:
        self._name = handle.name
        self._emit = emit
        self._last: str | None = None
        self._queue = QueueNotes()
        # The tools whose address is complete only once a replica has a node.
        self._tools = {name: url for name, url in handle.tools.items() if not is_whole(url)}

    def emit(self, status: JobStatus) -> None:
        """Emit what is new in a status."""
        if status.text() != self._last:
            self._last = status.text()
            self._emit(f"Training job {self._name}: {self._last}.")
        if note := self._queue.note(status.queue):
            self._emit(f"Training job {self._name}: {note}.")
        if status.node_address:
            for name, url in self._tools.items():
                self._emit(f"Tool {name}: {with_node(url, status.node_address)}")
            self._tools = {}


class _Changes:
    """A job's statuses. A task always waits for the next one, so close the instance after use.

    :param statuses: of the job, as its backend yields them.
    """

    # One instance exists for each waiting job.
    __slots__ = ("_next", "_signal", "_statuses")

    def __init__(self, statuses: AsyncIterator[JobStatus]) -> None:
        self._statuses = statuses
        self._signal = Signal()
        self._next = self._begin()

    async def wait(self, seconds: float | None) -> bool:
        """Wait for the next status, or the end.

        :param seconds: how long at most; None for ever.
        :return: whether it has arrived.
        """
        await self._signal.wait(seconds)
        return self._next.done()

    def take(self) -> JobStatus | None:
        """The next status, which has arrived; None at the end."""
        status = self._next.result()
        if status is not None:
            self._next = self._begin()
        return status

    async def skip_to_end(self) -> JobStatus | None:
        """Wait for the end of the job: its last status, where there is one."""
        last: JobStatus | None = None
        with suppress(JobLost):
            while (status := await self._next) is not None:
                last, self._next = status, self._begin()
        return last

    async def close(self) -> None:
        """Stop waiting for the next status."""
        await end_tasks([self._next])

    def _begin(self) -> asyncio.Task[JobStatus | None]:
        task = asyncio.ensure_future(self._get())
        task.add_done_callback(self._done)
        return task

    def _done(self, _: asyncio.Task[JobStatus | None]) -> None:
        self._signal.set()

    async def _get(self) -> JobStatus | None:
        return await anext(self._statuses, None)


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a job's lines, with the selection of those that are emitted; see :func:`follow`."""

    backend: Backend
    handle: JobHandle
    leader_only: bool
    reporter: Reporter | None

    async def lines(self, reader: str, ended: asyncio.Event) -> AsyncIterator[LogLine]:
        """The replicas' lines, up to the job's end."""
        if self.reporter is None:
            return self.backend.logs(self.handle, reader, ended)
        await self.reporter.begin_lines()
        return self.backend.logs(self.handle, reader, ended, Tracked(self.reporter.since))

    def for_the_log(self, line: LogLine) -> Iterator[str]:
        """The lines of the task's log for a line of the job."""
        is_leaders = line.replica == self.handle.leader
        # A line without a position comes from the backend itself, or was cut before and is repeated at the end.
        if is_leaders and self.reporter and line.position is not None:
            note = self.reporter.line(line.text, line.at, line.position)
            if note:
                yield f"[{line.replica}] {note}"
        if not line.is_hidden and (is_leaders or not self.leader_only):
            yield str(line)


class _Lines:
    """Emits the replicas' lines concurrently with the job's phases, and reports both. Close it after use.

    :param source: the source of the lines.
    :param emit: takes each line.
    :param reader: as for :func:`follow`.
    """

    # One instance exists for each waiting job.
    __slots__ = ("_emit", "_emitting", "_ended", "_reader", "_source")

    def __init__(self, source: _Source, emit: Emit, reader: str | None) -> None:
        self._source = source
        self._emit = emit
        self._reader = reader
        self._ended: asyncio.Event | None = None
        self._emitting: asyncio.Future[None] | None = None

    async def follow(self, status: JobStatus) -> None:
        """Begin to read once there may be lines; at the job's end, wait for the last ones."""
        if self._source.reporter:
            self._source.reporter.status(status)
        if self._reader and self._emitting is None and _may_have_lines(status):
            self._ended = asyncio.Event()
            emitting = _emit_logs(self._source, self._emit, self._reader, self._ended)
            self._emitting = asyncio.ensure_future(emitting)
        if status.phase.ended and self._emitting and self._ended:
            self._ended.set()
            await self._emitting

    async def finish(self) -> None:
        """Report the last state."""
        if self._source.reporter:
            await self._source.reporter.finish()

    async def close(self) -> None:
        """Stop emitting and reporting."""
        if self._emitting:
            await end_tasks([self._emitting])
        if self._source.reporter:
            await self._source.reporter.close()


async def _emit_logs(source: _Source, emit: Emit, reader: str, ended: asyncio.Event) -> None:
    """Emit the replicas' lines up to the job's end. An error does not end the wait for the job."""
    emitted, handle = "", source.handle
    while True:
        is_last = ended.is_set()
        try:
            async for line in await source.lines(reader, ended):
                for text in source.for_the_log(line):
                    emit(text)
            return
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            _warn(f"The lines of training job {handle.name} cannot be read", error)
        if is_last:
            emit(f"... the rest of the lines of training job {handle.name} is missing here: {why}")
            return
        if why != emitted:
            emitted = why
            emit(f"... reading the lines of training job {handle.name} has failed, and is tried again: {why}")
        with suppress(asyncio.TimeoutError):
            await with_timeout(ended.wait(), _READ_AGAIN)


class _Emitter:
    """Emits lines. A log that cannot be written, as on a full disk, does not end the wait for the job.

    :param emit: takes each line.
    """

    # One instance exists for each waiting job.
    __slots__ = ("_emit", "_missing")

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._missing = 0

    def __call__(self, line: str) -> None:
        """Emit a line, or count it as missing."""
        try:
            if self._missing:
                self._emit(f"... {self._missing} lines are missing here: they could not be written")
                self._missing = 0
            self._emit(line)
        except Exception as error:
            self._missing += 1
            if self._missing == 1:
                _warn("A line of a training job's log could not be written", error)


def _warn(text: str, error: Exception) -> None:
    # The process's own log may be on the same disk.
    with suppress(Exception):
        log.warning(text, exc_info=error)


def _now() -> datetime:
    return datetime.now(timezone.utc)
