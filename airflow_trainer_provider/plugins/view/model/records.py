"""The records in Airflow's database of a task instance, and of earlier runs of its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class TryRecord:
    """One try of a task instance.

    :param number: the number of the try, from 1.
    :param state: Airflow's state of the try.
    """

    number: int
    state: str | None
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True)
class EarlierRun:
    """A run in which the task has succeeded.

    :param run_id: the run's ID.
    :param at: the date by which the run is labelled: its logical date, or its ``run_after``.
    :param started_at: when the task started.
    :param ended_at: when the task ended.
    :param xcoms: the task's XComs that are used, by key.
    """

    run_id: str
    at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    xcoms: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskRecords:
    """A task instance.

    :param is_training: whether the operator is one of the provider's.
    :param state: Airflow's state of the task instance.
    :param try_number: the number of the latest try.
    :param max_tries: how often the task may be tried again.
    :param tries: all tries, the latest last.
    :param xcoms: the task instance's XComs, by key.
    :param waiter: the component that waits for the job: ``worker`` or ``triggerer``; None if there is none.
    :param waiter_seen_at: the last heartbeat of that component; None if it has not started. If no triggerer has picked
        up the trigger yet: when the trigger was created.
    :param earlier: earlier runs in which the task succeeded, the latest first.
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
