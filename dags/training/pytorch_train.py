"""Train a classifier of handwritten digits with PyTorch, data-parallel over all ranks.

torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process; init_process_group() reads them. Rank 0
saves a checkpoint, from which all ranks continue when an elastic job starts them again.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train as this rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    options = parser.parse_args()

    torch.set_num_threads(1)  # several ranks share this machine
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    images, digits = load_digits(return_X_y=True)
    parts = train_test_split(torch.tensor(images / 16).float(), torch.tensor(digits), random_state=0)
    images, held_out_images, digits, held_out_digits = parts

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    start = 0
    if options.checkpoint.exists():
        saved = torch.load(options.checkpoint)
        network.load_state_dict(saved["network"])
        start = saved["epoch"] + 1
    model = DistributedDataParallel(network)  # averages the ranks' gradients
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    print(f"rank {rank} of {ranks} trains from epoch {start}", flush=True)
    for epoch in range(start, options.epochs):
        loss = nn.functional.cross_entropy(model(images[rank::ranks]), digits[rank::ranks])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and epoch % 10 == 9:
            print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
            # The file is replaced as a whole: a rank that is killed in between leaves the old checkpoint.
            torch.save({"network": network.state_dict(), "epoch": epoch}, f"{options.checkpoint}.new")
            Path(f"{options.checkpoint}.new").replace(options.checkpoint)

    if rank == 0:
        accuracy = (network(held_out_images).argmax(1) == held_out_digits).float().mean().item()
        result = {"model": str(options.checkpoint.resolve()), "ranks": ranks, "metrics": {"accuracy": accuracy}}
        Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
