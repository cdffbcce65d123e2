"""Gradient descent whose gradients JAX's processes exchange through gloo."""

import json
import os

import jax
import numpy as np
from jax import numpy as jnp
from jax.experimental.multihost_utils import process_allgather


def environment() -> tuple[str, int, int]:
    """Coordinator, number of processes, and this one's: Trainer's variables, or the v1 operator's."""
    if "JAX_COORDINATOR_ADDRESS" in os.environ:
        coordinator, prefix = os.environ["JAX_COORDINATOR_ADDRESS"], "JAX_"
    else:
        coordinator, prefix = "{COORDINATOR_ADDRESS}:{COORDINATOR_PORT}".format(**os.environ), ""
    return coordinator, int(os.environ[f"{prefix}NUM_PROCESSES"]), int(os.environ[f"{prefix}PROCESS_ID"])


@jax.jit
@jax.value_and_grad
def loss_and_gradient(weights, inputs, targets):
    return jnp.mean((inputs @ weights - targets) ** 2)


coordinator, world, rank = environment()
assert world == int(os.environ["EXPECTED_WORLD_SIZE"]), world
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(coordinator, world, rank)
assert (jax.process_count(), jax.process_index()) == (world, rank)

generator = np.random.default_rng(rank)
inputs = generator.normal(size=(64, 4)).astype("float32")
targets = inputs.sum(axis=1)
weights = np.zeros(4, "float32")
losses = []
for _ in range(20):
    loss, gradient = loss_and_gradient(weights, inputs, targets)
    losses.append(float(loss))
    weights -= 0.1 * process_allgather(gradient).mean(axis=0)
assert losses[-1] < losses[0] / 2, losses

# Each process saw other data: equal weights mean that gradients were exchanged.
everyone = process_allgather(weights)
assert everyone.shape == (world, 4), everyone
assert (everyone == weights).all(), everyone
print(f"rank {rank} of {world}: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
if rank == 0 and (result := os.environ.get("TRAINER_RESULT_PATH")):
    with open(result, "w") as file:  # noqa: PTH123
        json.dump({"world": world, "metrics": {"loss": round(losses[-1], 4)}}, file)
jax.distributed.shutdown()
