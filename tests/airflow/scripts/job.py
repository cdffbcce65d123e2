"""A job that records what became of it: `job.py MODE FOLDER`, run by each replica.

train: note that a training began, print lines and progress until FOLDER/go is there, write the result.
talk: the same, with 40 lines more at its end.
raise: rank 1 raises, the others would go on for long.
shout: rank 1 writes a line of 3 MB, and raises with a long message.
hopeless: rank 1 fails as it would in each try, the others would go on for long.
stubborn: note, then ignore every request to end.
hold: hold 200 MiB for two seconds, in which a lower limit is noticed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

TIMEOUT_SECONDS = float(os.environ.get("TIMEOUT_SECONDS", "900"))


def train(folder: Path, rank: int, last_lines: int = 0) -> None:
    if rank == 0:
        with (folder / "trainings").open("a") as file:
            file.write(f"{os.environ['TRAINER_JOB_NAME']}\n")
    end = time.monotonic() + TIMEOUT_SECONDS
    line = 0
    while not (folder / "go").exists() and time.monotonic() < end:
        print(f"line {line} of rank {rank}")
        if line % 10 == 0:
            report = {"total_steps": 100_000, "metrics": {"loss": 1 / (line + 1)}}
            print(json.dumps({"trainer_progress": report}), flush=True)
        line += 1
        time.sleep(0.1)
    for number in range(line, line + last_lines):
        print(f"line {number} of rank {rank}")
    line += last_lines
    print(f"{line} lines of rank {rank}")
    if rank == 0:
        uids = (folder / "trainings").read_text().split()
        Path(os.environ["TRAINER_RESULT_PATH"]).write_text(
            json.dumps(
                {
                    "trainings": len(uids),
                    "metrics": {"loss": 0.5},
                    "mlflow_run_url": os.environ.get("MLFLOW_RUN_URL"),
                }
            )
        )


def main(mode: str, folder: Path) -> None:
    rank = int(os.environ["RANK"])
    if mode == "shout" and rank == 1:
        print("x" * 3_000_000)
        raise ValueError("y" * 100_000)
    if mode in ("raise", "hopeless", "shout"):
        if rank == 1:
            raise ValueError("rank 1 has had enough") if mode == "raise" else ImportError("no module named so")
        time.sleep(TIMEOUT_SECONDS)
    if mode == "hold":
        block = bytearray(200 << 20)
        time.sleep(2)
        print(f"held {len(block) >> 20} MiB", flush=True)
        return
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    train(folder, rank, 40 if mode == "talk" else 0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
