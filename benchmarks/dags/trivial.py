"""A training job that does nothing, waited for in both ways, and a task that does nothing without one."""

from airflow.sdk import DAG, task

from airflow_trainer_provider import TrainJobOperator

for how in ("waiting", "deferred"):
    with DAG(f"trivial_{how}", schedule=None):
        TrainJobOperator(
            task_id="train",
            framework="jax",
            backend="native",
            image="trainer.test/worker:test",
            command=["true"],
            deferrable=how == "deferred",
        )

with DAG("trivial_nothing", schedule=None):
    task(lambda: None, task_id="train")()
