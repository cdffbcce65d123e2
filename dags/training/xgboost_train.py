"""Train one XGBoost model on all ranks of a job.

Each rank takes its share of the rows. xgboost.collective joins the ranks; its tracker runs in rank 0, which also
writes the model, and the result to $TRAINER_RESULT_PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
import warnings
from pathlib import Path

import numpy
import xgboost
from xgboost import collective
from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

HOST, PORT = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
RANK, RANKS = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])


def join(seconds: float = 120) -> None:
    """Meet the other ranks at the tracker, which may not listen yet.

    xgboost's own retries are seconds apart, so each attempt here is a call of its own.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                collective.init(dmlc_tracker_uri=HOST, dmlc_tracker_port=PORT, dmlc_task_id=str(RANK), dmlc_retry=1)
            return
        except XGBoostError as error:
            if "Failed to connect to the tracker" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def train(data: dict[str, numpy.ndarray], rounds: int) -> tuple[xgboost.Booster, dict[str, float]]:
    """Train on this rank's rows; return the model, which is the same on all ranks, and its metrics."""
    rows = xgboost.DMatrix(data["features"][RANK::RANKS], data["labels"][RANK::RANKS])
    print(f"rank {RANK} of {RANKS} trains on {rows.num_row()} of {len(data['labels'])} rows", flush=True)
    history: dict[str, dict[str, list[float]]] = {}
    model = xgboost.train(
        # One thread, as several ranks share this machine.
        {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "nthread": 1},
        rows,
        num_boost_round=rounds,
        evals=[(rows, "train")],
        evals_result=history,
        verbose_eval=1,
    )
    return model, {f"train_{name}": values[-1] for name, values in history["train"].items()}


def main() -> None:
    """Train as this rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="holds train.npz, and the model in the end")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()

    # Only rank 0 starts the tracker; it listens for as long as this object lives.
    tracker = RabitTracker(n_workers=RANKS, host_ip=HOST, port=PORT, sortby="task") if RANK == 0 else None
    if tracker:
        tracker.start()
    join()
    model, metrics = train(numpy.load(options.folder / "train.npz"), options.rounds)
    collective.finalize()
    if tracker:
        tracker.wait_for()
        path = options.folder / "model.ubj"
        model.save_model(path)
        result = {"model": str(path), "metrics": metrics}
        Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))


if __name__ == "__main__":
    try:
        main()
    except Exception:
        # The ordinary exit crashes, or makes other ranks fail first, while xgboost's connections are open.
        traceback.print_exc()
        os._exit(1)
