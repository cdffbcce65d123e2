"""Operations on the jobs of several backends."""

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

    :param backends: the backends in order of preference.
    :param job: the job to run.
    :return: the backend, and one line with the reason for the choice.
    :raises BackendUnavailable: no backend can run the job.
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
    """The existing jobs that match.

    :param backends: the backends to search.
    :param wanted: which jobs to find.
    :raises SpecError: several jobs match, but only one is expected.
    """
    found = await _search(backends, wanted)
    if len(found) > 1 and not wanted.every:
        allowed = f"what fits one job only; it fits {len(found)}: {_titles(found)}"
        fix = "Narrow it, name the kind, or wait for all of them with every_match=True."
        field, value = ("name", wanted.name) if wanted.name else ("selector", wanted.selector)
        raise SpecError([Problem(field, value, allowed, fix)])
    return [handle for _, handle in found]


async def get(backends: Iterable[Backend], name: str, kind: str | None = None) -> Located:
    """The job with a name.

    :param backends: the backends to search.
    :param name: the job's name.
    :param kind: the job's kind; None for any kind.
    :raises SpecError: there is no such kind.
    :raises JobLost: there is no such job.
    :raises ManageError: several jobs of different kinds have this name.
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
    """The searched places, as messages name them."""
    return " or ".join(dict.fromkeys(backend.where() for backend in backends))


async def overviews(backends: Iterable[Backend]) -> list[Overview]:
    """The statuses of all jobs, the oldest first.

    :param backends: the backends to search.
    """
    found = [each for backend in backends for each in await backend.overviews()]
    return sorted(found, key=lambda job: job.status.queued_at)


async def clean_up(backends: Iterable[Backend], wanted: CleanUp) -> list[CleanedUp]:
    """Delete jobs that no task needs any more, and the objects that interrupted submits have left behind.

    :param backends: the backends to clean up.
    :param wanted: which jobs and objects to delete.
    :return: what was deleted, or what would be deleted; an object that two backends know is listed once.
    """
    found = [each for backend in backends for each in await backend.clean_up(wanted)]
    return list(dict.fromkeys(found))


async def until_running(backend: Backend, handle: JobHandle) -> JobStatus:
    """Wait until all replicas of a job run, or the job has ended.

    :param backend: the job's backend.
    :param handle: the job.
    :return: the job's status at that time.
    :raises JobLost: the job no longer exists.
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
            # Two backends may know the same object, each through a different API version.
            found.setdefault(handle.uid, (backend, handle))
    return list(found.values())


def _titles(found: Iterable[Located]) -> str:
    return ", ".join(sorted(backend.title(handle) for backend, handle in found))
