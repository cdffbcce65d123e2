"""Waits for a training job in the triggerer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class TrainJobTrigger(BaseTrigger):
    """Fires once, when the job has ended or the deadline has passed.

    All that it must remember is in its row, so that it goes on in another triggerer where it stopped; that row
    holds no secret.

    :param job: the job's handle, as its mapping.
    :param reader: whose place in the logs is kept; None leaves the logs alone.
    :param deadline: when to give up waiting, in ISO 8601; None waits for ever.
    :param cancel_on_kill: whether the job ends when the task is marked, cleared or timed out while it waits here.
    :param startup_timeout: seconds that the job may take to start; None bounds only what can never start.
    """

    def __init__(
        self,
        job: dict[str, Any],
        reader: str | None,
        deadline: str | None,
        cancel_on_kill: bool,
        startup_timeout: float | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job = job
        self.reader = reader
        self.deadline = deadline
        self.cancel_on_kill = cancel_on_kill
        self.startup_timeout = startup_timeout

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
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the job; the event says how the wait ended.

        ``end`` is ``concluded``, with the whole :class:`~airflow_trainer_provider.job.conclusion.Conclusion` beside it;
        ``timed out``; or ``error``, with its ``message`` and whether it is ``retryable``.
        """
        # Not at the module's top: DAG files import this module through the operator.
        from airflow_trainer_provider.errors import JobTimeout, TrainJobError
        from airflow_trainer_provider.hooks.trainer import TrainerHook
        from airflow_trainer_provider.job.handle import JobHandle

        handle = JobHandle.parse(self.job)
        deadline = datetime.fromisoformat(self.deadline) if self.deadline else None
        try:
            conclusion = await TrainerHook.for_job(handle).wait(
                handle,
                emit=self._emit,
                reader=self.reader,
                deadline=deadline,
                startup_timeout=self.startup_timeout,
            )
            event = {"end": "concluded", **conclusion.to_json()}
        except JobTimeout:
            event = {"end": "timed out"}
        except TrainJobError as error:
            event = {"end": "error", "message": str(error), "retryable": error.retryable}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """End the job: somebody marked or cleared the task. Airflow before 3.3 does not call this.

        There the listener in :mod:`airflow_trainer_provider.plugins.ended_tasks` ends the job of a marked task, and
        the next try of a cleared one adopts it.
        """
        from airflow_trainer_provider.hooks.trainer import TrainerHook
        from airflow_trainer_provider.job.handle import JobHandle

        if self.cancel_on_kill:
            handle = JobHandle.parse(self.job)
            await TrainerHook.for_job(handle).cancel(handle, "the task was killed while it was deferred")

    def _emit(self, line: str) -> None:
        self.log.info("%s", line)
