"""The best run by a metric, and the numbers above the runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from airflow_trainer_provider.plugins.view.dag.run import ENDED, Row
from airflow_trainer_provider.plugins.view.model.progress import better
from airflow_trainer_provider.plugins.view.model.series import EVALUATIONS

_LOWER = "lower"


def chosen_metric(wanted: str | None, names: Sequence[str]) -> str | None:
    """The metric to compare: the wanted one; else a metric with a direction, preferably from an evaluation; else any.

    :param wanted: the name of the wanted metric; None for any.
    :param names: the metrics that the runs have.
    """
    if wanted in names:
        return wanted
    directed = [name for name in names if better(name)]
    evaluated = [name for name in directed if name.startswith(EVALUATIONS)]
    return next(iter([*evaluated, *directed, *names]), None)


def champion_of(metric: str | None, rows: Sequence[Row]) -> Row | None:
    """The successful run with the best value; of equal values the oldest run. None if the metric has no direction.

    :param metric: the metric to compare.
    :param rows: the runs, the newest first.
    """
    direction = better(metric) if metric else None
    if metric is None or direction is None:
        return None
    sign = 1 if direction == _LOWER else -1
    valued = [row for row in reversed(rows) if metric in row.metrics]
    return min(valued, key=lambda row: sign * row.metrics[metric], default=None)


def champion_view(metric: str | None, champion: Row | None) -> dict[str, Any] | None:
    """The champion, as JSON values.

    :param metric: the metric by which the champion was chosen.
    :param champion: the run.
    """
    if metric is None or champion is None:
        return None
    rule = f"the {'lowest' if better(metric) == _LOWER else 'highest'} {metric} of the runs that succeeded"
    return {**_named(champion), "value": champion.metrics[metric], "rule": rule}


def numbers_of(metric: str | None, rows: Sequence[Row], champion: Row | None) -> dict[str, Any]:
    """The numbers above the runs.

    :param metric: the metric to compare.
    :param rows: the runs, the newest first.
    :param champion: the best run.
    """
    outcomes = {name: sum(row.outcome == name for row in rows) for name in ENDED}
    ended = sum(outcomes.values())
    timed = [row for row in rows if row.outcome == "succeeded" and row.durations]
    return {
        "last_success": _last_success(metric, rows, champion),
        "runs": len(rows),
        "ended": ended,
        **outcomes,
        "success_rate": round(outcomes["succeeded"] / ended, 4) if ended else None,
        "median_seconds": _median([row.seconds for row in timed]),
        "median_queued_seconds": _median([row.durations.get("queued", 0.0) for row in timed]),
        "gpu_hours": _gpu_hours(rows),
        "gpu_hours_without_success": _gpu_hours([row for row in rows if row.outcome in ("failed", "cancelled")]),
    }


def versus(value: float | None, best: float | None) -> float | None:
    """The relative change of a value; None if one of the two is unknown, or if the value to compare with is 0.

    :param value: the value.
    :param best: the value to compare with.
    """
    return None if value is None or not best else round((value - best) / abs(best), 4)


def _last_success(metric: str | None, rows: Sequence[Row], champion: Row | None) -> dict[str, Any] | None:
    last = next((row for row in rows if metric in row.metrics), None)
    if metric is None or last is None:
        return None
    change = versus(last.metrics[metric], champion.metrics[metric]) if champion else None
    return {**_named(last), "value": last.metrics[metric], "versus_champion": change}


def _named(row: Row) -> dict[str, Any]:
    run_id, map_index = row.record.key
    return {"run_id": run_id, "map_index": map_index}


def _median(seconds: Sequence[float]) -> int | None:
    return round(median(seconds)) if seconds else None


def _gpu_hours(rows: Sequence[Row]) -> float | None:
    known = [row.gpu_hours for row in rows if row.gpu_hours is not None]
    return round(sum(known), 1) if known else None
