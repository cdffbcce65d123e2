"""What the API answers for a DAG, made by the view itself from records of its runs."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_trainer_provider.plugins.view.dag.curves import curves_of
from airflow_trainer_provider.plugins.view.dag.dag_view import dag_view
from airflow_trainer_provider.plugins.view.dag.records import DagRecords, RunRecord
from tests.unit.plugins.view.dag.samples import NOW, at, failed, records, run, running, succeeded

JSON = dict[str, Any]

MARKUP = "<img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"
#: From the newest on: outcome, eval_loss, and the parameters that changed with it.
PLAN: list[tuple[str, float | None, dict[str, str]]] = [
    ("running", None, {"dropout": "0.05"}),
    ("succeeded", 1.846, {"dropout": "0.1"}),
    ("succeeded", 1.832, {"dropout": "0.05"}),
    ("succeeded", 1.843, {"learning-rate": "3e-4"}),
    ("failed", None, {"image": "registry.example/nlp/finetune:2.8.1"}),
    ("succeeded", 1.866, {"seed": "11"}),
    ("succeeded", 1.857, {}),
    ("succeeded", 1.861, {"batch-size": "512", "learning-rate": "4e-4", "warmup-steps": "1000", "grad-clip": "1.0"}),
    ("cancelled", None, {}),
    ("succeeded", 1.889, {}),
    ("succeeded", 1.884, {"image": "registry.example/nlp/finetune:2.8.0"}),
    ("succeeded", 1.895, {}),
    ("failed", None, {}),
    ("succeeded", 1.896, {"warmup-steps": "500"}),
    ("succeeded", 1.9, {}),
    ("succeeded", 1.902, {"nodes": "4"}),
    ("succeeded", 1.948, {"learning-rate": "3e-4"}),
    ("failed", None, {"learning-rate": "6e-4"}),
    ("succeeded", 1.927, {}),
    ("succeeded", 1.931, {}),
]
FIRST = {
    "learning-rate": "2e-4",
    "batch-size": "256",
    "warmup-steps": "200",
    "dropout": "0.1",
    "seed": "7",
    "grad-clip": "off",
    "image": "registry.example/nlp/finetune:2.7.4",
    "nodes": "2",
}


def _asked(changed: dict[str, str]) -> JSON:
    """A run's parameters, as arguments and as what it asked for."""
    options = [
        part for name, value in changed.items() if name not in ("image", "nodes") for part in (f"--{name}", value)
    ]
    nodes = int(changed["nodes"])
    return {"args": ["train.py", *options], "request": {"image": changed["image"], "nodes": nodes, "gpus": nodes}}


def _many(plan: list[tuple[str, float | None, dict[str, str]]]) -> list[RunRecord]:
    source = random.Random(23)
    known, found = dict(FIRST), []
    for days, (outcome, value, changed) in reversed(list(enumerate(plan))):
        known |= changed
        long = {"queued": 60 + round(source.random() ** 2 * 3000), "starting": 80 + source.randrange(400)}
        full = 11_800 if known["nodes"] == "4" else 19_800
        asked = _asked(known)
        if outcome == "running":
            found.append(running(0, **asked))
        elif outcome == "succeeded" and value is not None:
            long["running"] = full + source.randrange(1400)
            lost = {"step": 20_000, "restarts": [{"lost_steps": 2400}]} if days % 6 == 1 else None
            metrics = {"eval_loss": value, "loss": round(value - 0.066, 3), "learning_rate": 2.3e-5}
            found.append(succeeded(days, metrics, lost, long, **asked))
        elif outcome == "failed":
            found.append(failed(days, {**long, "running": 1500 + source.randrange(3500)}, try_number=2, **asked))
        else:
            failure = {"phase": "cancelled", "message": "stopped by maria"}
            status = failed(days, {**long, "running": 9000}).task.xcoms["status"]
            found.append(run(days, "failed", {"failure": failure, "status": status}, **asked))
    return found[::-1]


def _hundred() -> list[RunRecord]:
    """A hundred runs, an hour apart."""
    return [
        RunRecord(each.task, NOW - timedelta(hours=hours), None, each.fields)
        for hours, each in enumerate(_many([*PLAN, *(PLAN[1:] * 5)][:100]))
    ]


def _mapped() -> list[RunRecord]:
    rates = ("0.3", "0.1", "0.03", "0.01")
    return [
        succeeded(
            1,
            {"accuracy": 0.9 - 0.01 * index**2},
            map_index=index,
            map_label=f"lr={rate}",
            args=["train.py", "--lr", rate],
        )
        for index, rate in reversed(list(enumerate(rates)))
    ]


def _marked_up() -> list[RunRecord]:
    return [
        succeeded(1, {MARKUP: 1.0}, run_id=MARKUP, map_index=1, map_label=MARKUP, args=[f"--name={MARKUP}"]),
        run(
            2,
            "failed",
            {"failure": {"phase": "failed", "reason": "Error", "traceback": [f"ValueError: {MARKUP}"]}},
            map_index=1,
        ),
    ]


#: DAG -> its records.
RECORDS: dict[str, DagRecords] = {
    "dag-runs": records(*_many(PLAN), tasks=("train", "distill")),
    "dag-hundred": records(*_hundred()),
    "dag-mapped": records(*_mapped()),
    "dag-no-metric": records(*(succeeded(days, {}) for days in (1, 2, 3)), failed(4)),
    "dag-no-direction": records(*(succeeded(days, {"temperature": float(days)}) for days in (1, 2, 3))),
    "dag-one": records(succeeded(1)),
    "dag-first": records(running(0)),
    "dag-no-runs": records(tasks=("train",)),
    "dag-no-task": records(tasks=()),
    "dag-markup": records(*_marked_up(), tasks=("train", MARKUP)),
}
#: A DAG whose runs have just ended.
AFTER = records(succeeded(0, {"eval_loss": 1.7}), *_many(PLAN)[1:], tasks=("train", "distill"))


def _history(seed: int, steps: int) -> JSON:
    source = random.Random(seed)
    every = list(range(0, steps + 1, 100))
    values = [
        1.72 + 2.6 * math.exp(-step / 900) + 0.55 * math.exp(-step / 7000) + source.random() * 0.05 for step in every
    ]
    start = at(0).timestamp()
    return {"loss": [{"attempt": 0, "step": every, "at": [start + step / 1.6 for step in every], "value": values}]}


def answer(known: DagRecords, part: list[str], query: dict[str, list[str]]) -> JSON | int:
    """What the API answers: the view of some records, or the curves of runs."""
    metric = query.get("metric", [None])[0]
    if part != ["series"]:
        limit = int(query["limit"][0])
        before = known.runs[limit] if len(known.runs) > limit else None
        task = query.get("task_id", [known.task_id])[0]
        return dag_view(replace(known, task_id=task, runs=known.runs[:limit], before=before), metric, limit, NOW)
    keys = [(run_id, int(index)) for index, _, run_id in (each.partition(",") for each in query["run"])]
    reported = {each.key: each.task.state for each in known.runs}
    if known is RECORDS["dag-no-metric"]:
        return curves_of(metric, [(key, {}) for key in keys], 500)
    histories = [
        {"history": _history(at_, 6560 if reported[key] == "deferred" else 20_000)} for at_, key in enumerate(keys)
    ]
    return curves_of(metric, list(zip(keys, histories, strict=True)), 500)
