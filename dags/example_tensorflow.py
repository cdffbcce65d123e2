"""TensorFlow's MultiWorkerMirroredStrategy on a chief and a worker, joined by TF_CONFIG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import dag

from airflow_trainer_provider import TFJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "tensorflow_train.py"


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_tensorflow() -> None:
    TFJobOperator(
        task_id="train",
        backend="local",
        num_workers=1,
        command=["python", str(SCRIPT)],
        env={"TF_CPP_MIN_LOG_LEVEL": "2"},
    )


example_tensorflow()
