"""Waits for jobs that are selected by name or label. They may be created outside Airflow, and are never changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from airflow_trainer_provider.errors import ApiError, JobTimeout, SpecError
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.backend import Wanted
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.spec.validation import choice

#: Seconds between two searches for a job that does not exist yet.
_LOOK_SECONDS = 3.0
#: How long one poke follows a job before it returns that the job has not ended.
_POKE = timedelta(seconds=1)
#: The name of the reader that reads all lines of an ended job at once.
_AT_THE_END = "end"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Found:
    """A job and its outcome.

    :param handle: the job.
    :param outcome: its summary, or why it failed.
    """

    handle: JobHandle
    outcome: JobOutcome

    def to_json(self) -> dict[str, Any]:
        """The job and its outcome as JSON values."""
        return {"job": dict(self.handle.to_xcom()), **self.outcome.to_json()}

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Found:
        """Create the object from the values of :meth:`to_json`.

        :param value: the JSON values.
        """
        return cls(JobHandle.parse(value["job"]), JobOutcome.parse(value))


class FoundJobs:
    """The jobs that a name or a selector selects.

    :param hook: the hook for the connection and the namespace to search.
    :param wanted: which jobs to find.
    :param phases: the phases in which the wait succeeds.
    :param emit: receives each line for the task's log.
    :raises SpecError: there is no such phase.
    """

    def __init__(self, hook: TrainerHook, wanted: Wanted, phases: Sequence[str], emit: Callable[[str], None]) -> None:
        self._hook = hook
        self._wanted = wanted
        self._phases = allowed(phases)
        self._emit = emit
        self._reported: str | None = None
        #: The jobs that were found so far. A job that is deleted later is lost, and not one that is yet to be created.
        self._seen: dict[str, JobHandle] = {}
        self._ended: dict[str, Found] = {}

    async def wait(self, reader: str, deadline: datetime | None) -> list[Found]:
        """Wait until the jobs exist, and have reached an allowed phase.

        :param reader: the name under which the log cursor is kept.
        :param deadline: when to give up.
        :raises JobTimeout: the deadline has passed.
        :raises JobLost: one of the jobs no longer exists.
        """
        while True:
            pending = await self._look()
            if not pending and self._ended:
                return list(self._ended.values())
            if pending:
                await self._follow(pending, reader, deadline)
            elif deadline and datetime.now(timezone.utc) >= deadline:
                raise JobTimeout(self.late())
            else:
                await asyncio.sleep(_LOOK_SECONDS)

    async def poke(self, reader: str | None) -> list[Found] | None:
        """Look once.

        :param reader: the name under which this process keeps the log cursor; None emits all lines at once, at the end.
        :return: the jobs; None as long as a job does not exist, or has not reached an allowed phase.
        """
        pending = await self._look()
        if reader is None and not await self._all_there(pending):
            return None
        try:
            await self._follow(pending, reader, datetime.now(timezone.utc) + _POKE, to_end=True)
        except JobTimeout:
            return None
        # More jobs may have been created meanwhile.
        return list(self._ended.values()) if self._ended and not await self._look() else None

    def late(self) -> str:
        """The message after the deadline."""
        if self._seen:
            names = ", ".join(handle.name for handle in self._pending())
            return f"Not where it should be in time: training job {names}; it was left alone."
        return f"There was no {self._wanted} in time."

    async def _look(self) -> list[JobHandle]:
        """The found jobs that have not reached an allowed phase yet."""
        if not self._seen or self._wanted.every:
            try:
                found = await self._hook.search(self._wanted)
            except ApiError as error:
                if error.status is not None and error.status < 500 and error.status != 429:
                    raise
                # During an outage of the cluster the job's state is unknown.
                self._report(f"Looking for it goes on, though the cluster does not answer: {error}")
                return self._pending()
            self._seen |= {handle.uid: handle for handle in found}
            if not self._seen:
                self._report(f"There is no {self._wanted} {await self._hook.where()} yet.")
        return self._pending()

    async def _all_there(self, handles: Sequence[JobHandle]) -> bool:
        """Whether all jobs have ended or reached an allowed phase. Logs the status of each of the others."""
        there = True
        for handle in handles:
            status = await (await self._hook.backend_of(handle)).status(handle)
            if not status.phase.ended and status.phase not in self._phases:
                self._emit(f"Training job {handle.name}: {status.text()}.")
                there = False
        return there

    def _pending(self) -> list[JobHandle]:
        return [handle for uid, handle in self._seen.items() if uid not in self._ended]

    async def _follow(
        self, handles: Sequence[JobHandle], reader: str | None, deadline: datetime | None, *, to_end: bool = False
    ) -> None:
        await _all([self._follow_one(handle, reader, deadline, to_end) for handle in handles])

    async def _follow_one(self, handle: JobHandle, reader: str | None, deadline: datetime | None, to_end: bool) -> None:
        if to_end and (await (await self._hook.backend_of(handle)).status(handle)).phase.ended:
            # All lines of an ended job are read, without a time limit.
            reader, deadline = reader or _AT_THE_END, None
        outcome = await self._hook.wait(
            handle,
            emit=self._emit_of(handle),
            # A sensor that waits for a phase such as running does not log the lines of the training.
            reader=reader if all(phase.ended for phase in self._phases) else None,
            deadline=deadline,
            only_until=self._phases,
        )
        self._ended[handle.uid] = Found(handle, outcome)

    def _emit_of(self, handle: JobHandle) -> Callable[[str], None]:
        if not self._wanted.every:
            return self._emit
        return lambda line: self._emit(f"{handle.name}: {line}" if line.startswith("[") else line)

    def _report(self, line: str) -> None:
        if line != self._reported:
            self._reported = line
            self._emit(line)


def allowed(phases: Sequence[str]) -> frozenset[JobPhase]:
    """The phases in which a wait succeeds. A succeeded job counts as having been running, even if no poke saw that.

    :param phases: the names of the phases.
    :raises SpecError: there is no such phase, or the list is empty.
    """
    known = [phase.value for phase in JobPhase]
    wrong = next((name for name in phases if name not in known), None)
    if wrong is not None or not phases:
        raise SpecError([choice("allowed_phases", wrong, known, "Use some of these.")])
    found = {JobPhase(name) for name in phases}
    return frozenset(found | ({JobPhase.SUCCEEDED} if JobPhase.RUNNING in found else set()))


async def _all(waits: Sequence[Awaitable[_T]]) -> list[_T]:
    """Run all coroutines to their end; the first error cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
