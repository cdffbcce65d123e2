"""Metrics of ended jobs, sent where Airflow sends its own: StatsD, DogStatsD or OpenTelemetry."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.outcome import JobOutcome

log = logging.getLogger(__name__)


def emit_stats(ti: Any, handle: JobHandle, outcome: JobOutcome) -> None:
    """Send the metrics of an ended job. An error of Airflow's metrics is logged, and never fails the task.

    :param ti: the task instance, in the process that publishes the outcome.
    :param handle: the job.
    :param outcome: the job's outcome.
    """
    try:
        from airflow.providers.common.compat.sdk import Stats

        tags = {**_task_tags(ti), "framework": handle.framework or "unknown", "backend": handle.backend}
        for name in ("queue_seconds", "run_seconds"):
            seconds = outcome.figures.get(name)
            if seconds is not None:
                Stats.timing(f"trainer.{name}", timedelta(seconds=seconds), tags=tags)
        # Zero is sent as well: a counter that starts above zero has no rate until its second value.
        Stats.incr("trainer.restarts", outcome.figures.get("restarts", 0), tags=tags)
        Stats.incr(f"trainer.jobs.{outcome.phase}", tags=tags)
    except Exception as error:
        log.warning("The metrics of training job %s could not be sent: %s", handle.name, error)


def _task_tags(ti: Any) -> dict[str, str]:
    """The tags of Airflow's own metrics of a task. Since Airflow 3.2 they may include a team's name."""
    tags: dict[str, str] | None = getattr(ti, "stats_tags", None)
    return tags or {"dag_id": ti.dag_id, "task_id": ti.task_id}
