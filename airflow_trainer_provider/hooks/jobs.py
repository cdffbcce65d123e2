"""What is asked of the jobs on several backends at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import cast

from airflow_trainer_provider.errors import BackendUnavailable, JobLost, ManageError, Problem, SpecError
from airflow_trainer_provider.job.backend import Backend, CleanedUp, CleanUp, Support, Wanted
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.overview import Overview
from airflow_trainer_provider.job.plan.plan import Plan
from airflow_trainer_provider.job.status import JobPhase, JobStatus

#: A job, and the backend that it runs on.
Located = tuple[Backend, JobHandle]


async def choose(backends: Iterable[Backend], job: Plan) -> tuple[Backend, str]:
    """The first backend that can run a job.

    :param backends: those to prefer first.
    :param job: what is to run.
    :return: the backend, and one line on why it is this one.
    :raises BackendUnavailable: there is none.
    """
    refused: list[str] = []
    for backend in backends:
        support = await _support(backend, job)
        if support.can_run:
            return backend, "; ".join([f"Backend auto: took {backend.name}: {support.why}", *refused]) + "."
        refused.append(f"not {backend.name}: {support.why}")
    raise BackendUnavailable("\n  ".join(["backend='auto' found no backend that can run this job:", *refused]))


async def _support(backend: Backend, job: Plan) -> Support:
    try:
        backend.check(job)
    except SpecError as error:
        return Support(False, "; ".join(map(str, error.problems)))
    return await backend.support(job)


async def search(backends: Iterable[Backend], wanted: Wanted) -> list[JobHandle]:
    """The jobs that are looked for, as far as they exist.

    :param backends: where to look.
    :param wanted: which jobs.
    :raises SpecError: several match, and one is meant.
    """
    found = await _search(backends, wanted)
    if len(found) > 1 and not wanted.every:
        allowed = f"what fits one job only; it fits {len(found)}: {_titles(found)}"
        fix = "Narrow it, name the kind, or wait for all of them with every_match=True."
        field, value = ("name", wanted.name) if wanted.name else ("selector", wanted.selector)
        raise SpecError([Problem(field, value, allowed, fix)])
    return [handle for _, handle in found]


async def get(backends: Iterable[Backend], name: str, kind: str | None = None) -> Located:
    """The job of a name.

    :param backends: where to look.
    :param name: of the job.
    :param kind: of the job; None for any.
    :raises SpecError: there is no such kind.
    :raises JobLost: there is no such job.
    :raises ManageError: there are several, of different kinds.
    """
    asked = list(backends)
    wanted = Wanted(name=name, kind=kind, every=True)
    found = await _search(asked, wanted)
    if not found:
        raise JobLost(f"There is no {wanted} {where(asked)}.")
    if len(found) > 1:
        message = f"There are {len(found)} jobs called {name}: say which kind, of {_titles(found)}."
        raise ManageError(message, retryable=False)
    return found[0]


def where(backends: Iterable[Backend]) -> str:
    """What messages say of where jobs are looked for."""
    return " or ".join(dict.fromkeys(backend.where() for backend in backends))


async def overviews(backends: Iterable[Backend]) -> list[Overview]:
    """The statuses of all jobs, the oldest first.

    :param backends: where to look.
    """
    found = [each for backend in backends for each in await backend.overviews()]
    return sorted(found, key=lambda job: job.status.queued_at)


async def clean_up(backends: Iterable[Backend], wanted: CleanUp) -> list[CleanedUp]:
    """Delete jobs that no task needs any more, and what interrupted submits have left.

    :param backends: where to look.
    :param wanted: which of them.
    :return: what was deleted, or would be; what two backends know, once.
    """
    found = [each for backend in backends for each in await backend.clean_up(wanted)]
    return list(dict.fromkeys(found))


async def until_running(backend: Backend, handle: JobHandle) -> JobStatus:
    """Wait until all replicas of a job run, or the job has ended.

    :param backend: where it runs.
    :param handle: the job.
    :return: its status then.
    :raises JobLost: it is gone.
    """
    statuses = cast("AsyncGenerator[JobStatus, None]", backend.watch(handle))
    async with aclosing(statuses):
        async for status in statuses:
            if status.phase is JobPhase.RUNNING or status.phase.ended:
                return status
    raise JobLost(f"Training job {handle.name} is gone.")


async def _search(backends: Iterable[Backend], wanted: Wanted) -> list[Located]:
    found: dict[str, Located] = {}
    for backend in backends:
        for handle in await backend.search(wanted):
            # Two backends may know one object, each in a version of its own.
            found.setdefault(handle.uid, (backend, handle))
    return list(found.values())


def _titles(found: Iterable[Located]) -> str:
    return ", ".join(sorted(backend.title(handle) for backend, handle in found))
