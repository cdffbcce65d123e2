"""PyTorch on two pods of a Kubernetes cluster, waited for in the triggerer.

It needs the connection `kubernetes_default` to a cluster, and the rights in `deploy/rbac.yaml`. `backend: auto` takes
Kubeflow's Trainer or Training Operator where the cluster has one of them, and plain Jobs where it has none; the task's
log says which, and why.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import dag

from airflow_trainer_provider import PyTorchJobOperator

# Travels in the job's command, so that any image with torch will do. A script of yours lies in its image:
# command=["python3", "/app/train.py"].
SCRIPT = (Path(__file__).resolve().parent / "training" / "linear_train.py").read_text()

PARAMS = {
    "backend": "auto",
    "namespace": "training",
    "image": "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime",
}
# What has no field of its own: PyTorch's data loaders need more shared memory than the 64 MiB that a pod has.
POD_TEMPLATE = {
    "spec": {
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}}],
        "containers": [{"name": "train", "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}],
    }
}


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
        resources_per_node={"cpu": {"requests": "100m"}, "memory": {"requests": "256Mi", "limits": "1Gi"}},
        pod_template=POD_TEMPLATE,
        run_policy={
            "startup_timeout_seconds": 900,  # no room for a pod in that time: the task fails, and says so
            "infrastructure_retries": 2,  # a node was lost: the same try starts over
        },
        execution_timeout=timedelta(hours=1),  # the cluster itself keeps it too
        deferrable=True,
    )


example_kubernetes()
