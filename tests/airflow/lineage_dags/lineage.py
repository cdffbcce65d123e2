"""Tasks whose jobs other systems hear of: metrics, lineage, asset events and links."""

from __future__ import annotations

from pathlib import Path

from airflow.providers.common.compat.lineage.entities import File
from airflow.sdk import DAG, Asset

from airflow_trainer_provider import TrainJobOperator

SCRIPT = Path(__file__).parents[1] / "scripts" / "job.py"
PARAMS = {"mode": "train", "folder": ""}


def _describe(model):
    """Set one key of an asset's event before the job runs."""

    def describe(context):
        context["outlet_events"][model].extra["job"] = "set by the task"

    return describe


for how in ("waiting", "deferred"):
    model = Asset(f"model_{how}", uri=f"file://storage/{how}/model")
    with DAG(f"lineage_{how}", schedule=None, params=PARAMS):
        TrainJobOperator(
            task_id="train",
            framework="pytorch",
            backend="local",
            launcher="none",
            num_workers=1,
            command=["python", str(SCRIPT)],
            args=["{{ params.mode }}", "{{ params.folder }}"],
            env={"MLFLOW_RUN_URL": "https://mlflow.example/#/experiments/1/runs/0a"},
            run_policy={"grace_period_seconds": 3},
            deferrable=how == "deferred",
            inlets=[File(url="s3://bucket/data")],
            outlets=[model, File(url="s3://bucket/model")],
            pre_execute=_describe(model),
        )
