"""A Python function as the job: each rank calls it, and the task returns the value of rank 0.

The packages that the function imports, such as `mpi4py`, have to be installed where it runs: here on the worker, on a
cluster in the image.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow.sdk import dag, task

from airflow_trainer_provider.training import report

STEPS = 10


@dataclass
class Part:
    """The numbers that one rank adds up."""

    rank: int
    ranks: int

    def sum(self, numbers: range) -> int:
        """The sum of every ranks-th number."""
        return sum(numbers[self.rank :: self.ranks])


def replica() -> Part:
    """The part of this process, from the variables that the launcher sets."""
    import os

    return Part(int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"]))


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_function() -> None:
    @task
    def prepare() -> dict[str, int]:
        return {"size": 1000}

    @task.train_job(framework="jax", backend="local")
    def square(number: int) -> int:
        return number**2

    @task.mpi_job(backend="local", num_nodes=2)
    def train(settings: dict[str, int], squares: list[int]) -> dict[str, int]:
        from mpi4py import MPI

        part = replica()
        total, size = 0, settings["size"] // STEPS
        for step in range(STEPS):
            # Each rank has a part of the sum.
            total += MPI.COMM_WORLD.allreduce(part.sum(range(step * size, (step + 1) * size)))
            # Rank 0 prints a line, from which the Training tab shows the progress.
            report(step=step + 1, total_steps=STEPS, metrics={"sum": total})
        print(f"rank {part.rank} of {part.ranks}: {total}")
        return {"sum": total, "squares": sum(squares)}

    @task
    def check(value: dict[str, int]) -> None:
        if value != {"sum": sum(range(1000)), "squares": 5}:
            raise ValueError(f"the ranks have added up {value}")

    # A job for each number.
    check(train(prepare(), square.expand(number=[1, 2])))


example_function()
