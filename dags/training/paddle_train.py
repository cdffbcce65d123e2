"""Train a classifier of handwritten digits with PaddlePaddle, data-parallel over all ranks.

paddle.distributed.launch sets each process's rank and peers; init_parallel_env() reads them. On CPUs the ranks
communicate through gloo.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import paddle
from paddle import distributed, nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main() -> None:
    """Train as this rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()

    paddle.set_device("cpu")
    distributed.init_parallel_env()
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    images, digits = load_digits(return_X_y=True)
    parts = train_test_split((images / 16).astype("float32"), digits, random_state=0)
    images, held_out_images, digits, held_out_digits = map(paddle.to_tensor, parts)
    print(f"rank {rank} of {ranks} trains on {len(digits[rank::ranks])} of {len(digits)} rows", flush=True)

    paddle.seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = paddle.DataParallel(network)  # averages the ranks' gradients
    optimizer = paddle.optimizer.Adam(0.02, parameters=model.parameters())
    for _ in range(options.epochs):
        loss = nn.functional.cross_entropy(model(images[rank::ranks]), digits[rank::ranks])
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()

    if rank == 0:
        accuracy = float((network(held_out_images).argmax(1) == held_out_digits).astype("float32").mean())
        result = {"ranks": ranks, "metrics": {"accuracy": accuracy, "loss": float(loss)}}
        Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
