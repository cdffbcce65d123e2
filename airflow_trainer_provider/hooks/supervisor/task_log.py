"""Writes the lines of jobs to the logs of tasks."""

from __future__ import annotations

from contextvars import Context

import structlog
from structlog.contextvars import bind_contextvars, get_contextvars

#: The context variable by which Airflow's triggerer finds the log of a task.
_TRIGGER = "trigger_id"
_log = structlog.get_logger("airflow_trainer_provider")


def write_line(line: str) -> None:
    """Write a line to the log of the task for which this is called, without the task's identifiers.

    Airflow adds the identifiers of the task to each logged line, but not to lines that a task prints. They are longer
    than most lines, and slow down Airflow's supervisor, which reads and writes each line. They are not needed to find
    the task's log file.

    :param line: a line of the job's log, or a line about the job.
    """
    context, bound = Context(), get_contextvars()
    if _TRIGGER in bound:
        context.run(bind_contextvars, **{_TRIGGER: bound[_TRIGGER]})
    context.run(_log.info, line)
