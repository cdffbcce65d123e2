"""Train from a form: Airflow's trigger dialog asks for the size of the job, its time and the number of rounds.

The form is generated from the job's spec. Where Airflow's configuration names folders with presets and policies, the
dialog offers the presets, and refuses what the policies do not allow. To copy a run, trigger the DAG again with the
configuration of that run.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import Param, dag, get_current_context, task

from airflow_trainer_provider import XGBoostJobOperator, training_params

SCRIPT = Path(__file__).resolve().parent / "training" / "xgboost_train.py"
FORM = training_params(
    "num_workers",
    "run_policy.active_deadline_seconds",
    "run_policy.backoff_limit",
    "env.OMP_NUM_THREADS",
    framework="xgboost",
    dag_id="train_from_form",
    tags=["trainer"],
    defaults={"num_workers": 1, "env.OMP_NUM_THREADS": "1"},
)
ROUNDS = Param(
    10, "How many trees the model has.", type="integer", minimum=1, maximum=500, title="Rounds", section="Model"
)


@dag(schedule=None, catchup=False, tags=["trainer"], params={**FORM, "rounds": ROUNDS}, doc_md=__doc__)
def train_from_form() -> None:
    @task
    def prepare() -> str:
        """Write scikit-learn's breast cancer data; return its folder."""
        import numpy
        from sklearn.datasets import load_breast_cancer

        home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
        folder = home / "train_from_form" / get_current_context()["run_id"]
        folder.mkdir(parents=True, exist_ok=True)
        features, labels = load_breast_cancer(return_X_y=True)
        numpy.savez(folder / "train.npz", features=features, labels=labels)
        return str(folder)

    XGBoostJobOperator(
        task_id="train",
        backend="local",
        command=["python", str(SCRIPT)],
        args=["--folder", prepare(), "--rounds", "{{ params.rounds }}"],
        **FORM.fields,
    )


train_from_form()
