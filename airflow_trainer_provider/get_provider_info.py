"""What Airflow asks a provider about itself."""

from __future__ import annotations

from typing import Any

from airflow_trainer_provider.version import __version__

#: Of ``task``: they make a job of a function.
DECORATORS = ("train_job", "pytorch_job", "tensorflow_job", "mpi_job", "xgboost_job", "paddle_job", "jax_job")


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
        "task-decorators": [
            {"name": name, "class-name": f"airflow_trainer_provider.operators.taskflow.decorators.{name}_task"}
            for name in DECORATORS
        ],
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
                    "deployment": _option(
                        "Which Airflow this is, as any text. A task finds its jobs by it, so Airflows whose jobs "
                        "share a namespace need different ones. All components need the same, and it must not change "
                        "while jobs run. Empty: the address in ``[api] base_url``, unless that is localhost.",
                        "string",
                        "",
                        "staging",
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
                    "worker_exit_seconds": _option(
                        "How long a worker may take to end after it has deferred a task, until the scheduler knows of "
                        "it, in seconds (0 to 120). The triggerer reads it: a trigger fires no sooner than this and "
                        "``[workers] min_heartbeat_interval`` after its start. Raise it there where workers upload "
                        "their logs slowly.",
                        "float",
                        "3",
                    ),
                    "log_replicas": _option(
                        "Whose lines go into the task's log: ``all`` replicas', those of the ``leader`` (rank 0) "
                        "only, or ``none``.",
                        "string",
                        "all",
                    ),
                    "failure_log_lines": _option(
                        "How many of the failed replica's last log lines the ``failure`` in XCom holds (1 to 1000); "
                        "4 KiB of each line, and 64 KiB in all.",
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
                    "node_pool_label": _option(
                        "The label of nodes whose value is the name of their pool, for jobs with "
                        "``scheduling.node_pools`` that do not name it themselves.",
                        "string",
                        "",
                        "cloud.google.com/gke-nodepool",
                    ),
                    "exec_plugin_env": _option(
                        "Names of environment variables, separated by commas, that credential plugins of kubeconfigs "
                        "(``exec``) get beside those that they always get: paths, locale, proxies, certificates, and "
                        "those of the large clouds. Plugins also run in the scheduler and the API server, and get "
                        "nothing else of the environment there.",
                        "string",
                        "",
                        "VAULT_ADDR, VAULT_TOKEN",
                    ),
                    "git_image": _option(
                        "The image of the init container that clones the ``git`` volumes of a job which name none: it "
                        "needs ``sh``, ``git``, and ``ssh`` for repositories that are reached by it.",
                        "string",
                        "",
                        "alpine/git",
                    ),
                    "s3_image": _option(
                        "The image of the init container that copies the objects of ``s3`` volumes which name none: "
                        "it needs ``sh`` and ``rclone``.",
                        "string",
                        "",
                        "rclone/rclone",
                    ),
                    "presets_folder": _option(
                        "The folder with presets, which are named parts of a job's spec as YAML files; an operator's "
                        "``presets`` names them. Workers and the DAG processor read it. Empty: there are no presets.",
                        "string",
                        "",
                        "/etc/airflow/presets",
                    ),
                    "policies_folder": _option(
                        "The folder with policies, which are rules for the fields of jobs as YAML files. Each job is "
                        "checked against them before anything is created. Workers and the DAG processor read it. "
                        "Empty: there are no policies.",
                        "string",
                        "",
                        "/etc/airflow/policies",
                    ),
                    "dashboard_url": _option(
                        "The address of a job's page in a dashboard of the cluster, for the task's link *Kubernetes "
                        "dashboard*. ``{namespace}``, ``{kind}``, ``{resource}`` and ``{name}`` stand for the job's "
                        "own, e.g. ``TrainJob`` and ``trainjobs.trainer.kubeflow.org``. Empty: there is no link.",
                        "string",
                        "",
                        "https://headlamp.example.com/c/main/customresources/{resource}/{namespace}/{name}",
                    ),
                },
            }
        },
    }
