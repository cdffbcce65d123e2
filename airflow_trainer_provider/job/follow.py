"""Follows one job to its end. The operator and the trigger run this same coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone

from airflow_trainer_provider.errors import JobTimeout
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.status import JobStatus

Emit = Callable[[str], None]


async def follow(
    backend: Backend,
    handle: JobHandle,
    *,
    emit: Emit,
    reader: str | None,
    deadline: datetime | None,
    leader_only: bool = False,
) -> JobStatus:
    """Wait for a job's end, telling of its phases and its replicas' lines on the way.

    :param backend: where it runs.
    :param handle: the job.
    :param emit: takes each line for the task's log.
    :param reader: whose place in the logs is kept; None leaves the logs alone.
    :param leader_only: leave out the lines of all replicas but the one with rank 0.
    :param deadline: when to give up waiting; None waits for ever.
    :return: the job's last status. All its lines have been emitted by then.
    :raises JobTimeout: the deadline has passed. The job goes on: ending it is the caller's choice.
    :raises JobLost: the job is gone.
    """
    remaining = (deadline - datetime.now(timezone.utc)).total_seconds() if deadline else None
    end = asyncio.ensure_future(_to_end(backend, handle, emit, reader, leader_only))
    try:
        # Not wait_for(): a TimeoutError of the backend's own must not be taken for the deadline.
        done, _ = await asyncio.wait({end}, timeout=remaining)
        if not done:
            raise JobTimeout(f"Training job {handle.name} had not ended by {deadline}.")
        return end.result()
    finally:
        end.cancel()
        await asyncio.gather(end, return_exceptions=True)


async def _to_end(backend: Backend, handle: JobHandle, emit: Emit, reader: str | None, leader_only: bool) -> JobStatus:
    lines = asyncio.ensure_future(_emit_logs(backend, handle, emit, reader, leader_only)) if reader else None
    try:
        status = await backend.status(handle)
        told = None
        async for status in backend.watch(handle):
            if status.phase.ended and lines:
                await lines
            if status.text() != told:
                told = status.text()
                emit(f"Training job {handle.name}: {told}.")
    finally:
        if lines:
            lines.cancel()
            await asyncio.gather(lines, return_exceptions=True)
    return status


async def _emit_logs(backend: Backend, handle: JobHandle, emit: Emit, reader: str, leader_only: bool) -> None:
    async for line in backend.logs(handle, reader):
        if line.replica == handle.leader or not leader_only:
            emit(str(line))
