"""Trees grown over all workers: each has a part of the rows, and the histograms are summed."""

import json
import os
import socket
import time

import numpy as np
import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker


def environment() -> tuple[int, int, str, int]:
    """Rank, number of workers, and the tracker's address: the v1 operator's variables, or Trainer's."""
    if "DMLC_TRACKER_URI" in os.environ:
        names = ("DMLC_TASK_ID", "DMLC_NUM_WORKER", "DMLC_TRACKER_URI", "DMLC_TRACKER_PORT")
    else:
        names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    rank, world, host, port = (os.environ[name] for name in names)
    return int(rank), int(world), host, int(port)


def wait_for_tracker(host: str, port: int) -> str:
    """Address of the tracker, once it has a name and listens."""
    for _ in range(120):
        try:
            with socket.create_connection((host, port), timeout=2) as connection:
                return connection.getpeername()[0]
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"no tracker at {host}:{port}")


rank, world, host, port = environment()
assert world == int(os.environ["EXPECTED_WORLD_SIZE"]), world
tracker = None
if rank == 0:
    # The others reach rank 0 at the address with which it joins: it must not be a loopback address.
    address = socket.gethostbyname(socket.gethostname())
    tracker = RabitTracker(host_ip="0.0.0.0", n_workers=world, port=port)
    tracker.start()
else:
    address = wait_for_tracker(host, port)

with collective.CommunicatorContext(
    dmlc_communicator="rabit", dmlc_tracker_uri=address, dmlc_tracker_port=port, dmlc_retry=20, dmlc_task_id=str(rank)
):
    assert collective.get_world_size() == world
    total = collective.allreduce(np.array([1.0]), collective.Op.SUM)
    assert total[0] == world, total
    generator = np.random.default_rng(rank)
    inputs = generator.normal(size=(500, 4))
    targets = inputs.sum(axis=1)
    matrix = xgboost.DMatrix(inputs, label=targets)
    history: dict = {}
    booster = xgboost.train(
        {"max_depth": 4, "nthread": 1}, matrix, 20, evals=[(matrix, "train")], evals_result=history, verbose_eval=False
    )
    losses = history["train"]["rmse"]
    assert losses[-1] < losses[0] / 2, losses
    print(f"rank {collective.get_rank()} of {world}: rmse {losses[0]:.3f} -> {losses[-1]:.3f}")

if tracker is not None:
    tracker.wait_for()
if rank == 0 and (result := os.environ.get("TRAINER_RESULT_PATH")):
    with open(result, "w") as file:  # noqa: PTH123
        json.dump({"world": world, "metrics": {"loss": round(losses[-1], 4)}}, file)
