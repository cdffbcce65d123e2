"""Tasks whose Training tabs differ; all jobs run on this machine."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, task

from airflow_trainer_provider import TrainJobOperator
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.progress.stages import Stages
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

SCRIPT = Path(__file__).parents[1] / "scripts" / "job.py"
PARAMS = {"folder": ""}
JOB: dict[str, Any] = {
    "framework": "pytorch",
    "backend": "local",
    "launcher": "none",
    "command": ["python", str(SCRIPT)],
    "run_policy": {"grace_period_seconds": 3},
}
REPLICAS = 200


def args(mode: str) -> list[str]:
    return [mode, "{{ params.folder }}"]


def large_job() -> dict[str, Any]:
    """What a job of 200 replicas, two of which have failed, has in XCom while it runs."""
    handle = JobHandle(
        name="large",
        uid="large-1",
        backend="native",
        framework="pytorch",
        leader="worker-0",
        owner=1,
        location="native/training/no_such_connection",
    )
    began = datetime.now(timezone.utc) - timedelta(hours=1)
    replicas = tuple(replica(index, began) for index in range(REPLICAS))
    stages = Stages()
    stages.observe(
        JobStatus(phase=JobPhase.RUNNING, queued_at=began, started_at=began, replicas=replicas),
        began.timestamp() + 1800,
    )
    return {
        "request": {"nodes": REPLICAS, "processes_per_node": 8, "gpus": 8 * REPLICAS, "namespace": "training"},
        "status": stages.snapshot(datetime.now(timezone.utc)),
        "job": handle.to_xcom(),
    }


def replica(index: int, began: datetime) -> ReplicaStatus:
    fields: dict[str, Any] = {"group": "worker", "index": index, "node": f"gpu-{index}"}
    if index == REPLICAS - 1:
        return ReplicaStatus(**fields)
    started = {"started_at": began + timedelta(minutes=1)}
    if index in (17, 42):
        return ReplicaStatus(
            **fields, **started, finished_at=began + timedelta(minutes=20), exit_code=1, reason="Error"
        )
    return ReplicaStatus(**fields, **started)


class LargeJob(TrainJobOperator):
    """Writes the XComs of such a job, and starts none: this machine has no room for one."""

    def execute(self, context: Context) -> None:
        for key, value in large_job().items():
            context["ti"].xcom_push(key, value)
        folder = Path(context["params"]["folder"])
        while not (folder / "go").exists():
            time.sleep(0.5)


with DAG("training_followed", schedule=None, params=PARAMS):
    TrainJobOperator(
        task_id="deferred",
        deferrable=True,
        num_workers=1,
        args=args("report"),
        metrics={"accuracy": r"accuracy=([\d.]+)"},
        **JOB,
    )

with DAG("training_tab", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="running", deferrable=False, args=args("silent"), **JOB)
    TrainJobOperator(task_id="queued", pool="without_slots", args=args("silent"), **JOB)
    TrainJobOperator(task_id="retried", retries=1, retry_delay=timedelta(seconds=1), args=args("raise-once"), **JOB)
    TrainJobOperator.partial(task_id="mapped", deferrable=False, **JOB).expand(
        args=[["report", "{{ params.folder }}/at_once"], args("raise"), args("exit"), args("silent")]
    )

    @task
    def of_another_operator() -> None:
        """Trains nothing."""

    of_another_operator()
    LargeJob(task_id="with_200_replicas", args=args("silent"), **JOB)
