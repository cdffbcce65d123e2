"""What Airflow asks a provider about itself."""

from __future__ import annotations

from typing import Any

from airflow_trainer_provider import __version__


def _option(description: str, kind: str, default: str, example: str | None = None) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "default": default,
        "example": example,
    }


def get_provider_info() -> dict[str, Any]:
    """The provider's name, its hook and its options, in Airflow's form."""
    return {
        "package-name": "airflow-trainer-provider",
        "name": "Trainer",
        "description": "Distributed training jobs: PyTorch, TensorFlow, MPI, XGBoost, Paddle and JAX.",
        "versions": [__version__],
        "config": {
            "trainer": {
                "description": "Training jobs (airflow-trainer-provider).",
                "options": {
                    "backend": _option(
                        "Where jobs run whose operator does not say: ``trainer``, ``training-operator``, "
                        "``mpi-operator`` or ``native`` on a cluster, or ``auto`` for the first of these that the "
                        "cluster has and that can run the job; ``local`` on the worker's own machine, which ``auto`` "
                        "never takes.",
                        "string",
                        "auto",
                        "local",
                    ),
                    "namespace": _option(
                        "The Kubernetes namespace of jobs whose operator and connection do not say.",
                        "string",
                        "default",
                    ),
                    "local_root": _option(
                        "The folder that holds one folder for each job of the local backend. It has to be the same, "
                        "and on one machine, for the worker and the triggerer. Empty: ``$AIRFLOW_HOME/trainer``.",
                        "string",
                        "",
                        "/var/lib/airflow/trainer",
                    ),
                    "local_keep_days": _option(
                        "How many days the folder of an ended local job, with its logs, is kept. 0 keeps it for ever.",
                        "float",
                        "30",
                    ),
                    "poll_interval": _option(
                        "How often the state and the logs of a local job are looked at, in seconds (0.05 to 60).",
                        "float",
                        "0.5",
                    ),
                    "log_replicas": _option(
                        "Whose lines go into the task's log: ``all`` replicas', those of the ``leader`` (rank 0) "
                        "only, or ``none``.",
                        "string",
                        "all",
                    ),
                    "failure_log_lines": _option(
                        "How many of the failed replica's last log lines the ``failure`` in XCom holds (1 to 1000).",
                        "integer",
                        "30",
                    ),
                    "log_streams": _option(
                        "How many containers' logs a process, such as the triggerer, reads from clusters at a time; "
                        "each holds a connection (1 to 100000). Where there are more, they take turns, and lines come "
                        "seconds later.",
                        "integer",
                        "500",
                    ),
                },
            }
        },
    }
