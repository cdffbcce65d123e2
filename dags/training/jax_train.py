"""Train a softmax regression on handwritten digits with JAX, one array spread over all processes.

jax.distributed joins the processes to one runtime: each holds its rows, and a jitted function works on all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import traceback
from pathlib import Path

import jax
import numpy
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def loss(weights: jax.Array, images: jax.Array, digits: jax.Array) -> jax.Array:
    """Mean cross entropy."""
    chances = jax.nn.log_softmax(images @ weights)
    return -jnp.take_along_axis(chances, digits[:, None], axis=1).mean()


@jax.jit
def step(weights: jax.Array, images: jax.Array, digits: jax.Array) -> jax.Array:
    """One step of gradient descent."""
    return weights - 0.5 * jax.grad(loss)(weights, images, digits)


def main() -> None:
    """Train as this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # for CPUs in several processes
    rank, ranks = int(os.environ["JAX_PROCESS_ID"]), int(os.environ["JAX_NUM_PROCESSES"])
    jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], num_processes=ranks, process_id=rank)
    print(f"process {rank} of {ranks} sees {jax.device_count()} devices", flush=True)

    images, digits = load_digits(return_X_y=True)
    images, held_out_images, digits, held_out_digits = train_test_split(images / 16, digits, random_state=0)
    rows = len(images) // ranks  # the same number in each process
    mine = slice(rank * rows, (rank + 1) * rows)
    spread = NamedSharding(Mesh(numpy.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    all_images = jax.make_array_from_process_local_data(spread, images[mine].astype("float32"))
    all_digits = jax.make_array_from_process_local_data(spread, digits[mine])
    weights = jnp.zeros((64, 10))
    for _ in range(options.steps):
        weights = step(weights, all_images, all_digits)

    final = numpy.asarray(weights.addressable_data(0))
    if rank == 0:
        accuracy = float(((held_out_images @ final).argmax(1) == held_out_digits).mean())
        result = {"processes": ranks, "metrics": {"accuracy": accuracy}}
        Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))
    jax.distributed.shutdown()


if __name__ == "__main__":
    try:
        main()
    except Exception:
        # The ordinary exit would wait minutes for the other processes, which wait for this one.
        traceback.print_exc()
        os._exit(1)
