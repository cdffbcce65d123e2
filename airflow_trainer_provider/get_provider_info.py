"""The provider's metadata, which Airflow reads."""

from __future__ import annotations

from typing import Any

from airflow_trainer_provider.version import __version__

#: The decorators of ``task`` that run a function as a job.
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
                        "The backend of jobs whose operator does not set ``backend``: ``trainer``, "
                        "``training-operator``, ``mpi-operator`` or ``native`` on a cluster; ``auto`` for the first of "
                        "these that the cluster has and that can run the job; or ``local`` on the worker's own "
                        "machine, which ``auto`` never selects.",
                        "string",
                        "auto",
                        "local",
                    ),
                    "namespace": _option(
                        "The Kubernetes namespace of jobs whose operator and connection do not set one.",
                        "string",
                        "default",
                    ),
                    "deployment": _option(
                        "An identifier of this Airflow, as any text. A task finds its jobs by it, so Airflow "
                        "installations whose jobs share a namespace need different identifiers. All components of an "
                        "installation need the same one, and it must not change while jobs run. Empty: the address in "
                        "``[api] base_url``, unless that is localhost.",
                        "string",
                        "",
                        "staging",
                    ),
                    "local_root": _option(
                        "The folder in which the local backend creates one folder for each job. The worker and the "
                        "triggerer have to use the same folder on the same machine. Empty: ``$AIRFLOW_HOME/trainer``.",
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
                        "The interval at which the state and the logs of a local job are read, in seconds (0.05 to "
                        "60).",
                        "float",
                        "0.5",
                    ),
                    "worker_exit_seconds": _option(
                        "How long it may take, after a worker has deferred a task, until the worker has ended and the "
                        "scheduler has recorded that, in seconds (0 to 120). The triggerer reads this option: a "
                        "trigger fires no sooner than this time plus ``[workers] min_heartbeat_interval`` after its "
                        "start. Raise it in the triggerer's configuration if workers upload their logs slowly or the "
                        "scheduler is busy.",
                        "float",
                        "10",
                    ),
                    "log_replicas": _option(
                        "The replicas whose lines are written to the task's log: ``all``, ``leader`` (only rank 0) or "
                        "``none``.",
                        "string",
                        "all",
                    ),
                    "failure_log_lines": _option(
                        "How many of the failed replica's last log lines XCom ``failure`` contains (1 to 1000): at "
                        "most 4 KiB of each line, and 64 KiB in total.",
                        "integer",
                        "30",
                    ),
                    "log_streams": _option(
                        "How many containers' logs a process, such as the triggerer, reads from clusters at the same "
                        "time (1 to 100000). Each of them uses a connection. If there are more containers, they take "
                        "turns, and their lines arrive some seconds later.",
                        "integer",
                        "500",
                    ),
                    "node_pool_label": _option(
                        "The node label whose value is the name of the node's pool, for jobs with "
                        "``scheduling.node_pools`` that do not set ``scheduling.node_pool_label``.",
                        "string",
                        "",
                        "cloud.google.com/gke-nodepool",
                    ),
                    "exec_plugin_env": _option(
                        "Names of environment variables, separated by commas, that credential plugins of kubeconfigs "
                        "(``exec``) receive in addition to those that they always receive: paths, locale, proxies, "
                        "certificates, and the variables of the large clouds. Plugins receive no other variables, "
                        "since they also run in the scheduler and the API server.",
                        "string",
                        "",
                        "VAULT_ADDR, VAULT_TOKEN",
                    ),
                    "git_image": _option(
                        "The image of the init container that clones the ``git`` volumes of a job, for volumes that "
                        "do not set an image. It needs ``sh`` and ``git``, and ``ssh`` for repositories with an ssh "
                        "address.",
                        "string",
                        "",
                        "alpine/git",
                    ),
                    "s3_image": _option(
                        "The image of the init container that copies the objects of ``s3`` volumes, for volumes that "
                        "do not set an image. It needs ``sh`` and ``rclone``.",
                        "string",
                        "",
                        "rclone/rclone",
                    ),
                    "presets_folder": _option(
                        "The folder with presets: named parts of a job's spec, as YAML files. An operator selects "
                        "them with ``presets``. Workers and the DAG processor read the folder. Empty: there are no "
                        "presets.",
                        "string",
                        "",
                        "/etc/airflow/presets",
                    ),
                    "policies_folder": _option(
                        "The folder with policies: rules for the fields of jobs, as YAML files. Each job is checked "
                        "against them before anything is created. Workers and the DAG processor read the folder. "
                        "Empty: there are no policies.",
                        "string",
                        "",
                        "/etc/airflow/policies",
                    ),
                    "dashboard_url": _option(
                        "The address of a job's page in a dashboard of the cluster, for the task's link *Kubernetes "
                        "dashboard*. ``{namespace}``, ``{kind}``, ``{resource}`` and ``{name}`` are replaced by the "
                        "job's values; for a TrainJob, kind and resource are ``TrainJob`` and "
                        "``trainjobs.trainer.kubeflow.org``. Empty: there is no link.",
                        "string",
                        "",
                        "https://headlamp.example.com/c/main/customresources/{resource}/{namespace}/{name}",
                    ),
                },
            }
        },
    }
