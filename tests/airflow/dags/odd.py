"""Trainings that leave what neither databases nor Airflow's serializers keep."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

RESULTS = [
    '{"text": "a\\u0000b"}',
    '{"text": "\\ud800"}',
    '{"__classname__": "builtins.tuple"}',
    "[" * 400 + "]" * 400,
]
WRITE = "import os, sys; open(os.environ['TRAINER_RESULT_PATH'], 'w').write(sys.argv[1])"
RAISE = "raise ValueError('a\\0b\\ud800')"
JOB = {"framework": "pytorch", "backend": "local", "launcher": "none", "num_nodes": 1, "retries": 0}

with DAG("train_odd", schedule=None):
    for how in ("waiting", "deferred"):
        TrainJobOperator.partial(
            task_id=f"succeeds_{how}", command=["python", "-c", WRITE], deferrable=how == "deferred", **JOB
        ).expand(args=[[result] for result in RESULTS])
        TrainJobOperator(task_id=f"fails_{how}", command=["python", "-c", RAISE], deferrable=how == "deferred", **JOB)
