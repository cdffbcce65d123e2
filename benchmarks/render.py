"""How long it takes from a task's fields to the job's manifest as text: validation, layout, checks and rendering."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.spec import parse_spec
from benchmarks.report import heading, raw, table

RUNS = 300
_COMMAND = ["python3", "/app/train.py", "--epochs", "10"]
_FIELDS = {
    "image": "registry.example/train:1",
    "command": _COMMAND,
    "num_nodes": 4,
    "env": {"EXPERIMENT": "baseline", "OMP_NUM_THREADS": "4"},
    "resources_per_node": {"cpu": 4, "memory": "16Gi"},
}
#: Backend -> the framework that is rendered for it.
_CASES = {"trainer": "pytorch", "training-operator": "pytorch", "mpi-operator": "mpi", "native": "pytorch"}


def milliseconds(work: Callable[[], Any]) -> float:
    """The median time that something takes."""
    times = []
    for _ in range(RUNS + 1):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return median(times[1:]) * 1e3


def measure(backend: str, fields: Mapping[str, Any]) -> tuple[float, float, float]:
    """Milliseconds to validate the fields, to check and render the job, and for all of it together.

    :param backend: the backend's name.
    :param fields: a task's.
    """
    renderer = ClusterBackend(backend, None, "training")
    identity = Identity(dag_id="bench", run_id="manual", task_id="train", map_index=7)
    job = plan_job(parse_spec(fields))

    def render() -> None:
        renderer.check(job)
        renderer.render(job, identity)

    def validate() -> None:
        plan_job(parse_spec(fields))

    def both() -> None:
        mine = plan_job(parse_spec(fields))
        renderer.check(mine)
        renderer.render(mine, identity)

    return milliseconds(validate), milliseconds(render), milliseconds(both)


def main() -> bool:
    """Print the table.

    :return: True: there is no bound.
    """
    heading(f"From a task's fields to the manifest of a job of 4 nodes (median of {RUNS})")
    figures = {name: measure(name, {**_FIELDS, "framework": framework}) for name, framework in _CASES.items()}
    raw(figures)
    rows = [(name, _CASES[name], *(f"{each:.2f}" for each in times)) for name, times in figures.items()]
    table(("backend", "framework", "validate ms", "check and render to YAML ms", "all ms"), rows)
    return True
