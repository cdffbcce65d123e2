"""Two hundred tasks that train, and two hundred others; each run waits until a test lets it go."""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

COUNT = 200
NAMES = [f"job-{number}" for number in range(COUNT)]

with DAG("many_trainings", schedule=None, is_paused_upon_creation=True):
    TrainJobOperator.partial(
        task_id="train",
        backend="native",
        kubernetes_conn_id="black_hole",
        namespace="training",
        framework="xgboost",
        image="training",
        command=["true"],
    ).expand(name=NAMES)

with DAG("many_others", schedule=None, is_paused_upon_creation=True):
    EmptyOperator.partial(task_id="train").expand(doc=NAMES)
