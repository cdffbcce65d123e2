"""The jobs of the local backend, as this Airflow is configured."""

from __future__ import annotations

import argparse
import getpass
import uuid
from collections.abc import AsyncGenerator

from airflow_trainer_provider.errors import JobLost, ManageError, Problem, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.hooks.settings import load_settings
from airflow_trainer_provider.job.backend import Backend, LogBlock
from airflow_trainer_provider.job.follow import end_of
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.job.verdict import verdict
from airflow_trainer_provider.kinds.manifest import ManifestJob
from airflow_trainer_provider.local.backend import LocalBackend

#: More lines than are shown of a log's end.
_ALL = 10**9


class LocalPlace:
    """The jobs below ``[trainer] local_root``."""

    def __init__(self) -> None:
        settings = load_settings()
        self._local = LocalBackend(settings.local_root, settings.poll_interval, settings.local_keep)

    async def overviews(self) -> list[Overview]:
        """All jobs, the oldest first."""
        found = [await self._overview(handle, identity) for handle, identity in await self._local.jobs()]
        return sorted(found, key=lambda job: job.status.queued_at)

    async def describe(self, name: str, kind: str | None) -> Description:
        """One job."""
        handle, identity = await self._get(name)
        overview = await self._overview(handle, identity)
        why = await verdict(self._local, handle, get_framework(handle.framework), overview.status)
        return Description(overview, diagnosis=why)

    async def logs(self, arguments: argparse.Namespace) -> AsyncGenerator[LogBlock, None]:
        """The lines of one job's last attempt; those of all attempts where they are followed."""
        for option in ("previous", "tail") if arguments.follow else ("previous",):
            if getattr(arguments, option):
                allowed = "no such option for a local job" + (" with --follow" if option == "tail" else "")
                raise SpecError([Problem(f"--{option}", getattr(arguments, option), allowed, "Leave it out.")])
        handle, _ = await self._get(arguments.name)
        names = [replica.name for replica in (await self._local.status(handle)).replicas]
        if arguments.replica and arguments.replica not in names:
            raise ManageError(f"Training job {handle.name} has no replica {arguments.replica}: it has {names}.")
        if not arguments.follow:
            for name in [arguments.replica] if arguments.replica else names:
                yield LogBlock(name, await self._local.log_tail(handle, name, arguments.tail or _ALL))
            return
        async with end_of(self._local, handle) as ended:
            async for line in self._local.logs(handle, f"command-line-{uuid.uuid4()}", ended):
                if arguments.replica in (None, line.replica):
                    yield LogBlock(line.replica, [line.text])

    async def suspend(self, name: str, kind: str | None, *, wait: bool) -> str:
        """Refuse to."""
        raise _not_here(name, "suspended")

    async def resume(self, name: str, kind: str | None, *, wait: bool) -> str:
        """Refuse to."""
        raise _not_here(name, "suspended or resumed")

    async def delete(self, name: str, kind: str | None, *, wait: bool) -> str:
        """End a job's processes. Its folder stays as long as ``[trainer] local_keep_days`` says."""
        handle, _ = await self._get(name)
        if (await self._local.status(handle)).phase.ended:
            return f"Training job {name} has ended already; its logs stay."
        await self._local.cancel(handle, f"ended by {getpass.getuser()} on the command line")
        if wait:
            async for _ in self._local.watch(handle):
                pass
        return f"Ended training job {name}; its logs stay."

    async def backend(self, job: Job | ManifestJob, *, connected: bool) -> tuple[Backend, str | None]:
        """The backend for a new job."""
        if isinstance(job, ManifestJob):
            fix = "A manifest is for a cluster: drop --backend."
            raise SpecError([Problem("--backend", self._local.name, job.backend, fix)])
        return self._local, None

    async def close(self) -> None:
        """Nothing is open."""

    async def _get(self, name: str) -> tuple[JobHandle, Identity]:
        for handle, identity in await self._local.jobs():
            if handle.name == name:
                return handle, identity
        raise JobLost(f"There is no training job {name} of the local backend on this machine.")

    async def _overview(self, handle: JobHandle, identity: Identity) -> Overview:
        status = await self._local.status(handle)
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


def _not_here(name: str, what: str) -> ManageError:
    message = f"Training job {name} is one of the local backend, whose jobs cannot be {what}; delete ends it."
    return ManageError(message, retryable=False)
