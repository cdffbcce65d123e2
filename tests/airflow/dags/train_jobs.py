"""The provider's operator and sensor, in each way that they wait."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator, TrainJobSensor

SCRIPT = Path(__file__).parents[1] / "scripts" / "job.py"

JOB = {
    "framework": "pytorch",
    "backend": "local",
    "launcher": "none",
    "num_workers": 1,
    "command": ["python", str(SCRIPT)],
    "args": ["{{ params.mode }}", "{{ params.folder }}"],
    "run_policy": {"grace_period_seconds": 3},
}
#: Airflow takes a sensor that it queues again too soon for one that its executor has lost.
POKE = 5
PARAMS = {"mode": "train", "folder": "", "timeout": 0}

for how in ("waiting", "deferred"):
    with DAG(f"train_{how}", schedule=None, params=PARAMS):
        TrainJobOperator(
            task_id="train", deferrable=how == "deferred", retries=1, retry_delay=timedelta(seconds=1), **JOB
        )

with DAG("train_wrong", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", retries=3, **JOB | {"framework": "pytroch"})

with DAG("train_once", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", deferrable=False, **JOB)

with DAG("train_run_limited", schedule=None, params=PARAMS, dagrun_timeout=timedelta(seconds=10)):
    TrainJobOperator(task_id="train", deferrable=True, **JOB)

with DAG("train_limited", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", deferrable=True, execution_timeout=timedelta(seconds=8), **JOB)

with DAG("train_handed_over", schedule=None, params=PARAMS):
    train = TrainJobOperator(task_id="train", wait_for_completion=False, **JOB)
    TrainJobSensor(task_id="poking", job=train.output, poke_interval=1, deferrable=False)
    TrainJobSensor(task_id="rescheduled", job=train.output, poke_interval=POKE, mode="reschedule", deferrable=False)
    TrainJobSensor(
        task_id="deferred", job='{{ ti.xcom_pull("train", key="job") | tojson }}', deferrable=True
    ).set_upstream(train)

with DAG("train_mapped", schedule=None, params=PARAMS):
    TrainJobOperator.partial(task_id="train", **{key: value for key, value in JOB.items() if key != "args"}).expand(
        args=[["train", "{{ params.folder }}"], ["raise", "{{ params.folder }}"]]
    )
