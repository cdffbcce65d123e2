"""A job with a tool: a page that rank 0 serves while it trains. TensorBoard or Jupyter work in the same way.

On this machine the tool listens on its own port, and the task's log and its page in Airflow's UI have the link. On a
cluster, `access` says who can reach it: see the how-to "Open the tools of a job".
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag, get_current_context, task

from airflow_trainer_provider import XGBoostJobOperator

SCRIPT = Path(__file__).resolve().parent / "training" / "xgboost_train.py"
# Rank 0 serves its working directory until its training has ended. With TensorBoard the command would be:
# tensorboard --logdir logs --port 6006 --bind_all
SERVE = """
if [ "$TRAINER_REPLICA" = master-0 ]; then
    python -m http.server 6006 --bind 127.0.0.1 &
    trap "kill $!" EXIT
fi
"$@"
"""


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_tools() -> None:
    @task
    def prepare() -> str:
        """Write scikit-learn's breast cancer data; return its folder."""
        import numpy
        from sklearn.datasets import load_breast_cancer

        home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
        folder = home / "example_tools" / get_current_context()["run_id"]
        folder.mkdir(parents=True, exist_ok=True)
        features, labels = load_breast_cancer(return_X_y=True)
        numpy.savez(folder / "train.npz", features=features, labels=labels)
        return str(folder)

    XGBoostJobOperator(
        task_id="train",
        backend="local",
        num_nodes=2,
        command=["sh", "-c", SERVE, "sh", "python", str(SCRIPT)],
        args=["--folder", prepare(), "--rounds", "10"],
        tools={"files": {"port": 6006}},
    )


example_tools()
