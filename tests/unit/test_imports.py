"""A DAG file that imports the operators pays for them at each parse; what it must not pay for is listed here."""

from __future__ import annotations

import json
import subprocess
import sys

_FORBIDDEN = (
    "kubernetes",
    "kubernetes_asyncio",
    "airflow.providers.cncf.kubernetes",
    "airflow_trainer_provider.frameworks",
    "airflow_trainer_provider.hooks",
    "airflow_trainer_provider.job",
    "airflow_trainer_provider.local",
    "airflow_trainer_provider.spec",
    "jax",
    "numpy",
    "pandas",
    "sklearn",
    "tensorflow",
    "torch",
    "xgboost",
)

_SCRIPT = """
import json, sys
import airflow.sdk
from airflow.sdk import BaseOperator
from airflow.sdk.bases.sensor import BaseSensorOperator
before = set(sys.modules)
import airflow_trainer_provider
for name in airflow_trainer_provider.__all__:
    getattr(airflow_trainer_provider, name)
import airflow_trainer_provider.triggers.train_job
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def _imported(tmp_path):
    command = [sys.executable, "-c", _SCRIPT]
    env = {"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_the_operators_imports_nothing_heavy(tmp_path):
    imported = _imported(tmp_path)

    assert "airflow_trainer_provider.operators.frameworks" in imported
    assert [name for name in imported if any(f"{name}.".startswith(f"{bad}.") for bad in _FORBIDDEN)] == []
