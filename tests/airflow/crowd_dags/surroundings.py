"""Trainings with what DAGs put around tasks: pools, task groups, setup and teardown, and earlier runs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup, task

from airflow_trainer_provider import DeleteTrainJobOperator, TrainJobOperator

SCRIPT = Path(__file__).parents[1] / "scripts" / "job.py"
JOB = {
    "framework": "pytorch",
    "backend": "local",
    "launcher": "none",
    "num_workers": 1,
    "command": ["python", str(SCRIPT)],
}
PARAMS = {"folder": "", "mode": "train"}
ARGS = ["{{ params.mode }}", "{{ params.folder }}"]


@task
def read(summary: dict) -> int:
    return summary["result"]["trainings"]


with DAG("train_in_pool", schedule=None, params=PARAMS):
    TrainJobOperator.partial(task_id="train", pool="gpus", deferrable=True, **JOB).expand(args=[ARGS, [*ARGS, "again"]])

for how in ("waiting", "deferred"):
    with DAG(f"train_after_past_{how}", schedule=None, start_date=datetime(2026, 1, 1), params=PARAMS):
        train = TrainJobOperator(
            task_id="train", depends_on_past=True, args=ARGS, deferrable=how == "deferred", retries=0, **JOB
        )
        read(train.output)

    with DAG(f"train_between_{how}", schedule=None, params=PARAMS), TaskGroup("group"):
        before = EmptyOperator(task_id="before")
        train = TrainJobOperator(task_id="train", args=ARGS, deferrable=how == "deferred", retries=0, **JOB)
        after = DeleteTrainJobOperator(task_id="after", job='{{ ti.xcom_pull("group.train", key="job") | tojson }}')
        before >> train >> after.as_teardown(setups=before)
