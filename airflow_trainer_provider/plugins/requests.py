"""Tasks and runs that are over, as requests to end their jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EndedTask:
    """A task instance that is over.

    :param reason: the reason that the status of its job will show.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    reason: str


@dataclass(frozen=True)
class EndedRun:
    """A run that is over, with all of its task instances.

    :param reason: the reason that the status of the jobs will show.
    """

    dag_id: str
    run_id: str
    reason: str


Request = EndedTask | EndedRun
