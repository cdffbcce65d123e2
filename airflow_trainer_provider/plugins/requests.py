"""What is over, so that its jobs are to end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EndedTask:
    """A task instance that is over.

    :param reason: what the status of its job will say.
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

    :param reason: what the status of their jobs will say.
    """

    dag_id: str
    run_id: str
    reason: str


Request = EndedTask | EndedRun
