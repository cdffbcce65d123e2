"""Gradient descent whose gradients Paddle sums through gloo; for a process of paddle.distributed.launch."""

import json
import os

import paddle
from paddle import distributed

paddle.set_device("cpu")
distributed.init_parallel_env()
rank, world = distributed.get_rank(), distributed.get_world_size()
assert world == int(os.environ["EXPECTED_WORLD_SIZE"]), world

paddle.seed(rank + 1)
inputs = paddle.randn([64, 4])
targets = inputs.sum(axis=1, keepdim=True)
weights = paddle.zeros([4, 1])
weights.stop_gradient = False
losses = []
for _ in range(20):
    loss = ((inputs @ weights - targets) ** 2).mean()
    loss.backward()
    losses.append(float(loss))
    gradient = weights.grad
    distributed.all_reduce(gradient)
    with paddle.no_grad():
        weights.subtract_(0.1 * gradient / world)
    weights.clear_gradient()
assert losses[-1] < losses[0] / 2, losses

# Each rank saw other data: equal weights mean that gradients were exchanged.
everyone = []
distributed.all_gather(everyone, weights.detach())
assert len(everyone) == world, everyone
assert all(bool((each == weights).all()) for each in everyone), everyone
print(f"rank {rank} of {world}: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
if rank == 0 and (result := os.environ.get("TRAINER_RESULT_PATH")):
    with open(result, "w") as file:  # noqa: PTH123
        json.dump({"world": world, "metrics": {"loss": round(losses[-1], 4)}}, file)
