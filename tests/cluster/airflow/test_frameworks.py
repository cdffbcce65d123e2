"""Each framework trains for real on each backend that carries it, through a real scheduler and triggerer."""

from __future__ import annotations

import time

import pytest

from airflow_trainer_provider.kinds.registry import BACKENDS

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
def test_it_trains_waiting_and_deferred(cluster, on_cluster, backend, framework, record_time):
    started = time.monotonic()
    runs = {dag_id: on_cluster.run(dag_id, backend) for dag_id in (f"{framework}_waiting", f"{framework}_deferred")}
    for dag_id, run in runs.items():
        assert on_cluster.airflow.wait_for_run(dag_id, run) == "success", on_cluster.airflow.task_log(
            dag_id, run, "train", 1
        )

        result = on_cluster.airflow.xcom(dag_id, run, "train")
        assert result["backend"] == backend
        assert result["result"]["world"] == 3
        assert result["metrics"]
        assert {row["reason"] for row in result["replicas"]} <= {"Completed", "Stopped"}
        log = on_cluster.airflow.task_log(dag_id, run, "train", 1)
        assert f"[{on_cluster.airflow.xcom(dag_id, run, 'train', 'job')['leader']}]" in log
    record_time(f"{framework} on {backend}, waiting and deferred", time.monotonic() - started)
    for kind in [kind for kind in BACKENDS[backend] if framework in kind.frameworks]:
        name = f"{kind.resource.plural}.{kind.resource.api_version.rpartition('/')[0]}".rstrip(".")
        assert on_cluster.access.kubectl.list(name, on_cluster.namespace) == []
