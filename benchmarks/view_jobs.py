"""Fills Airflow's database with training jobs, as a deployment that trains a lot has them after some weeks."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel

NOW = datetime.now(timezone.utc).replace(microsecond=0)
DAGS = 200
_BUNDLE = "bench"
_FRAMEWORKS = {"pytorch": "trainer", "tensorflow": "training-operator", "mpi": "mpi-operator", "jax": "native"}
_REPLICAS = 4
_POINTS = 250
_AT_ONCE = 500
_TASKS = 50
#: How many runs of a task Airflow keeps the rendered fields of.
_RENDERED_RUNS = 30
#: What Airflow keeps of any task.
_OPERATOR = {"_task_module": "team.operators", "task_type": "PreparingOperator", "doc_md": "What it does. " * 50}
#: What a job of a kind is: Airflow's state of its task, its phase, and the days since which it is over, at most.
_KINDS = {
    "running": ("deferred", "running", 0.0),
    "waiting": ("deferred", "queued", 0.0),
    "succeeded": ("success", "succeeded", 6.5),
    "failed": ("failed", "failed", 6.5),
    "old": ("success", "succeeded", 60.0),
}


def fill(connection: sqlalchemy.Connection, jobs: dict[str, int]) -> None:
    """Add DAGs, runs, tasks and XCom.

    :param connection: to a database that has Airflow's tables.
    :param jobs: kind of job -> how many.
    """
    choose = random.Random(5)
    _insert(connection, DagBundleModel, iter([{"name": _BUNDLE}]))
    _insert(connection, DagModel, (_dag(number) for number in range(DAGS)))
    _insert(connection, DagVersion, (_version(number) for number in range(DAGS)))
    _insert(connection, SerializedDagModel, (_serialized(number) for number in range(DAGS)))
    places = _places(jobs, choose)
    _insert(connection, DagRun, (_run(number, kind, choose) for number, kind in places))
    _insert(connection, TaskInstance, (row for number, kind in places for row in _tasks(number, kind, choose)))
    _insert(connection, RenderedTaskInstanceFields, (row for number, _ in places for row in _rendered(number)))
    _insert(connection, XComModel, (row for number, kind in places for row in _xcoms(number, kind, choose)))


def _places(jobs: dict[str, int], choose: random.Random) -> list[tuple[int, str]]:
    """The number and the kind of each job."""
    kinds = [kind for kind, count in jobs.items() for _ in range(count)]
    choose.shuffle(kinds)
    return list(enumerate(kinds, 1))


def _insert(connection: sqlalchemy.Connection, model: Any, rows: Iterator[dict[str, Any]]) -> None:
    some: list[dict[str, Any]] = []
    for row in rows:
        some.append(row)
        if len(some) == _AT_ONCE:
            connection.execute(sqlalchemy.insert(model.__table__), some)
            some.clear()
    if some:
        connection.execute(sqlalchemy.insert(model.__table__), some)


def _names(number: int) -> dict[str, Any]:
    return {"dag_id": f"team_{number % DAGS % 20}_model_{number % DAGS}", "run_id": f"scheduled__{number}"}


def _dag(number: int) -> dict[str, Any]:
    return {
        "dag_id": _names(number)["dag_id"],
        "is_paused": False,
        "is_stale": False,
        "bundle_name": _BUNDLE,
        "owners": f"team-{number % 20}",
        "timetable_type": "",
        "max_active_tasks": 16,
        "max_consecutive_failed_dag_runs": 0,
        "has_task_concurrency_limits": False,
        "exceeds_max_non_backfill": False,
        "fail_fast": False,
    }


def _version(number: int) -> dict[str, Any]:
    times = {"created_at": NOW, "last_updated": NOW}
    return {"id": _version_id(number), "dag_id": _names(number)["dag_id"], "version_number": 1, **times}


def _version_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=number % DAGS + 1)


def _serialized(number: int) -> dict[str, Any]:
    """A DAG as Airflow keeps it: a training, and as many other tasks as a DAG of some size has."""
    others = [{"task_id": f"prepare_{each}", "template_fields": ["bash_command", "env"]} for each in range(_TASKS)]
    tasks = [{"task_id": "prepare"}, {"task_id": "train", "template_fields": ["args", "rendered_job"]}, *others]
    data = {"dag": {"tasks": [{"__type": "operator", "__var": {**_OPERATOR, **task}} for task in tasks]}}
    version = {"dag_version_id": _version_id(number), "dag_hash": str(number)}
    names = {"id": uuid.UUID(int=number + 1), "dag_id": _names(number)["dag_id"]}
    return {**names, **version, "data": data, "created_at": NOW, "last_updated": NOW}


def _run(number: int, kind: str, choose: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        **_names(number),
        "run_type": "scheduled",
        "run_after": NOW - timedelta(hours=3),
        "start_date": NOW - timedelta(hours=3),
        "state": "running" if kind in ("running", "waiting") else "success",
        "clear_number": 0,
        "log_template_id": None,
        "span_status": "not_started",
    }


def _tasks(number: int, kind: str, choose: random.Random) -> Iterator[dict[str, Any]]:
    """The training, and a task before it, as most DAGs have some."""
    state, _, days = _KINDS[kind]
    ended = NOW - timedelta(days=7.5 if kind == "old" else 0) - timedelta(days=choose.random() * days) if days else None
    for task_id, of_task, end in (("prepare", "success", ended or NOW), ("train", state, ended)):
        yield {
            "id": TaskInstance.__table__.c.id.type.python_type(str(uuid.UUID(int=choose.getrandbits(128)))),
            **_names(number),
            "task_id": task_id,
            "map_index": -1,
            "dag_version_id": _version_id(number),
            "state": of_task,
            "try_number": 1,
            "max_tries": 3,
            "start_date": (end or NOW) - timedelta(hours=2),
            "end_date": end,
            "operator": "PyTorchJobOperator",
            "last_heartbeat_at": NOW,
            "pool": "default_pool",
            "pool_slots": 1,
            "queue": "default",
            "priority_weight": 1,
            "hostname": "worker",
            "executor_config": {},
        }


def _rendered(number: int) -> Iterator[dict[str, Any]]:
    """What the latest runs of each DAG have rendered; of the others Airflow keeps nothing."""
    if number < DAGS * _RENDERED_RUNS:
        of_run = {**_names(number), "map_index": -1}
        job = {"args": ["--epochs", "4"], "backend": "native", "rendered_job": "kind: Job\n" * 400}
        yield {**of_run, "task_id": "train", "rendered_fields": job}
        yield {**of_run, "task_id": "prepare", "rendered_fields": {"bash_command": "prepare --all " * 50}}


def _xcoms(number: int, kind: str, choose: random.Random) -> Iterator[dict[str, Any]]:
    names = {"dag_run_id": number, **_names(number), "map_index": -1, "timestamp": NOW}
    yield {**names, "task_id": "prepare", "key": "return_value", "value": {"path": "s3://data/prepared", "rows": 10**6}}
    for key, value in _of_job(number, kind, choose).items():
        yield {**names, "task_id": "train", "key": key, "value": value}


def _of_job(number: int, kind: str, choose: random.Random) -> dict[str, Any]:
    phase = _KINDS[kind][1]
    framework, backend = choose.choice(list(_FRAMEWORKS.items()))
    name, times = f"model-train-{number:08x}-1", _times(phase)
    job = {"name": name, "uid": str(number), "backend": backend, "framework": framework, "leader": "worker-0"}
    found: dict[str, Any] = {
        "job": {**job, "owner": 1, "location": "job/ml/kube"},
        "request": {
            **{"framework": framework, "backend": backend, "namespace": f"team-{number % 20}", "queue": "team"},
            **{"name": name, "image": "registry.example/train:1", "nodes": _REPLICAS, "processes_per_node": 8},
            **{"gpus": 32, "requested": {"gpu": 8, "cpu": 32.0, "memory_bytes": 2**38}, "tools": {}},
        },
        "status": {"phase": phase, "as_of": NOW.isoformat(), **times, "replicas": _replicas(phase)},
    }
    if phase != "queued":
        found["progress"] = _progress(number)
    if phase == "succeeded":
        metrics = {"loss": 0.31, "accuracy": 0.93}
        found["return_value"] = {**job, "phase": phase, **times, "metrics": metrics, "replicas": _replicas(phase)}
    if phase == "failed":
        message = "worker-0 (rank 0) failed first: it exited with code 1."
        trace = [f'  File "/app/train.py", line {line}, in step' for line in range(40)]
        found["failure"] = {"phase": phase, "reason": "Error", "message": message, "traceback": trace}
    return found


def _times(phase: str) -> dict[str, Any]:
    queued = (NOW - timedelta(hours=2)).isoformat()
    started = None if phase == "queued" else (NOW - timedelta(hours=1)).isoformat()
    return {"reason": None, "message": None, "queued_at": queued, "started_at": started, "restarts": 0}


def _replicas(phase: str) -> list[dict[str, Any]]:
    began = NOW.timestamp() - 3600
    return [
        {
            **{"name": f"worker-{index}", "group": "worker", "index": index, "rank": index, "node": f"gpu-{index:03}"},
            **{"reason": None, "message": None, "exit_code": None, "signal": None, "restarts": 0},
            **{"started_at": None if phase == "queued" else (NOW - timedelta(hours=1)).isoformat()},
            **{"finished_at": None, "peak_memory_bytes": 2**37, "segments": [["queued", began - 60, began]]},
        }
        for index in range(_REPLICAS)
    ]


def _progress(number: int) -> dict[str, Any]:
    """With a history as large as the script's reports make it."""
    steps = list(range(0, 20 * _POINTS, 20))
    began = NOW.timestamp() - 3600
    history = {
        metric: [
            {
                "attempt": 0,
                "step": steps,
                "at": [began + step for step in steps],
                "value": [1 / (step + 1) for step in steps],
            }
        ]
        for metric in ("loss", "accuracy")
    }
    return {
        **{"step": steps[-1], "total_steps": 20_000, "percent": 25.0, "steps_per_second": 1.0},
        **{"estimated_end": (NOW + timedelta(hours=3)).isoformat(), "reported_at": NOW.isoformat()},
        **{"metrics": {"loss": 0.4, "accuracy": 0.9}, "attempt": 0, "restarts": [], "checkpoint": None},
        "history": history,
    }
