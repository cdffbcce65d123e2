"""PyTorch on two nodes: torchrun on each, joined by the rendezvous that the operator sets up.

`train` has a fixed number of nodes. `train_elastic` continues from the last checkpoint, with one node less, if a node
is lost.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import dag

from airflow_trainer_provider import PyTorchJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "pytorch_train.py"


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_pytorch() -> None:
    train = PyTorchJobOperator(
        task_id="train",
        backend="local",
        num_nodes=2,
        command=["python", str(SCRIPT)],
        args=["--epochs", "40"],
    )
    train_elastic = PyTorchJobOperator(
        task_id="train_elastic",
        backend="local",
        elastic={"min_nodes": 1, "max_nodes": 2, "max_restarts": 3},
        command=["python", str(SCRIPT)],
    )
    train >> train_elastic


example_pytorch()
