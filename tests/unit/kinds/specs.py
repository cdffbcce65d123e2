"""The jobs whose manifests are held by golden files: framework -> fields of the spec."""

from __future__ import annotations

from airflow_trainer_provider.frameworks.layout import Job, lay_out
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import Meta
from airflow_trainer_provider.kinds.labels import meta_of
from airflow_trainer_provider.spec import parse_spec

COMMON = {
    "image": "registry.example/train:1",
    "command": ["python", "train.py"],
    "args": ["--epochs", "4"],
    "env": {"STAGE": "nightly"},
    "resources_per_node": {"cpu": 2, "memory": {"requests": "2Gi", "limits": "4Gi"}},
    "run_policy": {"active_deadline_seconds": 3600, "grace_period_seconds": 10},
}
SPECS = {
    "pytorch": {"num_nodes": 2, "num_proc_per_node": 2, "resources_per_node": {"cpu": 2, "gpu": 2}},
    "tensorflow": {"num_nodes": 3, "replicas": {"ps": {"args": ["--serve"]}, "evaluator": {}}},
    "mpi": {"num_nodes": 2, "num_proc_per_node": 2},
    "xgboost": {"num_workers": 2, "working_dir": "/srv/train"},
    "paddle": {"num_nodes": 2},
    "jax": {"num_nodes": 2},
}


def job_of(framework: str, **fields: object) -> Job:
    """The framework's job, with some fields changed."""
    return lay_out(parse_spec({"framework": framework, **COMMON, **SPECS[framework], **fields}))


def meta(job: Job, name: str = "nightly-train-0123456789-1") -> Meta:
    """What is written on the objects of that job."""
    return meta_of(job, Identity(dag_id="nightly", run_id="monday", task_id="train"), name)
