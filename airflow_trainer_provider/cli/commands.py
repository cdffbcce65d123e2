"""What each command does."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import datetime, timezone

from airflow_trainer_provider.cli import text
from airflow_trainer_provider.cli.backends import Backends
from airflow_trainer_provider.cli.job_file import read_job
from airflow_trainer_provider.cli.policies import governed
from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.hooks.jobs import Located, get, overviews, until_running
from airflow_trainer_provider.job.backend import Backend, LogSelection
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.plan import Plan
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.verdict import verdict

#: The DAG id of jobs that are submitted without a DAG.
_DAG = "command-line"


async def run_command(backends: Backends, arguments: argparse.Namespace) -> bool:
    """Run the command that a command line names.

    :param backends: where the jobs are.
    :return: False where the job that it waited for has failed.
    """
    try:
        return await _COMMANDS[arguments.command](backends, arguments) is not False
    finally:
        await backends.close()


async def _render(backends: Backends, arguments: argparse.Namespace) -> None:
    job = read_job(arguments.file, governed(backends.namespace))
    backend, why = await backends.for_job(job)
    _explain(why)
    backend.check(job)
    print(backend.render(job, _identity(job)), end="")


async def _submit(backends: Backends, arguments: argparse.Namespace) -> bool:
    policies = governed(backends.namespace)
    job = read_job(arguments.file, policies)
    backend, why = await backends.for_job(job)
    _explain(why)
    backend.check(job)
    handle = (await backend.submit(job, _identity(job), admit=policies.admission(job))).handle
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


async def _list(backends: Backends, arguments: argparse.Namespace) -> None:
    found = await overviews(backends.all)
    if arguments.output == "json":
        print(json.dumps([job.to_json() for job in found], indent=2))
    else:
        print(text.table(found, datetime.now(timezone.utc)))


async def _describe(backends: Backends, arguments: argparse.Namespace) -> None:
    backend, handle = await _get(backends, arguments)
    found = await backend.describe(handle)
    print(json.dumps(found.to_json(), indent=2) if arguments.output == "json" else text.describe(found))


async def _logs(backends: Backends, arguments: argparse.Namespace) -> None:
    if arguments.previous and arguments.follow:
        raise SpecError([Problem("--previous", "with --follow", "one of the two", "Leave one of them out.")])
    backend, handle = await _get(backends, arguments)
    selection = LogSelection(arguments.replica, arguments.tail, arguments.previous, arguments.follow)
    async with aclosing(backend.show_logs(handle, selection)) as blocks:
        async for block in blocks:
            # Lines that come together are written together.
            sys.stdout.write("".join([f"{line}\n" for line in block.lines()]))
            sys.stdout.flush()


async def _suspend(backends: Backends, arguments: argparse.Namespace) -> None:
    backend, handle = await _get(backends, arguments)
    print(await backend.suspend(handle, wait=not arguments.no_wait))


async def _resume(backends: Backends, arguments: argparse.Namespace) -> None:
    backend, handle = await _get(backends, arguments)
    message = await backend.resume(handle)
    if arguments.wait:
        message += f" It is {(await until_running(backend, handle)).text()}."
    print(message)


async def _delete(backends: Backends, arguments: argparse.Namespace) -> None:
    backend, handle = await _get(backends, arguments)
    reason = f"deleted by {getpass.getuser()} on the command line"
    print(await backend.delete(handle, reason, wait=not arguments.no_wait))


_COMMANDS: dict[str, Callable[[Backends, argparse.Namespace], Awaitable[bool | None]]] = {
    "render": _render,
    "submit": _submit,
    "list": _list,
    "describe": _describe,
    "logs": _logs,
    "suspend": _suspend,
    "resume": _resume,
    "delete": _delete,
}


async def _get(backends: Backends, arguments: argparse.Namespace) -> Located:
    return await get(backends.all, arguments.name, arguments.kind)


def _identity(job: Plan) -> Identity:
    """An identity with a run id of its own for each submission, so that no job is adopted."""
    return Identity(dag_id=_DAG, run_id=uuid.uuid4().hex, task_id=job.spec.name or job.framework.name or "job")


def _explain(why: str | None) -> None:
    if why:
        print(why, file=sys.stderr)


def _print(line: str) -> None:
    print(line, flush=True)
