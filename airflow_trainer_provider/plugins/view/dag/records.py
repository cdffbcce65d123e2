"""The records in Airflow's database of the runs of a training task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_trainer_provider.plugins.view.model.records import TaskRecords


@dataclass(frozen=True)
class RunRecord:
    """A training task in one run of its DAG. Each instance of a mapped task is a separate record.

    :param task: the task instance.
    :param at: the date by which the run is labelled: its logical date, or its ``run_after``.
    :param map_label: the label of a mapped task instance; None if the task is not mapped.
    :param fields: the operator's rendered fields; empty if Airflow has dropped them.
    """

    task: TaskRecords
    at: datetime | None = None
    map_label: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        """The key among the records of a task."""
        return self.task.run_id, self.task.map_index


@dataclass(frozen=True)
class DagRecords:
    """A DAG with training tasks.

    :param tasks: the training tasks, sorted by name.
    :param task_id: the task of these runs; None if there is no training task.
    :param runs: the runs, the newest first.
    :param before: the run before the oldest of these runs.
    """

    dag_id: str
    tasks: tuple[str, ...] = ()
    task_id: str | None = None
    runs: tuple[RunRecord, ...] = ()
    before: RunRecord | None = None
