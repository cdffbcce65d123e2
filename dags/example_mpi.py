"""MPI on two workers with two processes each: mpirun runs on the launcher.

`python -m mpi4py` makes an exception in one rank end all ranks. With plain `python` that rank would wait for the others
in MPI_Finalize, and the job would hang.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import dag

from airflow_trainer_provider import MPIJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "mpi_train.py"


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_mpi() -> None:
    MPIJobOperator(
        task_id="train",
        backend="local",
        num_workers=2,
        slots_per_worker=2,
        command=["python", "-m", "mpi4py", str(SCRIPT)],
        env={"OMP_NUM_THREADS": "1"},
    )


example_mpi()
