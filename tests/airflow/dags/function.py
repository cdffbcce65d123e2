"""Functions as jobs: mapped, in a task group, and waited for in the triggerer."""

from __future__ import annotations

from airflow.sdk import dag, task, task_group

FACTOR = 10


@dag(schedule=None)
def train_function() -> None:
    @task_group
    def trainings() -> object:
        @task.jax_job(backend="local", deferrable=True, multiple_outputs=True)
        def train(number: int, text: str) -> dict[str, object]:
            # Airflow renders the text.
            return {"number": number * FACTOR, "text": text}

        return train.partial(text="{{ dag.dag_id }}").expand(number=[1, 2])

    @task
    def add_up(results: list[dict[str, object]]) -> dict[str, object]:
        return {"sum": sum(each["number"] for each in results), "texts": [each["text"] for each in results]}

    add_up(trainings())


train_function()
