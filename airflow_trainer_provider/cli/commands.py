"""What each command does."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import datetime, timezone

from airflow_trainer_provider.cli import text
from airflow_trainer_provider.cli.job_file import read_job
from airflow_trainer_provider.cli.places import Place
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.verdict import verdict
from airflow_trainer_provider.kinds.manifest import ManifestJob

#: What stands for the DAG of a job that no DAG has.
_DAG = "command-line"


async def run_command(place: Place, arguments: argparse.Namespace) -> bool:
    """Do what a command line says.

    :param place: where the jobs are.
    :return: False where the job that it waited for has failed.
    """
    try:
        return await _COMMANDS[arguments.command](place, arguments) is not False
    finally:
        await place.close()


async def _render(place: Place, arguments: argparse.Namespace) -> None:
    job = read_job(arguments.file)
    backend, why = await place.backend(job, connected=False)
    _tell(why)
    backend.check(job)
    print(backend.render(job, _identity(job)), end="")


async def _submit(place: Place, arguments: argparse.Namespace) -> bool:
    job = read_job(arguments.file)
    backend, why = await place.backend(job, connected=True)
    _tell(why)
    backend.check(job)
    handle = (await backend.submit(job, _identity(job))).handle
    print(json.dumps(handle.to_xcom()), flush=True)
    return await _wait(backend, handle, job.spec.run_policy.startup_timeout_seconds) if arguments.wait else True


async def _wait(backend: Backend, handle: JobHandle, startup_timeout: float | None) -> bool:
    status = await follow(backend, handle, emit=_print, reader=_DAG, deadline=None, startup_timeout=startup_timeout)
    why = await verdict(backend, handle, get_framework(handle.framework), status)
    if why:
        print(why.text(), file=sys.stderr)
        return False
    print(json.dumps(summarize(handle, status, await backend.result(handle))))
    return True


async def _list(place: Place, arguments: argparse.Namespace) -> None:
    found = await place.overviews()
    if arguments.output == "json":
        print(json.dumps([job.to_json() for job in found], indent=2))
    else:
        print(text.table(found, datetime.now(timezone.utc)))


async def _describe(place: Place, arguments: argparse.Namespace) -> None:
    found = await place.describe(arguments.name, arguments.kind)
    print(json.dumps(found.to_json(), indent=2) if arguments.output == "json" else text.describe(found))


async def _logs(place: Place, arguments: argparse.Namespace) -> None:
    async with aclosing(place.logs(arguments)) as blocks:
        async for block in blocks:
            # Lines that come together are written together.
            sys.stdout.write("".join([f"{line}\n" for line in block.lines()]))
            sys.stdout.flush()


async def _suspend(place: Place, arguments: argparse.Namespace) -> None:
    print(await place.suspend(arguments.name, arguments.kind, wait=not arguments.no_wait))


async def _resume(place: Place, arguments: argparse.Namespace) -> None:
    print(await place.resume(arguments.name, arguments.kind, wait=arguments.wait))


async def _delete(place: Place, arguments: argparse.Namespace) -> None:
    print(await place.delete(arguments.name, arguments.kind, wait=not arguments.no_wait))


_COMMANDS: dict[str, Callable[[Place, argparse.Namespace], Awaitable[bool | None]]] = {
    "render": _render,
    "submit": _submit,
    "list": _list,
    "describe": _describe,
    "logs": _logs,
    "suspend": _suspend,
    "resume": _resume,
    "delete": _delete,
}


def _identity(job: Job | ManifestJob) -> Identity:
    """Each submission is a run of its own: nothing is adopted."""
    return Identity(dag_id=_DAG, run_id=uuid.uuid4().hex, task_id=job.spec.name or job.framework.name or "job")


def _tell(why: str | None) -> None:
    if why:
        print(why, file=sys.stderr)


def _print(line: str) -> None:
    print(line, flush=True)
