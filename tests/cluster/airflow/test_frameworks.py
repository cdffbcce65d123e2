"""Each framework trains for real on each backend that carries it, through a real scheduler and triggerer."""

from __future__ import annotations

import time
from functools import partial

import pytest

from airflow_trainer_provider.kinds.registry import BACKENDS
from tests.cluster.airflow.jobs import handle_of, wait_until_gone

CASES = [
    pytest.param(
        backend,
        framework,
        marks=pytest.mark.profile("mpi" if backend == "mpi-operator" else "kubeflow"),
        id=f"{backend}-{framework}",
    )
    for backend, kinds in BACKENDS.items()
    for framework in sorted({name for kind in kinds for name in kind.frameworks})
]


@pytest.mark.parametrize(("backend", "framework"), CASES)
def test_it_trains_waiting_and_deferred(on_cluster, side_by_side, backend, framework, record_time):
    # Each has six pods, which all import a framework.
    seconds = side_by_side(partial(train, on_cluster), at_once=2)

    record_time(f"{framework} on {backend}, waiting and deferred", seconds)


def train(on_cluster, backend, framework):
    """Seconds until both runs have succeeded."""
    started = time.monotonic()
    runs = {dag_id: on_cluster.run(dag_id, backend) for dag_id in (f"{framework}_waiting", f"{framework}_deferred")}
    for dag_id, run in runs.items():
        assert on_cluster.airflow.wait_for_run(dag_id, run, 720) == "success", on_cluster.airflow.task_log(
            dag_id, run, "train", 1
        )

        result = on_cluster.airflow.xcom(dag_id, run, "train")
        assert result["backend"] == backend
        assert result["result"]["world"] == 3
        assert result["metrics"]
        assert {row["reason"] for row in result["replicas"]} <= {"Completed", "Stopped"}
        log = on_cluster.airflow.task_log(dag_id, run, "train", 1)
        assert f"[{handle_of(on_cluster, dag_id, run).leader}]" in log
    seconds = time.monotonic() - started
    # A job is deleted when Airflow has recorded the success of its task.
    for dag_id, run in runs.items():
        wait_until_gone(on_cluster, handle_of(on_cluster, dag_id, run))
    return seconds
