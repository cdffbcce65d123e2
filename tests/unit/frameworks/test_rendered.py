"""What each framework's job comes to, whole, beside a file that holds it.

A change that is meant is written into the files by ``UPDATE_GOLDEN=1 make test ARGS="-k rendered"``, which fails: read
the diff, and run again without it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_trainer_provider.frameworks import MODULES, plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec import parse_spec
from tests.golden_files import assert_golden

COMMON = {"command": ["python", "train.py"], "args": ["--epochs", "4"], "run_policy": {"backoff_limit": 2}}
SPECS = {
    "pytorch": {
        "num_workers": 1,
        "num_proc_per_node": 2,
        "env": {"HF_TOKEN": "hunter2", "STORE": "s3://key:hunter2@host/b"},
        "resources_per_node": {"cpu": 2, "memory": {"limits": "4Gi"}},
    },
    "tensorflow": {"num_nodes": 2, "replicas": {"ps": {"args": ["--serve"]}, "evaluator": {}}},
    "mpi": {"num_nodes": 2, "num_proc_per_node": 2},
    "xgboost": {"num_workers": 2, "working_dir": "/srv/train"},
    "paddle": {"num_nodes": 2},
    "jax": {"num_nodes": 2, "replicas": {"worker": {"overrides": [{"index": 1, "env": {"SECOND": "yes"}}]}}},
}


def test_each_framework_has_one():
    assert set(SPECS) == set(MODULES)


@pytest.mark.parametrize("framework", SPECS)
def test_the_rendered_job(framework, tmp_path):
    job = plan_job(parse_spec({"framework": framework, **COMMON, **SPECS[framework]}))

    identity = Identity(dag_id="nightly", run_id="monday", task_id=framework)
    text = LocalBackend(Path("/srv/airflow/trainer"), 0.5, None).render(job, identity)

    assert_golden(f"local/{framework}.yaml", text)
    assert "hunter2" not in text


def test_elastic_renders_torchruns_rendezvous():
    elastic = {"min_nodes": 1, "max_nodes": 2, "rdzv_conf": {"join_timeout": 300, "read_timeout": "60"}}
    job = plan_job(parse_spec({"framework": "pytorch", "command": ["a"], "elastic": elastic}))

    text = LocalBackend(Path("/srv"), 0.5, None).render(job, Identity(dag_id="a", run_id="b", task_id="c"))

    assert "PET_NNODES: '1:2'" in text
    assert "PET_RDZV_BACKEND: c10d" in text
    assert "PET_RDZV_CONF: join_timeout=300,read_timeout=60" in text
    assert "MASTER_ADDR" not in text
