"""What Airflow's database holds of a task instance and of earlier runs of its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class TryRecord:
    """One try of a task instance.

    :param number: 1 for the first.
    :param state: Airflow's.
    """

    number: int
    state: str | None
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True)
class EarlierRun:
    """A run in which the task has succeeded.

    :param run_id: of the run.
    :param at: what the run is called by: its logical date, or when it was to begin.
    :param started_at: of the task.
    :param ended_at: of the task.
    :param xcoms: what of its XCom is of interest, by key.
    """

    run_id: str
    at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    xcoms: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskRecords:
    """A task instance.

    :param is_training: whether its operator is one of the provider's.
    :param state: Airflow's state of the task instance.
    :param try_number: of its latest try.
    :param max_tries: how often it may be tried again.
    :param tries: all of its tries, the latest last.
    :param xcoms: what it has in XCom, by key.
    :param waiter: what waits for the job: ``worker`` or ``triggerer``; None where nothing does.
    :param waiter_seen_at: when that last reported to Airflow; None where it has not begun. Of a triggerer
        that has not taken its trigger yet: when that was created.
    :param earlier: runs in which it succeeded before, the latest first.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    is_training: bool = True
    state: str | None = None
    try_number: int = 1
    max_tries: int = 0
    tries: tuple[TryRecord, ...] = ()
    xcoms: Mapping[str, Any] = field(default_factory=dict)
    waiter: str | None = None
    waiter_seen_at: datetime | None = None
    earlier: tuple[EarlierRun, ...] = ()
