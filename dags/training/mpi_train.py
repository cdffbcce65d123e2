"""Fit a logistic regression with mpi4py: each rank computes the gradient of its rows, Allreduce adds them up.

Run it as `python -m mpi4py mpi_train.py`: an exception in one rank then ends all ranks. With plain `python`, that rank
would wait for the others in MPI_Finalize, and the others would wait for it.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy
from mpi4py import MPI
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


def main() -> None:
    """Train as this rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    world = MPI.COMM_WORLD
    rank, ranks = world.Get_rank(), world.Get_size()
    features, labels = load_breast_cancer(return_X_y=True)
    features = StandardScaler().fit_transform(features)
    features, held_out, labels, held_out_labels = train_test_split(features, labels, random_state=0)
    mine, my_labels = features[rank::ranks], labels[rank::ranks]
    print(f"rank {rank} of {ranks} trains on {len(mine)} of {len(features)} rows", flush=True)

    weights = numpy.zeros(features.shape[1])
    total = numpy.empty_like(weights)
    for _ in range(options.steps):
        gradient = mine.T @ (1 / (1 + numpy.exp(-mine @ weights)) - my_labels)
        world.Allreduce(gradient, total)
        weights -= 0.1 * total / len(features)

    if rank == 0:
        accuracy = float(((held_out @ weights > 0) == held_out_labels).mean())
        result = {"ranks": ranks, "metrics": {"accuracy": accuracy}}
        Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
