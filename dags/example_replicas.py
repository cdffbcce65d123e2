"""A master and workers with different settings: one master by default, workers with defaults, and one with its own.

This is the shape of Polyaxon's distributed experiments: `n_workers` is `num_workers`, `default_worker` is the group
`worker`, and an entry of `worker` by index is one of its `overrides`, which replaces the group's settings.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag, get_current_context, task

from airflow_trainer_provider import XGBoostJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "xgboost_train.py"


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_replicas() -> None:
    @task
    def prepare() -> str:
        """Write scikit-learn's breast cancer data; return its folder."""
        import numpy
        from sklearn.datasets import load_breast_cancer

        home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
        folder = home / "example_replicas" / get_current_context()["run_id"]
        folder.mkdir(parents=True, exist_ok=True)
        features, labels = load_breast_cancer(return_X_y=True)
        numpy.savez(folder / "train.npz", features=features, labels=labels)
        return str(folder)

    XGBoostJobOperator(
        task_id="train",
        backend="local",
        num_workers=2,
        command=["python", str(SCRIPT)],
        args=["--folder", prepare(), "--rounds", "10"],
        replicas={
            "master": {"resources": {"cpu": {"requests": "250m", "limits": 1}, "memory": "1Gi"}},
            "worker": {
                "resources": {"cpu": {"requests": "250m"}, "memory": "512Mi"},
                "overrides": [{"index": 1, "resources": {"cpu": {"requests": "500m"}, "memory": "1Gi"}}],
            },
        },
    )


example_replicas()
