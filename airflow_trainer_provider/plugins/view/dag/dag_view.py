"""The DAG view: the data of the Training tab of a DAG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from airflow_trainer_provider.plugins.view.dag.champion import (
    champion_of,
    champion_view,
    chosen_metric,
    numbers_of,
    versus,
)
from airflow_trainer_provider.plugins.view.dag.parameters import Parameters, changes, parameters_of
from airflow_trainer_provider.plugins.view.dag.records import DagRecords, RunRecord
from airflow_trainer_provider.plugins.view.dag.run import Row, row_of, row_view
from airflow_trainer_provider.plugins.view.model.progress import better
from airflow_trainer_provider.plugins.view.model.values import iso


def dag_view(records: DagRecords, wanted: str | None, limit: int, now: datetime) -> dict[str, Any]:
    """The whole DAG view, as JSON values.

    :param records: the records of the DAG.
    :param wanted: the metric to compare; None for any.
    :param limit: how many runs are shown.
    :param now: the current time.
    """
    rows = [row_of(run, now) for run in records.runs]
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    metric = chosen_metric(wanted, names)
    champion = champion_of(metric, rows)
    return {
        "as_of": iso(now),
        "dag_id": records.dag_id,
        "tasks": list(records.tasks),
        "task_id": records.task_id,
        "limit": limit,
        "metric": metric,
        "metrics": [{"name": name, "better": better(name)} for name in names],
        "champion": champion_view(metric, champion),
        "numbers": numbers_of(metric, rows, champion),
        "runs": _runs(records, rows, metric, champion),
    }


def _runs(records: DagRecords, rows: Sequence[Row], metric: str | None, champion: Row | None) -> list[dict[str, Any]]:
    read = [*records.runs, *([records.before] if records.before else [])]
    known = [parameters_of(run) for run in read]
    best = next((known[at] for at, row in enumerate(rows) if row is champion), None)
    value = champion.metrics.get(metric or "") if champion else None
    return [
        {
            **row_view(row),
            "versus_champion": None if row is champion else versus(row.metrics.get(metric or ""), value),
            "changed": _changes(_before(at, read, known), known[at]),
            "changed_from_champion": None if row is champion else _changes(best, known[at]),
        }
        for at, row in enumerate(rows)
    ]


def _before(at: int, read: Sequence[RunRecord], known: Sequence[Parameters]) -> Parameters | None:
    """The parameters of the same task instance in the previous run."""
    index = read[at].task.map_index
    return next((of for of, run in list(zip(known, read, strict=True))[at + 1 :] if run.task.map_index == index), None)


def _changes(before: Parameters | None, after: Parameters) -> list[dict[str, Any]] | None:
    return changes(before, after) if before else None
