"""Writes the lines of jobs to the logs of tasks."""

from __future__ import annotations

from contextvars import Context

import structlog
from structlog.contextvars import bind_contextvars, get_contextvars

#: By which Airflow's triggerer finds the log of a task.
_TRIGGER = "trigger_id"
_log = structlog.get_logger("airflow_trainer_provider")


def write_line(line: str) -> None:
    """Write a line to the log of the task for which this is called.

    Airflow adds the identifiers of the task to each line that is logged, though not to what a task prints. They are
    longer than most lines, and Airflow's supervisor, which reads and writes each, takes that much longer. The file is
    the task's own without them.

    :param line: of the job's log, or about it.
    """
    context, bound = Context(), get_contextvars()
    if _TRIGGER in bound:
        context.run(bind_contextvars, **{_TRIGGER: bound[_TRIGGER]})
    context.run(_log.info, line)
