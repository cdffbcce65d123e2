"""PaddlePaddle in collective mode on two nodes: paddle.distributed.launch on each, with gloo between CPUs."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import dag

from airflow_trainer_provider import PaddleJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "paddle_train.py"


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_paddle() -> None:
    PaddleJobOperator(
        task_id="train",
        backend="local",
        num_nodes=2,
        command=["python", str(SCRIPT)],
    )


example_paddle()
