"""A trivial job through Airflow, beside ``kubectl apply`` and ``kubectl wait`` on the same manifest.

Airflow has a scheduler, workers and a triggerer of its own: a task that does nothing shows what those take.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.spec import parse_spec
from benchmarks.cluster import Bench, bench_namespace, running_cluster
from benchmarks.report import heading, raw, table
from tools.airflow_runner import AirflowInstance

RUNS = 5
_DAGS = Path(__file__).parent / "dags"
_SPEC = {"framework": "jax", "image": "trainer.test/worker:test", "command": ["true"]}


def by_kubectl(bench: Bench, number: int) -> float:
    """Seconds until the job has succeeded."""
    identity = Identity(dag_id="bench", run_id=str(number), task_id="train")
    text = ClusterBackend("native", None, bench.namespace).render(plan_job(parse_spec(_SPEC)), identity)
    jobs = [each["metadata"]["name"] for each in yaml.safe_load_all(text) if each["kind"] == "Job"]
    kubectl, where = bench.access.kubectl, f"--namespace={bench.namespace}"
    begun = time.perf_counter()
    kubectl("apply", where, "-f", "-", stdin=text)
    kubectl("wait", where, "--for=condition=complete", "--timeout=60s", *(f"job/{name}" for name in jobs), timeout=70)
    return time.perf_counter() - begun


def through_airflow(airflow: AirflowInstance, dag_id: str) -> float:
    """Seconds from the request for a run to its success."""
    begun = time.perf_counter()
    run = airflow.trigger_dag(dag_id)
    if airflow.wait_for_run(dag_id, run) != "success":
        raise RuntimeError(airflow.task_log(dag_id, run, "train"))
    return time.perf_counter() - begun


def measure(bench: Bench, runs: int) -> dict[str, list[float]]:
    """Seconds of each run, by how it was run; they take turns."""
    with tempfile.TemporaryDirectory() as home, AirflowInstance(Path(home), [_DAGS], env=bench.connection) as airflow:
        ways: dict[str, Callable[[int], float]] = {
            "kubectl apply, kubectl wait": lambda number: by_kubectl(bench, number),
            "Airflow: a task that does nothing": lambda _: through_airflow(airflow, "trivial_nothing"),
            "Airflow: the job, waited for by a worker": lambda _: through_airflow(airflow, "trivial_waiting"),
            "Airflow: the job, waited for in the triggerer": lambda _: through_airflow(airflow, "trivial_deferred"),
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(runs + 1):
            for name, way in ways.items():
                seconds = way(number)
                # The first run of each pays for what is made once.
                if number:
                    found[name].append(seconds)
    return found


def main(*, quick: bool = False) -> bool:
    """Print the table.

    :param quick: only show that it works.
    :return: True: there is no bound.
    """
    runs = 1 if quick else RUNS
    heading(f"A trivial job through Airflow, on backend native (median of {runs})")
    with running_cluster(), bench_namespace() as bench:
        found = measure(bench, runs)
    raw(found)
    medians = {name: median(seconds) for name, seconds in found.items()}
    kubectl, nothing, *_ = medians.values()
    rows = [
        (name, f"{seconds:.2f}", f"{seconds - kubectl - nothing:+.2f}" if place > 1 else "")
        for place, (name, seconds) in enumerate(medians.items())
    ]
    table(("run", "s", "over kubectl and a task that does nothing, s"), rows)
    return True
