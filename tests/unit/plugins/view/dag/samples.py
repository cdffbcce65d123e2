"""Runs of a training task, as records."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow_trainer_provider.plugins.view.dag.records import DagRecords, RunRecord
from airflow_trainer_provider.plugins.view.model.records import TaskRecords, TryRecord

NOW = datetime(2026, 11, 21, 14, 21, 7, tzinfo=timezone.utc)
JOB = {"name": "j", "uid": "u", "backend": "trainer", "framework": "pytorch", "owner": 1}
REQUEST = {
    "image": "registry.example/nlp/finetune:2.8.1",
    "nodes": 4,
    "processes_per_node": 1,
    "gpus": 4,
    "queue": "team-nlp",
    "backend": "trainer",
    "requested": {"gpu": 1, "cpu": 8.0, "memory_bytes": 2**35},
}
ARGS = ["train.py", "--learning-rate", "3e-4", "--batch-size=512", "--fp16"]


def at(days):
    """When a run was to begin: at noon some days ago."""
    return NOW.replace(hour=12, minute=0, second=0) - timedelta(days=days)


def _iso(time):
    return time.isoformat()


def times(days, queued=600, starting=60, running=3600):
    """XCom of a job that began with its run: when it was queued and started, and when it ended."""
    begin = at(days)
    started = begin + timedelta(seconds=queued + starting)
    return {
        "queued_at": _iso(begin),
        "started_at": _iso(started),
        "finished_at": _iso(started + timedelta(seconds=running)),
    }


def replica(days, queued=600, starting=60, running=3600):
    """A row of XCom ``status``, with its segments."""
    first = at(days).timestamp()
    room, started = first + queued, first + queued + starting
    parts = [["queued", first, room], ["starting", room, started], ["running", started, started + running]]
    return {"name": "node-0", "group": "node", "index": 0, "rank": 0, "segments": parts}


def run(days, state="success", xcoms=None, args=None, request=None, fields=None, **task):
    """A run of some days ago."""
    shown = {"job": JOB, "request": {**REQUEST, **(request or {})}, **(xcoms or {})}
    number = task.pop("try_number", 1)
    index = task.pop("map_index", -1)
    waits = state in ("running", "deferred")
    records = TaskRecords(
        "d",
        task.pop("run_id", f"scheduled__{_iso(at(days))}"),
        "train",
        index,
        state=state,
        try_number=number,
        tries=(TryRecord(number, state, at(days), None if waits else NOW),),
        xcoms=shown,
        waiter="triggerer" if waits else "worker",
        waiter_seen_at=NOW - timedelta(seconds=2) if waits else None,
    )
    stored = {"args": ARGS if args is None else args, "env": {"SEED": "7"}} if fields is None else fields
    return RunRecord(records, at(days), task.pop("map_label", None), stored)


def succeeded(days, metrics=None, progress=None, long=None, **more):
    """A run whose training succeeded."""
    parts = long or {}
    returned = {
        "phase": "succeeded",
        "metrics": {"eval_loss": 1.9} if metrics is None else metrics,
        **times(days, **parts),
        **({"progress": progress} if progress else {}),
    }
    status = {"phase": "succeeded", "replicas": [replica(days, **parts)]}
    return run(days, xcoms={"return_value": returned, "status": status}, **more)


def failed(days, long=None, **more):
    """A run whose training failed."""
    failure = {"phase": "failed", "reason": "Error", "traceback": ["ValueError: loss is NaN at step 900"]}
    status = {"phase": "running", **times(days, **(long or {})), "replicas": [replica(days, **(long or {}))]}
    return run(days, "failed", xcoms={"failure": failure, "status": status}, **more)


def running(days=0, **more):
    """A run whose training goes on."""
    status = {"phase": "running", **times(days), "finished_at": None, "replicas": [replica(days)]}
    return run(days, "deferred", xcoms={"status": status}, **more)


def records(*runs, tasks=("train",), before=None):
    """A DAG with these runs."""
    return DagRecords("d", tasks, tasks[0] if tasks else None, runs, before)
