"""Overviews and descriptions of the jobs on this machine, for users."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Iterable

from airflow_trainer_provider.errors import ManageError, Problem, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.backend import Backend, LogBlock, LogSelection
from airflow_trainer_provider.job.follow import end_of
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.job.verdict import verdict


async def overview(backend: Backend, handle: JobHandle, identity: Identity | None) -> Overview:
    """The status of a job.

    :param backend: where it runs.
    :param handle: the job.
    :param identity: the try that submitted it.
    """
    status = await backend.status(handle)
    return Overview(
        name=handle.name,
        kind=handle.backend,
        backend=handle.backend,
        location=handle.location,
        framework=handle.framework,
        status=status,
        replicas=len(status.replicas),
        identity=identity,
    )


async def describe(backend: Backend, handle: JobHandle, identity: Identity | None) -> Description:
    """All that is known of a job, and why it failed where it has. Parameters as for :func:`overview`."""
    found = await overview(backend, handle, identity)
    why = await verdict(backend, handle, get_framework(handle.framework), found.status)
    return Description(found, diagnosis=why)


async def show_logs(
    backend: Backend, handle: JobHandle, selection: LogSelection, last: Callable[[str, int | None], Iterable[str]]
) -> AsyncGenerator[LogBlock, None]:
    """The lines of a job's last attempt; where they are followed, those of all attempts.

    :param backend: where it runs.
    :param handle: the job.
    :param selection: which lines.
    :param last: (replica, a number of lines or None) -> that many of the replica's last lines, or all of them.
    :raises SpecError: the log files of a local job do not allow this selection.
    :raises ManageError: the job has no such replica.
    """
    _check(selection)
    names = [replica.name for replica in (await backend.status(handle)).replicas]
    if selection.replica and selection.replica not in names:
        message = f"Training job {handle.name} has no replica {selection.replica}: it has {', '.join(names)}."
        raise ManageError(message, retryable=False)
    if not selection.follow:
        for name in [selection.replica] if selection.replica else names:
            yield LogBlock(name, last(name, selection.tail))
        return
    async with end_of(backend, handle) as ended:
        async for line in backend.logs(handle, f"viewer-{uuid.uuid4()}", ended):
            if selection.replica in (None, line.replica):
                yield LogBlock(line.replica, [line.text])


def _check(selection: LogSelection) -> None:
    for option in ("previous", "tail") if selection.follow else ("previous",):
        if getattr(selection, option):
            allowed = "no value for a local job" + (" that is followed" if option == "tail" else "")
            raise SpecError([Problem(option, getattr(selection, option), allowed, "Leave it out.")])
