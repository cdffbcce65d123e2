"""What the local backend adds to an XGBoost job: the same script on the same ranks, by hand and through it.

By hand means what a person would do without it: start one process per rank with the rendezvous in its environment,
and wait. The two take turns, so that a machine whose speed drifts disturbs both alike.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy
from sklearn.datasets import load_breast_cancer

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.environment import inherited_environment
from airflow_trainer_provider.local.ports import reserved_addresses
from airflow_trainer_provider.spec import parse_spec
from benchmarks.report import heading, table, verdict

RUNS = 5
MOST_RATIO = 1.10
MOST_SECONDS = 1.0
_SCRIPT = Path(__file__).parents[1] / "dags" / "training" / "xgboost_train.py"
#: Copies of the 569 rows of the data set, and rounds: some seconds of training.
_COPIES, _ROUNDS = 200, 60


def by_hand(job: JobPlan, folder: Path) -> float:
    """Seconds from the first process's start to the last one's end."""
    start = time.perf_counter()
    with reserved_addresses(replica.name for replica in job.replicas) as addresses:
        envs = [
            inherited_environment()
            | job.framework.environment(job, replica, addresses)
            | {"TRAINER_RESULT_PATH": str(folder / "result")}
            for replica in job.replicas
        ]
    processes = [
        subprocess.Popen(replica.argv, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        for replica, env in zip(job.replicas, envs, strict=True)
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError("a rank failed")
    return time.perf_counter() - start


def through_backend(job: JobPlan, backend: LocalBackend, number: int) -> float:
    """Seconds from the submit to the outcome, the log read as an operator reads it."""

    async def run() -> JobPhase:
        identity = Identity(dag_id="benchmark", run_id=str(number), task_id="train")
        handle = (await backend.submit(job, identity)).handle
        lines: list[str] = []
        status = await follow(backend, handle, emit=lines.append, reader="benchmark", deadline=None)
        await backend.result(handle)
        return status.phase

    start = time.perf_counter()
    if asyncio.run(run()) is not JobPhase.SUCCEEDED:
        raise RuntimeError("the job failed")
    return time.perf_counter() - start


def main() -> bool:
    """Print the table.

    :return: whether the bound was held.
    """
    heading(f"One XGBoost job on 2 ranks, by hand and through the local backend ({RUNS} pairs)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        features, labels = load_breast_cancer(return_X_y=True)
        numpy.savez(
            folder / "train.npz", features=numpy.tile(features, (_COPIES, 1)), labels=numpy.tile(labels, _COPIES)
        )
        command = ["python", str(_SCRIPT), "--folder", str(folder), "--rounds", str(_ROUNDS)]
        job = plan_job(parse_spec({"framework": "xgboost", "num_nodes": 2, "command": command}))
        backend = LocalBackend(folder / "jobs", poll_interval=0.5, keep=None)
        by_hand(job, folder)
        pairs = [(by_hand(job, folder), through_backend(job, backend, number)) for number in range(RUNS)]
    hand, ours = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(two / one for one, two in pairs)
    table(
        ("run", "median s", "ratio"),
        [("by hand", f"{hand:.2f}", "1"), ("local backend", f"{ours:.2f}", f"{ratio:.3f}")],
    )
    bound = MOST_RATIO * hand + MOST_SECONDS
    return verdict(f"at most {MOST_RATIO:g} x + {MOST_SECONDS:g} s = {bound:.2f} s: {ours:.2f} s", ours <= bound)
