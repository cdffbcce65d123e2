"""Retrain a model, and accept it only if it is good enough. `make demo` runs this DAG.

`prepare` writes training and held-out rows to a folder; `train` trains XGBoost on three ranks (a master and two
workers); `evaluate` scores the model on the held-out rows; `gate` fails the run where the score is too low.

The folder is in `$AIRFLOW_HOME`, which all tasks can read as long as they run on one machine. On several machines, use
an address in your object store instead.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import dag, get_current_context, task

from airflow_trainer_provider import XGBoostJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "xgboost_train.py"
LEAST_ACCURACY = 0.93


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def demo_retraining() -> None:
    @task
    def prepare() -> str:
        """Split scikit-learn's breast cancer data; return the folder that holds both parts."""
        import numpy
        from sklearn.datasets import load_breast_cancer
        from sklearn.model_selection import train_test_split

        home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
        folder = home / "demo_retraining" / get_current_context()["run_id"]
        folder.mkdir(parents=True, exist_ok=True)
        features, labels = load_breast_cancer(return_X_y=True)
        parts = train_test_split(features, labels, test_size=0.25, random_state=0, stratify=labels)
        numpy.savez(folder / "train.npz", features=parts[0], labels=parts[2])
        numpy.savez(folder / "held_out.npz", features=parts[1], labels=parts[3])
        return str(folder)

    @task
    def evaluate(folder: str, trained: dict[str, Any]) -> dict[str, float]:
        """Score the model on rows that it has not seen."""
        import numpy
        import xgboost

        model = xgboost.Booster(model_file=trained["result"]["model"])
        held_out = numpy.load(Path(folder) / "held_out.npz")
        predicted = model.predict(xgboost.DMatrix(held_out["features"])) > 0.5
        return {"accuracy": float((predicted == held_out["labels"]).mean())}

    @task
    def gate(scores: dict[str, float]) -> None:
        """Fail where the model is not good enough, so that no downstream task runs."""
        if scores["accuracy"] < LEAST_ACCURACY:
            raise ValueError(f"accuracy {scores['accuracy']:.3f} is below {LEAST_ACCURACY}")

    folder = prepare()
    train = XGBoostJobOperator(
        task_id="train",
        backend="local",
        num_workers=2,
        command=["python", str(SCRIPT)],
        args=["--folder", folder, "--rounds", "20"],
        env={"OMP_NUM_THREADS": "1"},
        # Lines such as "[5] train-logloss:0.10 train-auc:0.99", which XGBoost itself prints, become the curves of the
        # task's Training tab.
        metrics={
            "step": r"\[(\d+)\]\s+train-",
            "train_logloss": r"train-logloss:([\d.]+)",
            "train_auc": r"train-auc:([\d.]+)",
        },
    )
    gate(evaluate(folder, train.output))


demo_retraining()
