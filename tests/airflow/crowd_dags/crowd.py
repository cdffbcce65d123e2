"""Trainings of which there are many at once. The environment says how many."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

SCRIPT = Path(__file__).parents[1] / "scripts" / "hostile.py"
JOB = {"framework": "pytorch", "backend": "local", "launcher": "none", "num_nodes": 1, "retries": 0}
SLEEP = "import sys, time; time.sleep(float(sys.argv[1]))"

with DAG("crowd_short", schedule=None, max_active_tasks=200):
    TrainJobOperator.partial(task_id="train", command=["python", "-c", SLEEP], deferrable=True, **JOB).expand(
        args=[[str(number % 3)] for number in range(int(os.environ["SHORT_JOBS"]))]
    )

with DAG("crowd_hostile", schedule=None, max_active_tasks=200):
    for how in ("waiting", "deferred"):
        for end in ("succeed", "fail"):
            TrainJobOperator.partial(
                task_id=f"{end}_{how}",
                command=["python", str(SCRIPT)],
                metrics={"loss": r"loss=(\S+)"},
                deferrable=how == "deferred",
                **JOB,
            ).expand(args=[[str(number), end] for number in range(int(os.environ["HOSTILE_JOBS"]))])
