"""What ends a job when its task is over, with Airflow and without; and a job that other tasks suspend and resume."""

from __future__ import annotations

import signal

import pytest

from airflow_trainer_provider.kinds.objects.labels import JOB
from tests.airflow.tasks import worker_processes
from tests.cluster.airflow.dags.on_cluster import LIMIT
from tests.cluster.airflow.jobs import wait_until_gone
from tools.airflow_runner.api import wait_until
from tools.airflow_runner.instance import COMPONENTS

pytestmark = pytest.mark.no_second_chance

KUBEFLOW = ("trainer", "training-operator", "native")
#: Seconds by which a job's own deadline is later than its task's, and that its pods may take to be gone then.
LATER, SLOW = 60, 135


@pytest.fixture
def airflow(on_cluster, cluster):
    return on_cluster.airflow


@pytest.fixture
def start(on_cluster, folder):
    """Function (DAG, backend) -> both, and the run. Its job trains in the test's folder until all are let go."""

    def start(dag_id, backend):
        params = {"folder": str(folder), "timeout": "1800", "nodes": 1}
        return dag_id, backend, on_cluster.run(dag_id, backend, **params)

    return start


def wait_for_jobs(folder, count):
    """Wait until so many jobs train; one that is resumed begins twice."""
    wait_until(lambda: len(set(folder.trainings())) == count or None, 360, lambda: f"trainings: {folder.trainings()}")


def name_of(airflow, started):
    """The name of the job of a run."""
    dag_id, _, run = started
    return wait_until(lambda: airflow.xcom(dag_id, run, "train", "job"), 90, lambda: "no handle in XCom")["name"]


def end_of(airflow, started, timeout=360):
    dag_id, backend, run = started
    return dag_id, backend, airflow.wait_for_run(dag_id, run, timeout)


def test_jobs_end_with_their_task_or_run_and_are_suspended_and_resumed_by_other_tasks(
    on_cluster, airflow, start, folder
):
    ending = [start("limited_deferred", backend) for backend in KUBEFLOW[:2]]
    ending += [start("run_limited_deferred", "native"), start("once_waiting", "trainer")]
    managed = start("managed", "native")
    wait_for_jobs(folder, 5)

    # Of a task that has no other try.
    task, worker = worker_processes(airflow, "once_waiting", ending[-1][2])
    worker.kill()
    task.kill()

    assert [end_of(airflow, each) for each in ending] == [(dag_id, backend, "failed") for dag_id, backend, _ in ending]
    for dag_id, _, run in ending[:2]:
        assert "execution_timeout" in airflow.task_log(dag_id, run, "train")
    dag_id, _, run = managed
    assert airflow.wait_for_task(dag_id, run, "resume")["state"] == "success"
    folder.go()
    assert end_of(airflow, managed) == (*managed[:2], "success")
    assert "Suspended" in airflow.task_log(dag_id, run, "suspend")
    assert airflow.xcom(dag_id, run, "wait")["phase"] == "succeeded"
    wait_until_gone(on_cluster)


def test_without_any_part_of_airflow_a_job_goes_on_and_one_whose_time_is_over_ends(on_cluster, airflow, start, folder):
    limited = [start("limited_deferred", backend) for backend in KUBEFLOW]
    going_on = [start("watched_deferred", backend) for backend in KUBEFLOW]
    wait_for_jobs(folder, 6)
    names = [name_of(airflow, each) for each in limited]
    for dag_id, _, run in going_on:
        airflow.wait_for_task(dag_id, run, "train", "deferred")

    def still_run():
        selector = f"{JOB} in ({','.join(names)})"
        pods = on_cluster.access.kubectl.list("pods", on_cluster.namespace, selector)
        return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]

    for component in COMPONENTS:
        airflow.kill(component, signal.SIGKILL)
    try:
        assert len(still_run()) == len(limited)
        seconds = LIMIT.total_seconds() + LATER + SLOW
        wait_until(lambda: not still_run() or None, seconds, lambda: f"still there: {still_run()}", every=2)
    finally:
        for component in COMPONENTS:
            airflow.add(component, component)
        airflow.wait_until_healthy(360)

    folder.go()
    for expected, started in (("success", going_on), ("failed", limited)):
        ends = [end_of(airflow, each) for each in started]
        assert ends == [(dag_id, backend, expected) for dag_id, backend, _ in started]
    # None was trained a second time.
    assert len(folder.trainings()) == len(set(folder.trainings())) == 6
    wait_until_gone(on_cluster)
