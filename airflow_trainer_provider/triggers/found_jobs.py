"""Waits in the triggerer for jobs that are selected by name or label, without a handle."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_trainer_provider.triggers.payload import event_of


class FoundJobsTrigger(BaseTrigger):
    """Fires once: when the jobs have reached an allowed phase, when one has failed, or when the deadline has passed.

    The trigger only reads: it neither ends nor changes a job.

    :param wanted: the fields of :class:`~airflow_trainer_provider.job.backend.Wanted`.
    :param allowed_phases: the phases in which the wait succeeds.
    :param kubernetes_conn_id: the connection to the cluster.
    :param namespace: the namespace to search. None uses the connection's, else ``[trainer] namespace``.
    :param reader: the name under which the log cursor is kept, for as long as this triggerer runs.
    :param deadline: when to give up waiting, in ISO 8601.
    """

    def __init__(
        self,
        wanted: dict[str, Any],
        allowed_phases: list[str],
        kubernetes_conn_id: str,
        namespace: str | None,
        reader: str,
        deadline: str,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wanted = wanted
        self.allowed_phases = allowed_phases
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.reader = reader
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of this class, and the arguments to create the trigger again."""
        fields = ("wanted", "allowed_phases", "kubernetes_conn_id", "namespace", "reader", "deadline")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in fields}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look for the jobs and follow them; the event reports how the wait ended.

        The event's ``end`` is ``concluded``, with the jobs' handles and outcomes in ``found``; ``timed out``, with a
        ``message``; or ``error``, with a ``message`` and whether the error is ``retryable``.
        """
        # Imported here, since DAG files import this module through the sensor.
        from airflow_trainer_provider.errors import JobTimeout, TrainJobError
        from airflow_trainer_provider.hooks.backends import AUTO
        from airflow_trainer_provider.hooks.found_jobs import FoundJobs
        from airflow_trainer_provider.hooks.trainer import TrainerHook
        from airflow_trainer_provider.job.backend import Wanted
        from airflow_trainer_provider.text.redaction import redacted_text
        from airflow_trainer_provider.triggers.firing import ready_to_fire

        begun = time.monotonic()
        hook = TrainerHook(AUTO, self.kubernetes_conn_id, self.namespace)
        jobs: FoundJobs | None = None
        event: dict[str, Any]
        try:
            jobs = FoundJobs(hook, Wanted(**self.wanted), self.allowed_phases, self._emit)
            found = await jobs.wait(self.reader, datetime.fromisoformat(self.deadline))
            event = {"end": "concluded", "found": [each.to_json() for each in found]}
        except JobTimeout as error:
            event = {"end": "timed out", "message": jobs.late() if jobs else str(error)}
        except TrainJobError as error:
            event = {"end": "error", "message": str(error), "retryable": error.retryable}
        except Exception as error:
            self.log.exception("The wait for training jobs has failed")
            event = {"end": "error", "message": redacted_text(f"{type(error).__name__}: {error}"), "retryable": True}
        await ready_to_fire(self, begun)
        yield event_of(event)

    def _emit(self, line: str) -> None:
        from airflow_trainer_provider.hooks.supervisor.task_log import write_line

        write_line(line)
