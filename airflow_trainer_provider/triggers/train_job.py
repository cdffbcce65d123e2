"""Waits for a training job in the triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_trainer_provider.timeouts import with_timeout
from airflow_trainer_provider.triggers.payload import event_of

if TYPE_CHECKING:
    from airflow_trainer_provider.hooks.reports import Reports
    from airflow_trainer_provider.hooks.task import TaskInstanceLike

#: Seconds for a cancelled trigger to end its job. Airflow 3.3 allows it the same time.
_KILL_SECONDS = 30
#: References to running tasks: the event loop alone does not protect them from garbage collection.
_under_way: set[asyncio.Task[None]] = set()


class TrainJobTrigger(BaseTrigger):
    """Fires once, when the job has ended or the deadline has passed.

    The trigger's row in the database has everything that is needed to continue in another triggerer, and no secrets.

    :param job: the job's handle, as a mapping.
    :param reader: the name under which the log cursor is kept; None does not read the logs.
    :param deadline: when to give up waiting, in ISO 8601; None waits for ever.
    :param cancel_on_kill: whether the job belongs to the task. If so, the job is ended when the task is marked, cleared
        or timed out during the wait, and the job's progress is written to the task's XCom.
    :param startup_timeout: seconds that the job may take to start; None ends only jobs that can never start.
    :param metrics: regular expressions that read metrics from the lines of rank 0.
    :param starts: how many jobs this try of the task has submitted so far.
    :param more_memory: how the memory of these jobs was increased; None if it was not.
    """

    def __init__(
        self,
        job: dict[str, Any],
        reader: str | None,
        deadline: str | None,
        cancel_on_kill: bool,
        startup_timeout: float | None = None,
        metrics: dict[str, str] | None = None,
        starts: int = 1,
        more_memory: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job = job
        self.reader = reader
        self.deadline = deadline
        self.cancel_on_kill = cancel_on_kill
        self.startup_timeout = startup_timeout
        self.metrics = metrics or {}
        self.starts = starts
        self.more_memory = more_memory
        self._is_cancelled = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of this class, and the arguments to create the trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "job": self.job,
                "reader": self.reader,
                "deadline": self.deadline,
                "cancel_on_kill": self.cancel_on_kill,
                "startup_timeout": self.startup_timeout,
                # Omitted if they have their default: a triggerer with an earlier version does not have these fields.
                **({"metrics": self.metrics} if self.metrics else {}),
                **({"starts": self.starts} if self.starts > 1 else {}),
                **({"more_memory": self.more_memory} if self.more_memory else {}),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the job; the event reports how the wait ended.

        The event's ``end`` is ``concluded``, with the fields of a
        :class:`~airflow_trainer_provider.job.outcome.JobOutcome`; ``timed out``; or ``error``, with a ``message`` and
        whether the error is ``retryable``. The event's ``kwargs`` are the arguments for the method that resumes the
        task: without a scheduler, Airflow passes only the event to it.
        """
        # Imported here, since DAG files import this module through the operator.
        from airflow_trainer_provider.triggers.firing import ready_to_fire

        begun = time.monotonic()
        try:
            event = await self._end()
            await ready_to_fire(self, begun)
        except asyncio.CancelledError:
            # Either the triggerer stops, or the trigger was taken from it: only Airflow's database shows which.
            self._is_cancelled = True
            raise
        yield event_of({**event, "kwargs": self._kwargs()})

    def _kwargs(self) -> dict[str, Any]:
        memory = {"more_memory": self.more_memory} if self.more_memory else {}
        return {"job": self.job, "deadline": self.deadline, "starts": self.starts, **memory}

    async def _end(self) -> dict[str, Any]:
        from airflow_trainer_provider.errors import JobTimeout, TrainJobError
        from airflow_trainer_provider.hooks.trainer import TrainerHook
        from airflow_trainer_provider.job.handle import JobHandle
        from airflow_trainer_provider.text.redaction import redacted_text

        handle = JobHandle.parse(self.job)
        deadline = datetime.fromisoformat(self.deadline) if self.deadline else None
        try:
            outcome = await TrainerHook.for_job(handle).wait(
                handle,
                emit=self._emit,
                reader=self.reader,
                deadline=deadline,
                startup_timeout=self.startup_timeout,
                reports=self._reports(),
            )
            return {"end": "concluded", **outcome.to_json()}
        except JobTimeout:
            return {"end": "timed out"}
        except TrainJobError as error:
            return {"end": "error", "message": str(error), "retryable": error.retryable}
        except Exception as error:
            # The next try adopts the job.
            self.log.exception("The wait for training job %s has failed", handle.name)
            message = redacted_text(f"{type(error).__name__}: {error}")
            return {"end": "error", "message": message, "retryable": True}

    def _reports(self) -> Reports | None:
        from airflow_trainer_provider.hooks.reports import Reports
        from airflow_trainer_provider.hooks.task import identity_of_task

        if not self.cancel_on_kill or self.task_instance is None:
            return None
        return Reports(identity_of_task(self.task_instance), self.metrics)

    async def on_kill(self) -> None:
        """End the job if the task is over: it was marked or cleared, or its run has ended.

        Airflow 3.3 calls this for each trigger that it takes from this triggerer. The reason may also be that this
        triggerer was suspended or overloaded, and another one has taken over; then the job continues.
        """
        if not self.cancel_on_kill or self.task_instance is None:
            return
        # Airflow cancels the trigger again at each of its syncs, a second apart, until this has returned.
        work = asyncio.create_task(with_timeout(self._end_if_over(self.task_instance), _KILL_SECONDS))
        _under_way.add(work)
        work.add_done_callback(_under_way.discard)
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        await work

    async def _end_if_over(self, ti: TaskInstanceLike) -> None:
        from airflow_trainer_provider.hooks.task import has_another_job, identity_of_task, state_if_over, why_ended
        from airflow_trainer_provider.hooks.trainer import TrainerHook
        from airflow_trainer_provider.job.handle import JobHandle

        handle, identity = JobHandle.parse(self.job), identity_of_task(ti)
        try:
            state = await state_if_over(identity)
            if state is None and await has_another_job(identity, handle.uid):
                state = "retrained by another job"
        except Exception as error:
            self.log.warning("Airflow does not say why the trigger was cancelled (%s); the job goes on.", error)
            return
        if state is None:
            self.log.info("The task still waits for training job %s, elsewhere: it goes on.", handle.name)
            return
        await TrainerHook.for_job(handle).cancel(handle, why_ended(state))

    async def cleanup(self) -> None:
        """Call :meth:`on_kill`, which Airflow itself calls only since 3.3."""
        if self._is_cancelled and not hasattr(BaseTrigger, "on_kill"):
            await self.on_kill()

    def _emit(self, line: str) -> None:
        from airflow_trainer_provider.hooks.supervisor.task_log import write_line

        # One logger for all triggers, since a logger for each would take 1 KiB. The context identifies the task.
        write_line(line)
