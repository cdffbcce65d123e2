"""XGBoost on a master and one worker, with a time limit for the job and one restart after a failure.

`demo_retraining.py` shows a whole pipeline around such a task.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag, get_current_context, task

from airflow_trainer_provider import XGBoostJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "xgboost_train.py"


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_xgboost() -> None:
    @task
    def prepare() -> str:
        """Write scikit-learn's breast cancer data; return its folder."""
        import numpy
        from sklearn.datasets import load_breast_cancer

        home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
        folder = home / "example_xgboost" / get_current_context()["run_id"]
        folder.mkdir(parents=True, exist_ok=True)
        features, labels = load_breast_cancer(return_X_y=True)
        numpy.savez(folder / "train.npz", features=features, labels=labels)
        return str(folder)

    XGBoostJobOperator(
        task_id="train",
        backend="local",
        num_nodes=2,
        command=["python", str(SCRIPT)],
        args=["--folder", prepare(), "--rounds", "10"],
        run_policy={"backoff_limit": 1, "active_deadline_seconds": 300},
        # Lines such as "[5] train-logloss:0.10 train-auc:0.99", which XGBoost itself prints.
        metrics={
            "step": r"\[(\d+)\]\s+train-",
            "train_logloss": r"train-logloss:([\d.]+)",
            "train_auc": r"train-auc:([\d.]+)",
        },
    )


example_xgboost()
