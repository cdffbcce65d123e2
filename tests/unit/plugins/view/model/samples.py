"""Records of a training task, and what is in its XCom."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow_trainer_provider.plugins.view.model.records import EarlierRun, TaskRecords, TryRecord

NOW = datetime(2026, 11, 21, 14, 21, 7, tzinfo=timezone.utc)
JOB = {
    "name": "llm-train-4be2-1",
    "uid": "8f1c",
    "backend": "trainer",
    "framework": "pytorch",
    "leader": "node-0",
    "owner": 1,
    "location": "trainjob/training/kube",
    "tools": {
        "tensorboard": "https://tb.example/x",
        "bad": "javascript:alert(1)",
        "later": "http://<node>:30000/",
        "password": "https://user:password@tb.example/",
    },
}
REQUEST = {
    "framework": "pytorch",
    "backend": "trainer",
    "namespace": "training",
    "queue": None,
    "image": "registry.example/train:1",
    "nodes": 4,
    "processes_per_node": 1,
    "gpus": 4,
    "requested": {"gpu": 1, "cpu": 8.0, "memory_bytes": 2**35},
    "startup_timeout_seconds": 1800,
    "tools": {},
}


PLACE = {
    "name": "team-nlp",
    "cluster_queue": "research",
    "position": 3,
    "length": 7,
    "cluster_position": 5,
    "missing": [
        {"resource": "nvidia.com/gpu", "flavor": "a100", "total": 32.0, "used": 30.0, "free": 2.0, "needed": 4.0},
        {"resource": "memory", "flavor": "a100", "total": None, "used": None, "free": 2.0**30, "needed": 2.5 * 2**30},
    ],
    "estimate": {
        "earliest": "2026-11-21T14:15:00Z",
        "latest": "2026-11-21T14:51:07Z",
        "basis": "From the last 24 admissions to this queue: one every 6 min.",
    },
    "estimate_why": None,
}


def ago(minutes):
    """A time before now, in ISO 8601."""
    return (NOW - timedelta(minutes=minutes)).isoformat()


def replica(index, **fields):
    """A replica that runs."""
    group, number = ("master", 0) if index == 0 else ("worker", index - 1)
    return {
        "name": f"{group}-{number}",
        "group": group,
        "index": number,
        "rank": index,
        "started_at": ago(60),
        "finished_at": None,
        "restarts": 0,
        **fields,
    }


def status(phase="running", replicas=None, **fields):
    """XCom ``status``."""
    rows = [replica(index) for index in range(4)] if replicas is None else replicas
    times = {"as_of": ago(0), "queued_at": ago(70), "started_at": ago(60)}
    return {"phase": phase, "reason": None, "message": None, **times, "restarts": 0, "replicas": rows, **fields}


PROGRESS = {
    "step": 6560,
    "total_steps": 20000,
    "percent": 32.8,
    "steps_per_second": 1.6,
    "estimated_end": (NOW + timedelta(hours=2)).isoformat(),
    "reported_at": ago(0),
    "metrics": {"loss": 1.965, "lr": "NaN", "accuracy": 0.5},
    "attempt": 1,
    "restarts": [{"at": ago(28), "from_step": 4000, "lost_steps": 212}],
    "checkpoint": {"step": 6400, "at": ago(2), "path": "/ckpt/6400"},
    "resumed_from": {"step": 4000, "at": ago(60), "path": "/ckpt/4000"},
    "history": {
        "loss": [
            {"attempt": 0, "step": [1, 2, 3], "at": [1.0, 2.0, 3.0], "value": [3.0, None, 2.5]},
            {"attempt": 1, "step": [3, 4], "at": [9.0, 10.0], "value": [2.4, 1.965]},
        ],
        "eval_loss": [{"attempt": 0, "step": [2], "at": [2.0], "value": [2.9]}],
    },
}
FAILURE = {
    "job": "llm-train-4be2-1",
    "phase": "failed",
    "reason": "Error",
    "message": "worker-0 (rank 1) failed first: it exited with code 1, Error: No module named 'x'.",
    "replica": "worker-0",
    "rank": 1,
    "exit_code": 1,
    "signal": None,
    "retry_can_help": "no",
    "traceback": ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'x'"],
    "last_log_lines": ["last"],
    "others": [{"replica": "master-0", "exit_code": None, "signal": "SIGTERM", "reason": "Stopped"}],
    "infrastructure": False,
    "way_out": "Add the module to the image.",
}
RETURNED = {
    "name": "llm-train-4be2-1",
    "phase": "succeeded",
    "metrics": {"eval_loss": 1.814},
    "result": {"path": "/model"},
    "queued_at": ago(70),
    "started_at": ago(60),
    "finished_at": ago(0),
    "restarts": 0,
    "queue_seconds": 600.0,
    "run_seconds": 3600.0,
    "replicas": [{**replica(0, reason="Completed", finished_at=ago(0), peak_memory_bytes=5), "name": None}],
}
EARLIER = tuple(
    EarlierRun(
        f"run-{days}",
        NOW - timedelta(days=days),
        NOW - timedelta(days=days, hours=2),
        NOW - timedelta(days=days),
        {"return_value": {"phase": "succeeded", "run_seconds": 7000.0 + days, "queue_seconds": 100.0 * days}}
        | ({"progress": {"steps_per_second": 2.0, "history": PROGRESS["history"]}} if days == 1 else {}),
    )
    for days in (1, 2, 3)
)


def records(state="running", xcoms=None, **fields):
    """A task instance whose worker, or triggerer, is there."""
    shown = {"job": JOB, "request": REQUEST} if xcoms is None else xcoms
    number = fields.get("try_number", 1)
    ended = None if state in ("running", "deferred", "queued", "scheduled", None) else NOW
    defaults = {
        "tries": (TryRecord(number, state, NOW - timedelta(minutes=75), ended),),
        "waiter": "triggerer" if state == "deferred" else "worker",
        "waiter_seen_at": NOW - timedelta(seconds=2),
    }
    return TaskRecords("d", "r", "train", -1, state=state, xcoms=shown, **{**defaults, **fields})


def with_job(**xcoms):
    """XCom of a task with a job."""
    return {"job": JOB, "request": REQUEST, **xcoms}
