"""A local job that is put together from presets, and that a policy is for."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

SCRIPT = Path(__file__).parents[1] / "scripts" / "job.py"

with DAG("train_governed", schedule=None, params={"presets": "two", "folder": ""}):
    TrainJobOperator(
        task_id="train",
        backend="local",
        presets="{{ params.presets }}",
        command=["python", str(SCRIPT)],
        args=["train", "{{ params.folder }}"],
        retries=1,
    )
