"""A plain task, then a sensor that waits in the triggerer: nothing of ours in it."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import dag, task


@dag(schedule=None)
def toy_deferral():
    @task
    def say(params: dict) -> str:
        print("said:", params["word"])
        return params["word"]

    say() >> TimeDeltaSensor(task_id="wait", delta=timedelta(seconds=1), deferrable=True)


toy_deferral()
