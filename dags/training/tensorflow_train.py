"""Train a classifier of handwritten digits with TensorFlow under MultiWorkerMirroredStrategy.

The strategy reads TF_CONFIG: where the chief and the workers are, and which of them this process is.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH = 64


def main() -> None:
    """Train as this replica."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    tf.config.threading.set_intra_op_parallelism_threads(1)  # several replicas share this machine
    # This comes first: the strategy has to be created before TensorFlow runs anything.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(f"{task['type']} {task['index']} of {strategy.num_replicas_in_sync} replicas", flush=True)

    images, digits = load_digits(return_X_y=True)
    images, held_out_images, digits, held_out_digits = train_test_split(
        (images / 16).astype("float32"), digits, random_state=0
    )
    rows = tf.data.Dataset.from_tensor_slices((images, digits)).shuffle(2000, seed=0).repeat().batch(BATCH)
    batches = iter(strategy.experimental_distribute_dataset(rows))  # each replica takes its share of every batch
    with strategy.scope():
        layers = [tf.keras.Input((64,)), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)]
        model = tf.keras.Sequential(layers)
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def replica_step(images: tf.Tensor, digits: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(digits, model(images))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    @tf.function
    def step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(replica_step, batch), axis=None)

    for number in range(options.steps):
        loss = float(step(next(batches)))
        if number % 50 == 49:
            print(f"step {number}: loss {loss:.3f}", flush=True)

    if task["type"] == "chief":
        predicted = tf.argmax(model(held_out_images), axis=1).numpy()
        metrics = {"accuracy": float((predicted == held_out_digits).mean()), "loss": loss}
        result = {"replicas": strategy.num_replicas_in_sync, "metrics": metrics}
        Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
