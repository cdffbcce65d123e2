"""Follows one job to its end. The operator and the trigger run this same coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime, timezone

from airflow_trainer_provider.errors import JobLost, JobTimeout
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.monitor import Monitor
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.job.status import JobPhase, JobStatus

Emit = Callable[[str], None]


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
) -> JobStatus:
    """Wait for a job's end, telling of its phases and its replicas' lines on the way.

    A job that can never start is ended; its status then is that it has failed, and why. One that is somebody else's is
    left alone.

    :param backend: where it runs.
    :param handle: the job.
    :param emit: takes each line for the task's log.
    :param reader: whose place in the logs is kept; None leaves the logs alone.
    :param startup_timeout: see :class:`~airflow_trainer_provider.job.monitor.Monitor`.
    :param leader_only: leave out the lines of all replicas but the one with rank 0.
    :param deadline: when to give up waiting; None waits for ever.
    :param only_until: the job is somebody else's, and one of these phases ends the wait as well; None for a job of
        ours.
    :return: the job's last status. All its lines have been emitted by then.
    :raises JobTimeout: the deadline has passed. The job goes on: ending it is the caller's choice.
    :raises JobLost: the job is gone.
    """
    monitor = Monitor(startup_timeout) if only_until is None else None
    ended: asyncio.Event | None = None
    lines: asyncio.Future[None] | None = None
    last: JobStatus | None = None
    told: str | None = None
    try:
        async with aclosing(_statuses(backend, handle, monitor, deadline)) as statuses:
            async for last in statuses:
                if reader and lines is None and _may_have_lines(last):
                    ended = asyncio.Event()
                    telling = _emit_logs(backend, handle, emit, reader, leader_only, ended)
                    lines = asyncio.ensure_future(telling)
                if last.phase.ended and lines and ended:
                    ended.set()
                    await lines
                if last.text() != told:
                    told = last.text()
                    emit(f"Training job {handle.name}: {told}.")
                if last.phase in (only_until or ()):
                    break
    finally:
        if lines:
            lines.cancel()
            await asyncio.gather(lines, return_exceptions=True)
    assert last is not None, "a watch tells at least how the job stands now"
    return last


@asynccontextmanager
async def end_of(backend: Backend, handle: JobHandle) -> AsyncIterator[asyncio.Event]:
    """Watch a job, for who reads its lines and nothing else; the event is set at the job's end.

    :param backend: where it runs.
    :param handle: the job.
    """
    ended = asyncio.Event()

    async def watch() -> None:
        try:
            async for _ in backend.watch(handle):
                pass
        finally:
            ended.set()

    watching = asyncio.ensure_future(watch())
    try:
        yield ended
    finally:
        watching.cancel()
        # How a job ends, or that it is gone, is not what was asked for.
        await asyncio.gather(watching, return_exceptions=True)


def _may_have_lines(status: JobStatus) -> bool:
    """Whether a replica has been anywhere yet. Who waits in a queue costs less without a reader of its logs."""
    underway = (JobPhase.STARTING, JobPhase.RUNNING, JobPhase.RESTARTING)
    return status.phase in underway or any(replica.reason or replica.started_at for replica in status.replicas)


async def _statuses(
    backend: Backend, handle: JobHandle, monitor: Monitor | None, deadline: datetime | None
) -> AsyncGenerator[JobStatus, None]:
    """The job's statuses up to its end; of a job that can never start, the last is that it has failed."""
    changes = backend.watch(handle)
    signal = Signal()
    change = _next(changes, signal)
    status: JobStatus | None = None
    try:
        while True:
            # A verdict may be due though nothing changes.
            verdict_in = monitor.next_wakeup(_now()) if monitor and status else None
            left = (deadline - _now()).total_seconds() if deadline else None
            await signal.wait(min((wait for wait in (verdict_in, left) if wait is not None), default=None))
            if change.done():
                status = change.result()
                if status is None:
                    return
                yield status
                change = _next(changes, signal)
            elif deadline and _now() >= deadline:
                raise JobTimeout(f"Training job {handle.name} had not ended by {deadline}.")
            verdict = monitor.observe(status, _now()) if monitor and status else None
            if status and verdict:
                outcome = verdict.outcome(status, _now())
                await backend.cancel(handle, f"it cannot start: {verdict.reason}: {verdict.message}")
                with suppress(JobLost):
                    while await change is not None:
                        change = _next(changes, signal)
                yield outcome
                return
    finally:
        change.cancel()
        await asyncio.gather(change, return_exceptions=True)


def _next(changes: AsyncIterator[JobStatus], signal: Signal) -> asyncio.Task[JobStatus | None]:
    """The next status, None at the end; sets the signal when it is there."""

    async def get() -> JobStatus | None:
        return await anext(changes, None)

    task = asyncio.ensure_future(get())
    task.add_done_callback(lambda _: signal.set())
    return task


async def _emit_logs(
    backend: Backend, handle: JobHandle, emit: Emit, reader: str, leader_only: bool, ended: asyncio.Event
) -> None:
    async for line in backend.logs(handle, reader, ended):
        if line.replica == handle.leader or not leader_only:
            emit(str(line))


def _now() -> datetime:
    return datetime.now(timezone.utc)
