"""Start a job in one task and wait for it in another.

The operator returns the job's handle at once; the sensor takes no worker slot while it waits in the triggerer, and
pushes to XCom what the operator would have pushed. `deferrable=False` with `mode="reschedule"` works without a
triggerer.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import dag

from airflow_trainer_provider import MPIJobOperator, TrainJobSensor

SCRIPT = Path(__file__).resolve().parent / "training" / "mpi_train.py"


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_sensor() -> None:
    start = MPIJobOperator(
        task_id="start",
        backend="local",
        num_workers=2,
        command=["python", "-m", "mpi4py", str(SCRIPT)],
        wait_for_completion=False,
    )
    TrainJobSensor(task_id="wait", job=start.output, deferrable=True, timeout=600)


example_sensor()
