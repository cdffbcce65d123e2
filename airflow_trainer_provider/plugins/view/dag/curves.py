"""The curves of a metric in several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_trainer_provider.plugins.view.model.progress import better
from airflow_trainer_provider.plugins.view.model.series import EVALUATIONS, entries_of
from airflow_trainer_provider.plugins.view.model.values import mapping

#: The maximum number of runs in one chart.
MOST_CURVES = 5
#: A run, and the reports of its task: XCom ``progress``.
Reported = tuple[tuple[str, int], Mapping[str, Any]]


def curves_of(wanted: str | None, runs: Sequence[Reported], points: int) -> dict[str, Any]:
    """One metric in columns, for each run.

    :param wanted: the metric. If no run has a curve of it, the training's metric that it evaluates is used, else the
        loss, else any metric.
    :param runs: the runs, in the order in which they are shown.
    :param points: the maximum number of points of each attempt.
    """
    histories = [(key, mapping(progress.get("history"))) for key, progress in runs]
    names = list(dict.fromkeys(str(name) for _, history in histories for name, parts in history.items() if parts))
    metric = _shown(wanted, names)
    return {
        "metric": metric,
        "better": better(metric) if metric else None,
        "metrics": names,
        "runs": [
            {"run_id": run_id, "map_index": map_index, "entries": entries_of(history.get(metric or ""), points)}
            for (run_id, map_index), history in histories
        ],
    }


def _shown(wanted: str | None, names: Sequence[str]) -> str | None:
    trained = next((wanted.removeprefix(each) for each in EVALUATIONS if wanted and wanted.startswith(each)), None)
    return next((name for name in (wanted, trained, "loss", *names) if name in names), None)
