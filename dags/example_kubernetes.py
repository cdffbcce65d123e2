"""PyTorch on two pods of a Kubernetes cluster. The task waits in the triggerer.

It needs the connection `kubernetes_default` to a cluster, and the rights in `deploy/rbac.yaml`. `backend: auto` uses
Kubeflow's Trainer or Training Operator where the cluster has one of them, and plain Jobs where it has none; the task's
log says which, and why.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import dag

from airflow_trainer_provider import PyTorchJobOperator

# The script is passed in the job's command, so that any image with torch works. A script of your own is in its image:
# command=["python3", "/app/train.py"].
SCRIPT = (Path(__file__).resolve().parent / "training" / "linear_train.py").read_text()

PARAMS = {
    "backend": "auto",
    "namespace": "training",
    "image": "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime",
}
# A setting of the pod that has no field: the pods get no variables with the addresses of the namespace's Services.
POD_TEMPLATE = {"spec": {"enableServiceLinks": False}}


@dag(schedule=None, catchup=False, tags=["trainer", "kubernetes"], doc_md=__doc__, params=PARAMS)
def example_kubernetes() -> None:
    PyTorchJobOperator(
        task_id="train",
        backend="{{ params.backend }}",
        namespace="{{ params.namespace }}",
        image="{{ params.image }}",
        command=["python3", "-c", SCRIPT],
        env={"EPOCHS": "40"},
        num_nodes=2,  # a pod each
        resources_per_node={
            "cpu": {"requests": "100m"},
            "memory": {"requests": "256Mi", "limits": "1Gi"},
            "shared_memory": "256Mi",  # for PyTorch's data loaders, which need more than the 64 MiB of a pod
        },
        pod_template=POD_TEMPLATE,
        run_policy={
            "startup_timeout_seconds": 900,  # if a pod finds no room in that time, the task fails and says so
            "infrastructure_retries": 2,  # if a node is lost, the same try starts the job again
        },
        execution_timeout=timedelta(hours=1),  # the cluster itself enforces it too
        deferrable=True,
    )


example_kubernetes()
