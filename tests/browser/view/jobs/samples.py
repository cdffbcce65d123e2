"""Jobs of several DAGs, as Airflow's database has them, and the answers that the API gives of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_trainer_provider.plugins.view.jobs.entry import entry_of
from airflow_trainer_provider.plugins.view.jobs.listing import job_list
from airflow_trainer_provider.plugins.view.jobs.row import row_of
from airflow_trainer_provider.plugins.view.jobs.selection import Filters, page_of
from airflow_trainer_provider.plugins.view.model.records import TaskRecords, TryRecord
from tests.browser.view.samples import MARKUP, NOW

#: Owner and record.
Job = tuple[str, TaskRecords]
#: DAG, task, framework, backend, owner, nodes, GPUs of each.
DAGS = (
    ("llm_finetune", "train", "pytorch", "trainer", "nlp", 4, 1),
    ("foundation_pretrain_stage2_multilingual", "train_h100", "pytorch", "native", "foundation", 200, 4),
    ("ctr_model", "train", "tensorflow", "training-operator", "ads", 8, 1),
    ("nightly_rank", "train", "xgboost", "native", "search", 3, 0),
    ("climate_ensemble", "solve", "mpi", "mpi-operator", "research", 16, 8),
    ("speech_large", "pretrain", "jax", "trainer", "speech", 16, 8),
    ("vision_multi", "finetune", "pytorch", "training-operator", "vision", 2, 8),
    ("ocr_small", "train", "paddle", "training-operator", "vision", 2, 1),
    ("fraud_daily", "train", "xgboost", "local", "risk", 2, 0),
    ("recsys_two_tower", "train", "tensorflow", "native", "search", 4, 2),
)


def _iso(minutes: float) -> str:
    return (NOW - timedelta(minutes=minutes)).isoformat()


def _replica(index: int, **values: Any) -> dict[str, Any]:
    return {"name": f"worker-{index}", "group": "worker", "index": index, "started_at": _iso(5), **values}


def _progress(step: int, total: int | None, end: float | None) -> dict[str, Any]:
    checkpoint = {"step": max(0, step - 160), "at": _iso(1.5), "path": None}
    found = {"step": step, "total_steps": total, "percent": step / total * 100 if total else None}
    return {**found, "estimated_end": _iso(-end) if end else None, "reported_at": _iso(0), "checkpoint": checkpoint}


def job(number: int, dag: int, phase: str, queued: float, started: float | None = None, **values: Any) -> Job:
    """A job, with times in minutes before now.

    :param number: of the sample.
    :param dag: the place of its DAG.
    :param values: ``state`` and ``map_index`` of the task, ``ended``, ``replicas``, ``queue``, ``place``, ``progress``,
        ``failure``, ``returned``, ``message``.
    """
    dag_id, task_id, framework, backend, owner, nodes, gpus = DAGS[dag]
    at = (NOW - timedelta(minutes=queued)).strftime("%Y-%m-%dT%H:%M:00+00:00")
    ended = values.get("ended")
    names = {"name": f"{dag_id.replace('_', '-')[:22]}-{number:08x}-1", "framework": framework, "backend": backend}
    status = {
        **{
            "phase": phase,
            "as_of": values.get("seen", NOW).isoformat(),
            "queued_at": _iso(queued),
            "message": values.get("message"),
        },
        **{"started_at": None if started is None else _iso(started), "finished_at": ended and _iso(ended)},
        **{"replicas": values.get("replicas", []), "queue": values.get("place")},
    }
    request = {"namespace": f"team-{owner}", "queue": values.get("queue"), "nodes": nodes, "gpus": nodes * gpus}
    request["can_suspend"] = backend != "local"
    xcoms = {
        "job": {**names, "uid": f"uid-{number}", "owner": 1, "leader": "worker-0", "location": "job/ml/kube"},
        "request": {**names, **request},
        "status": status,
        **{key: values[name] for name, key in XCOMS.items() if name in values},
    }
    state = values.get("state", "deferred")
    end = NOW - timedelta(minutes=ended) if ended else None
    tries = (TryRecord(1, state, NOW - timedelta(minutes=queued), end),)
    index = values.get("map_index", -1)
    seen = values.get("seen", NOW)
    return owner, TaskRecords(
        dag_id,
        f"scheduled__{at}",
        task_id,
        index,
        state=state,
        tries=tries,
        xcoms=xcoms,
        waiter="triggerer",
        waiter_seen_at=seen,
    )


XCOMS = {"progress": "progress", "failure": "failure", "returned": "return_value"}


def _special() -> list[Job]:
    """Each state, and each way to wait."""
    estimate = {"earliest": _iso(1), "latest": _iso(-29), "basis": "the ends of running jobs"}
    place = {"name": "team-nlp", "position": 3, "length": 7, "estimate": estimate}
    error = {"phase": "failed", "reason": "Error", "replica": "worker-0", "traceback": [f"ValueError: {MARKUP}"]}
    returned = {"phase": "succeeded", "metrics": {"auc": 0.8127}, "started_at": _iso(100), "finished_at": _iso(50)}
    many = [_replica(index, started_at=_iso(300) if index < 196 else None) for index in range(200)]
    return [
        job(1, 0, "running", 83, 73, progress=_progress(6560, 20000, 140), queue="team-nlp"),
        job(2, 1, "running", 341, 306, progress=_progress(182_400, None, None), replicas=many),
        job(3, 0, "queued", 45, queue="team-nlp", place=place, map_index=3),
        job(4, 1, "queued", 181, queue="foundation"),
        job(5, 5, "starting", 9, replicas=[_replica(3, started_at=None, reason="ImagePullBackOff")]),
        job(6, 2, "restarting", 380, 377, progress=_progress(88_000, 120_000, None), message="worker-5 was evicted"),
        job(7, 4, "suspended", 431, 411, progress=_progress(410, 2000, None), message="by maria"),
        job(8, 7, "queued", 19, replicas=[_replica(0, started_at=None, reason="Unschedulable"), _replica(1)]),
        job(9, 8, "running", 2.2, 2.1),
        job(10, 3, "running", 120, 100, seen=NOW - timedelta(minutes=10)),
        job(11, 2, "succeeded", 103, 100, state="success", ended=50, returned=returned),
        job(12, 0, "failed", 83, 73, state="failed", ended=32, failure=error),
        job(13, 3, "cancelled", 261, 261, state="failed", ended=257, message="the task was marked as failed"),
    ]


def _usual(number: int) -> Job:
    source = random.Random(number)
    dag = source.choice([0, 2, 3, 4, 6, 7, 8, 9])
    queued = 5 + number * 7.3
    if number > 60:
        state, phase = source.choice([("success", "succeeded")] * 5 + [("failed", "failed")])
        ended = 60 + number * 9
        return job(number, dag, phase, ended + 200, ended + 190, state=state, ended=ended)
    if source.random() < 0.25:
        return job(number, dag, "queued", queued, queue=f"team-{DAGS[dag][4]}")
    step = source.randrange(100, 20_000)
    return job(number, dag, "running", queued, queued - 3, progress=_progress(step, 20_000, 600 - step / 40))


def records() -> list[Job]:
    """160 jobs: some of each state, and many that run or have ended."""
    return [*_special(), *(_usual(number) for number in range(14, 161))]


def answer(jobs: Sequence[Job], query: Mapping[str, list[str]]) -> dict[str, Any]:
    """What the API says of these jobs to a viewer who may edit all of them but those of `ctr_model`.

    :param jobs: the jobs.
    :param query: of the request.
    """
    asked = {name: values[0] for name, values in query.items()}
    view, sort, number = asked.pop("view", "active"), asked.pop("sort", "-started"), int(asked.pop("page", 1))
    of_id = {each.xcoms["job"]["uid"]: (owner, each) for owner, each in jobs}
    found = [entry_of(id, each, owner, NOW) for id, (owner, each) in of_id.items()]
    entries = [entry for entry in found if entry]
    page = page_of(entries, Filters(**asked), view, sort, number, 50, NOW)
    rows = [row_of(entry, of_id[entry.id][1], entry.dag_id != "ctr_model", NOW) for entry in page.entries]
    return job_list(entries, page, 50, rows, NOW)
