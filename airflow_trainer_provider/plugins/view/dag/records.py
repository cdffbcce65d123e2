"""What Airflow's database holds of the runs of a training task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_trainer_provider.plugins.view.model.records import TaskRecords


@dataclass(frozen=True)
class RunRecord:
    """A training task in one run of its DAG. Each instance of a mapped task is one of its own.

    :param task: the task instance.
    :param at: what the run is called by: its logical date, or when it was to begin.
    :param map_label: what a mapped task instance is called by; None for one that is not mapped.
    :param fields: the operator's rendered fields; empty where Airflow has dropped them.
    """

    task: TaskRecords
    at: datetime | None = None
    map_label: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        """What distinguishes it from the others of its task."""
        return self.task.run_id, self.task.map_index


@dataclass(frozen=True)
class DagRecords:
    """A DAG with training tasks.

    :param tasks: the training tasks, by name.
    :param task_id: the one whose runs these are; None where there is none.
    :param runs: the newest first.
    :param before: the run before the oldest of them.
    """

    dag_id: str
    tasks: tuple[str, ...] = ()
    task_id: str | None = None
    runs: tuple[RunRecord, ...] = ()
    before: RunRecord | None = None
