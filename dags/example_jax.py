"""JAX on two processes, joined to one runtime by jax.distributed; on CPUs they communicate through gloo."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import dag

from airflow_trainer_provider import JAXJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "jax_train.py"


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_jax() -> None:
    JAXJobOperator(
        task_id="train",
        backend="local",
        num_nodes=2,
        command=["python", str(SCRIPT)],
        env={"JAX_PLATFORMS": "cpu"},
    )


example_jax()
