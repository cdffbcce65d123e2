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

#: Seconds in which a trigger that was cancelled has to end its job. Airflow 3.3 gives it as many.
_KILL_SECONDS = 30
#: A loop alone does not keep its tasks from being collected.
_under_way: set[asyncio.Task[None]] = set()


class TrainJobTrigger(BaseTrigger):
    """Fires once, when the job has ended or the deadline has passed.

    All that it must remember is in its row, so that it goes on in another triggerer where it stopped; that row
    holds no secret.

    :param job: the job's handle, as its mapping.
    :param reader: whose log cursor is kept; None leaves the logs alone.
    :param deadline: when to give up waiting, in ISO 8601; None waits for ever.
    :param cancel_on_kill: whether the job ends when the task is marked, cleared or timed out while it waits here. Then
        it is the task's own job, whose progress is written to the XCom of the task.
    :param startup_timeout: seconds that the job may take to start; None bounds only what can never start.
    :param metrics: regular expressions that read metrics from the lines of rank 0.
    :param starts: how many jobs the try of the task has had.
    :param more_memory: how the memory of these was raised; None for not at all.
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
        """Where this class is, and what to make it with."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "job": self.job,
                "reader": self.reader,
                "deadline": self.deadline,
                "cancel_on_kill": self.cancel_on_kill,
                "startup_timeout": self.startup_timeout,
                # Left out where they say nothing: a triggerer of an earlier version knows no such fields.
                **({"metrics": self.metrics} if self.metrics else {}),
                **({"starts": self.starts} if self.starts > 1 else {}),
                **({"more_memory": self.more_memory} if self.more_memory else {}),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the job; the event says how the wait ended.

        ``end`` is ``concluded``, with the whole :class:`~airflow_trainer_provider.job.outcome.JobOutcome` beside it;
        ``timed out``; or ``error``, with its ``message`` and whether it is ``retryable``. Beside that, ``kwargs`` has
        the arguments with which the task goes on: without a scheduler, Airflow passes it the event only.
        """
        # Not at the module's top: DAG files import this module through the operator.
        from airflow_trainer_provider.triggers.firing import ready_to_fire

        begun = time.monotonic()
        try:
            event = await self._end()
            await ready_to_fire(self, begun)
        except asyncio.CancelledError:
            # By a triggerer that stops, or whose trigger was taken from it: only Airflow's database knows.
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

        Airflow 3.3 calls this for each trigger that it takes from this triggerer. That may as well be because another
        triggerer has taken over, where this one was suspended or overloaded; then the job goes on.
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
        """Do what :meth:`on_kill` does, which Airflow does not call before 3.3."""
        if self._is_cancelled and not hasattr(BaseTrigger, "on_kill"):
            await self.on_kill()

    def _emit(self, line: str) -> None:
        from airflow_trainer_provider.hooks.supervisor.task_log import write_line

        # The class's logger: one for each trigger takes 1 KiB. Airflow knows by the context whose line it is.
        write_line(line)
