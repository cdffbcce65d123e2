"""What is not imported: by a DAG file that imports the operators, at each parse; and by a command, which would wait."""

from __future__ import annotations

import json
import subprocess
import sys

_FORBIDDEN = (
    "kubernetes",
    "kubernetes_asyncio",
    "airflow.providers.cncf.kubernetes",
    "airflow_trainer_provider.frameworks",
    "airflow_trainer_provider.functions",
    "airflow_trainer_provider.operators.taskflow",
    "airflow_trainer_provider.hooks",
    "airflow_trainer_provider.job",
    "airflow_trainer_provider.local",
    "airflow_trainer_provider.spec",
    "jax",
    "numpy",
    "openlineage",
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

_FUNCTION = """
import json, sys
import airflow.sdk
from airflow.sdk import DAG, BaseOperator
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
import a_dag
print(json.dumps(sorted(set(sys.modules) - before)))
"""

_COMMAND = """
import json, sys
from airflow_trainer_provider.cli import main
assert main(["submit", sys.argv[1], "--kubeconfig", sys.argv[1] + "-missing"]) == 2
print(json.dumps(sorted(sys.modules)))
"""


def _imported(tmp_path, script=_SCRIPT, *words):
    command = [sys.executable, "-c", script, *words]
    env = {"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_the_operators_imports_nothing_heavy(tmp_path):
    imported = _imported(tmp_path)

    assert "airflow_trainer_provider.operators.frameworks" in imported
    assert [name for name in imported if any(f"{name}.".startswith(f"{bad}.") for bad in _FORBIDDEN)] == []


def test_a_function_is_made_a_job_without_anything_heavy(tmp_path):
    (tmp_path / "a_dag.py").write_text(
        "from airflow_trainer_provider.operators.taskflow.decorators import pytorch_job_task as pytorch_job\n"
        "from airflow.sdk import DAG\n"
        "@pytorch_job(num_nodes=2)\n"
        "def train(rows):\n"
        "    return rows\n"
        "with DAG('d', schedule=None):\n"
        "    train([1])\n"
    )
    heavy = {*_FORBIDDEN} - {"airflow_trainer_provider.functions", "airflow_trainer_provider.operators.taskflow"}

    imported = _imported(tmp_path, _FUNCTION, str(tmp_path))

    assert "airflow_trainer_provider.functions.slicing" in imported
    assert [name for name in imported if any(f"{name}.".startswith(f"{bad}.") for bad in heavy)] == []


def test_a_command_needs_no_airflow(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("{framework: pytorch, image: an/image, command: [python, train.py]}")

    imported = _imported(tmp_path, _COMMAND, str(job))

    assert "airflow_trainer_provider.operators.asked" in imported
    assert [name for name in imported if name.partition(".")[0] in ("airflow", "kubernetes")] == []
