"""Reports what each of two roles has found in its pod; TensorBoard runs beside rank 0 meanwhile, until it is let go."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

SHARED = pathlib.Path("/shared")
VARIABLES = ("TOKEN", "URL", "RATE", "STAGE")


def found() -> dict[str, Any]:
    """What the pod has."""
    files = [each for each in pathlib.Path("/in").rglob("*") if each.is_file() and ".." not in str(each)]
    return {
        "files": {str(each): each.read_text().strip() for each in files},
        "uid": os.getuid(),
        "groups": os.getgroups(),
        "env": {name: os.environ.get(name) for name in VARIABLES},
    }


def read() -> int:
    """How many numbers a data loader has read, whose worker hands over 100 MiB at once in shared memory."""
    import torch

    class Batches(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return torch.ones(25 * 2**20)

    return sum(int(batch.numel()) for batch in torch.utils.data.DataLoader(Batches(), num_workers=1))


def start_board() -> None:
    """Write a curve, and start TensorBoard on it."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    curve = EventFileWriter("/tmp/logs")
    for step, loss in enumerate((1.0, 0.5, 0.25)):
        value = Summary.Value(tag="loss", simple_value=loss)
        curve.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=[value])))
    curve.close()
    words = ["--logdir", "/tmp/logs", "--bind_all", "--port", "6006", "--load_fast=false"]
    subprocess.Popen([sys.executable, "-m", "tensorboard.main", *words])


def main() -> None:
    """Run one replica."""
    me = os.environ["TRAINER_REPLICA"]
    reports = {me: found()}
    if me == "master-0":
        reports["read"] = {"numbers": read()}
        start_board()
    (SHARED / f"{me}.json").write_text(json.dumps(reports))
    while not (SHARED / "go").exists():
        time.sleep(0.2)
    if me == "master-0":
        reports |= json.loads((SHARED / "worker-0.json").read_text())
        pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(reports))


if __name__ == "__main__":
    main()
