"""The progress of a training: steps, rate, expected end, and metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_trainer_provider.plugins.view.model.records import EarlierRun
from airflow_trainer_provider.plugins.view.model.state import JobState
from airflow_trainer_provider.plugins.view.model.values import (
    finite,
    iso,
    later,
    listing,
    mapping,
    mappings,
    moment,
    number,
    seconds_between,
    text,
    whole,
)


def _words(long: str, short: str) -> re.Pattern[str]:
    return re.compile(rf"{long}|(?<![a-z])(?:{short})(?![a-z])", re.IGNORECASE)


#: Words in a metric's name that show in which direction it gets better. Short ones match only as whole words, since
#: e.g. `answer` contains `wer`.
_LOWER = _words(r"loss|error|perplexity", r"err|ppl|mae|r?mse|mape|wer|cer|fid|nll")
_HIGHER = _words(r"accuracy|precision|recall|bleu|rouge|reward|score", r"acc|auc|auroc|f1|map|m?iou|r2|dice")
#: The number of points of the small curve beside a metric's name.
_SPARK = 40


def progress_of(state: JobState, previous: EarlierRun | None) -> dict[str, Any] | None:
    """The progress of the training; None if its script reports nothing.

    :param state: the job's state.
    :param previous: the last run that succeeded.
    """
    progress = state.progress
    if not progress:
        return None
    rate = number(progress.get("steps_per_second"))
    earlier = number(mapping(previous.xcoms.get("progress")).get("steps_per_second")) if previous else None
    versus = round(rate / earlier - 1, 4) if rate and earlier else None
    return {
        "step": whole(progress.get("step")),
        "total_steps": whole(progress.get("total_steps")),
        "percent": number(progress.get("percent")),
        "stalled": False,
        "reported_at": iso(progress.get("reported_at")),
        "rate": None if rate is None else {"value": rate, "unit": "steps/s", "versus_previous": versus},
        "eta": _eta(state, earlier) if state.is_active else None,
        "last_checkpoint": checkpoint_of(progress),
    }


def checkpoint_of(progress: Mapping[str, Any], key: str = "checkpoint") -> dict[str, Any] | None:
    """The last checkpoint that the script has reported, or the checkpoint from which it has resumed.

    :param progress: the script's reports: XCom ``progress``.
    :param key: ``checkpoint`` or ``resumed_from``.
    """
    found = mapping(progress.get(key))
    if not found:
        return None
    return {"step": whole(found.get("step")), "at": iso(found.get("at")), "path": text(found.get("path"))}


def _eta(state: JobState, earlier_rate: float | None) -> dict[str, Any] | None:
    """The range in which the end is expected: by the current rate, and by the rate of the last run."""
    progress = state.progress
    end, reported = moment(progress.get("estimated_end")), moment(progress.get("reported_at"))
    if end is None:
        return None
    other = _end_at_rate(progress, reported, earlier_rate)
    ends = sorted(each for each in (end, other) if each)
    basis = "rate of the last minutes and of the last successful run" if other else "rate of the last minutes"
    return {"earliest": iso(ends[0]), "latest": iso(ends[-1]), "basis": basis}


def _end_at_rate(progress: Mapping[str, Any], reported: datetime | None, rate: float | None) -> datetime | None:
    step, total = number(progress.get("step")), number(progress.get("total_steps"))
    if step is None or total is None or not rate or reported is None:
        return None
    return later(reported, max(0.0, total - step) / rate)


def restarts_of(state: JobState) -> list[dict[str, Any]]:
    """The restarts of the training, and the steps that each has lost.

    :param state: the job's state.
    """
    return [
        {
            "at": iso(row.get("at")),
            "resumed_at": None,
            "replica": None,
            "reason": None,
            "text": None,
            "from_step": whole(row.get("from_step")),
            "lost_steps": whole(row.get("lost_steps")),
        }
        for row in mappings(state.progress.get("restarts"))
    ]


def metrics_of(state: JobState) -> list[dict[str, Any]]:
    """The metrics, each with its last value and a small curve.

    :param state: the job's state.
    """
    history, last = mapping(state.progress.get("history")), mapping(state.progress.get("metrics"))
    names = dict.fromkeys([*last, *history, *mapping(state.returned.get("metrics"))])
    final = mapping(state.returned.get("metrics"))
    return [
        {
            "name": str(name),
            "unit": None,
            "better": better(str(name)),
            "last": _plain(last.get(name, final.get(name))),
            "spark": _spark(mappings(history.get(name))),
        }
        for name in names
    ]


def better(name: str) -> str | None:
    """In which direction a metric gets better: ``lower``, ``higher``, or None if its name does not show that.

    :param name: the metric's name.
    """
    if _LOWER.search(name):
        return "lower"
    return "higher" if _HIGHER.search(name) else None


def _plain(value: Any) -> float | str | None:
    """A number; as text if JSON does not support it, such as NaN."""
    value = finite(value)
    return text(value) if isinstance(value, str) else number(value)


def _spark(parts: Sequence[Mapping[str, Any]]) -> list[float | None]:
    values = [number(value) for part in parts for value in listing(part.get("value"))]
    if len(values) <= _SPARK:
        return values
    return [values[round(at * (len(values) - 1) / (_SPARK - 1))] for at in range(_SPARK)]


def typical_of(earlier: Sequence[EarlierRun]) -> dict[str, Any] | None:
    """The range of durations of the last successful runs.

    :param earlier: these runs.
    """
    found = [each for each in (run_seconds(run) for run in earlier) if each is not None]
    if not found:
        return None
    return {"seconds": [round(min(found)), round(max(found))], "runs": len(found)}


def run_seconds(run: EarlierRun) -> float | None:
    """How long the job of an earlier run has run, without its time in the queue; if unknown, how long the task has run.

    :param run: the run.
    """
    ran = number(mapping(run.xcoms.get("return_value")).get("run_seconds"))
    return ran if ran is not None else seconds_between(run.started_at, run.ended_at)


def queue_seconds(run: EarlierRun) -> float | None:
    """How long the job of an earlier run has waited to start.

    :param run: the run.
    """
    return number(mapping(run.xcoms.get("return_value")).get("queue_seconds"))
