"""Synchronous training over the workers of TF_CONFIG."""

import json
import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
world = strategy.num_replicas_in_sync
assert world == int(os.environ["EXPECTED_WORLD_SIZE"]), world
rank = strategy.cluster_resolver.task_id
kind = strategy.cluster_resolver.task_type

with strategy.scope():
    weights = tf.Variable(tf.zeros((4, 1)))

generator = tf.random.Generator.from_seed(rank + 1)
inputs = generator.normal((64, 4))
targets = tf.reduce_sum(inputs, axis=1, keepdims=True)


def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((inputs @ weights - targets) ** 2)
    gradient = tape.gradient(loss, weights)
    gradient = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradient)
    weights.assign_sub(0.1 * gradient)
    return loss


@tf.function
def training_step():
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(step), axis=None)


losses = [float(training_step()) for _ in range(20)]
assert losses[-1] < losses[0] / 2, losses
print(f"{kind} {rank} of {world}: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
leads = kind in ("chief", "master") or strategy.cluster_resolver.cluster_spec().job_tasks("chief") == []
if leads and (result := os.environ.get("TRAINER_RESULT_PATH")):
    with open(result, "w") as file:  # noqa: PTH123
        json.dump({"world": world, "metrics": {"loss": round(losses[-1], 4)}}, file)
