"""The curve of one metric, and the same metric's curve in the last successful run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_trainer_provider.plugins.view.model.progress import better
from airflow_trainer_provider.plugins.view.model.values import listing, mapping, mappings, number, whole

#: Prefixes of a metric's name for its values in evaluations.
EVALUATIONS = ("eval_", "val_", "validation_", "valid_", "test_")
MOST_POINTS = 500
#: How many values of a bucket are kept: the smallest and the largest.
_PER_BUCKET = 2


def series_of(
    metric: str, progress: Mapping[str, Any], previous: Mapping[str, Any], points: int = MOST_POINTS
) -> dict[str, Any]:
    """One metric in columns, with an entry for each attempt.

    :param metric: the metric's name.
    :param progress: XCom ``progress`` of this task.
    :param previous: XCom ``progress`` of the last run that succeeded.
    :param points: the maximum number of points of each entry.
    """
    history = mapping(progress.get("history"))
    evaluation = next((f"{each}{metric}" for each in EVALUATIONS if f"{each}{metric}" in history), None)
    return {
        "metric": metric,
        "unit": None,
        "better": better(metric),
        "train": entries_of(history.get(metric), points),
        "eval": entries_of(history.get(evaluation), points) if evaluation else [],
        "previous": entries_of(mapping(previous.get("history")).get(metric), points),
    }


def entries_of(value: Any, points: int) -> list[dict[str, Any]]:
    """A metric's history in columns, with an entry for each attempt.

    :param value: the history from XCom.
    :param points: the maximum number of points of each entry.
    """
    return [_entry(part, points) for part in mappings(value)]


def _entry(part: Mapping[str, Any], points: int) -> dict[str, Any]:
    steps, times, values = (_column(part.get(name)) for name in ("step", "at", "value"))
    kept = thinned(values, points)
    return {
        "attempt": whole(part.get("attempt")) or 0,
        "step": [steps[at] if at < len(steps) else None for at in kept],
        "at": [times[at] if at < len(times) else None for at in kept],
        "value": [values[at] for at in kept],
    }


def _column(value: Any) -> list[float | None]:
    return [number(each) for each in listing(value)]


def thinned(values: Sequence[float | None], points: int) -> list[int]:
    """The indices of the values to keep: the first, the last, and the smallest and the largest of each bucket.

    :param values: the values of one curve.
    :param points: the maximum number of values to keep.
    """
    if len(values) <= points:
        return list(range(len(values)))
    last = len(values) - 1
    buckets = (points - 2) // _PER_BUCKET
    kept = {0, last}
    for bucket in range(buckets):
        span = range(1 + bucket * (last - 1) // buckets, 1 + (bucket + 1) * (last - 1) // buckets)
        known = [(value, at) for at in span if (value := values[at]) is not None]
        if known:
            kept |= {min(known)[1], max(known)[1]}
        elif span:
            # A bucket without values remains a gap in the curve.
            kept.add(span[0])
    return sorted(kept)
