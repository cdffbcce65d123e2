"""Fit a linear model with PyTorch, data-parallel over all ranks. Needs torch only.

torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process; init_process_group() reads them. Rank 0
writes the result.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, ranks = distributed.get_rank(), distributed.get_world_size()
device = f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu"

torch.manual_seed(rank)  # each rank has different rows
inputs = torch.randn(256, 4, device=device)
targets = inputs.sum(dim=1, keepdim=True)

model = DistributedDataParallel(nn.Linear(4, 1).to(device))  # averages the ranks' gradients
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(int(os.environ["EPOCHS"])):
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 9:
        print(f"rank {rank} of {ranks}, epoch {epoch}: loss {loss.item():.6f}")

if rank == 0:
    result = {"ranks": ranks, "metrics": {"loss": loss.item()}}
    Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))
distributed.destroy_process_group()
