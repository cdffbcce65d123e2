"""Jobs on the cluster, with Airflow's parts killed, restarted and cleared on the way.

After each: one training, the right outcome, and nothing left in the cluster.
"""

from __future__ import annotations

import signal

import pytest

from airflow_trainer_provider.kinds.labels import JOB
from airflow_trainer_provider.kinds.registry import BACKENDS
from tests.airflow.jobs import line_numbers
from tests.airflow.test_train_jobs_faults import worker_processes
from tools.airflow_runner.api import wait_until

#: Seconds: pods take their time to go.
_GONE = 90


@pytest.fixture(params=["trainer", "training-operator", "native"])
def backend(request, cluster):
    return request.param


@pytest.fixture
def airflow(on_cluster):
    return on_cluster.airflow


def start(on_cluster, folder, backend, how, mode="train"):
    """A run whose job trains, and whose task has told its job and waits."""
    dag_id = f"watched_{how}"
    run = on_cluster.run(dag_id, backend, folder=str(folder), mode=mode)
    folder.wait_for_training()
    wait_until(lambda: on_cluster.airflow.xcom(dag_id, run, "train", "job"), 30, lambda: "no handle in XCom")
    if how == "deferred":
        on_cluster.airflow.wait_for_task(dag_id, run, "train", "deferred")
    return dag_id, run


def wait_until_gone(on_cluster):
    """Nothing of any job is left: neither its pods nor what stood for it."""
    kubectl, namespace = on_cluster.access.kubectl, on_cluster.namespace
    kinds = ["pods", *_served(on_cluster)]
    wait_until(
        lambda: not any(kubectl.list(kind, namespace, JOB) for kind in kinds) or None,
        _GONE,
        lambda: str([each["metadata"]["name"] for kind in kinds for each in kubectl.list(kind, namespace, JOB)]),
    )


def _served(on_cluster):
    served = on_cluster.access.kubectl("api-resources", "--output=name").split()
    resources = {kind.resource for kinds in BACKENDS.values() for kind in kinds}
    names = {f"{each.plural}.{each.api_version.rpartition('/')[0]}".rstrip(".") for each in resources}
    return sorted(names & set(served))


def assert_trained_once(airflow, dag_id, run, folder):
    assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == 1
    assert len(folder.trainings()) == 1


def test_the_next_try_adopts_the_job_of_a_killed_worker(on_cluster, airflow, backend, folder):
    dag_id, run = start(on_cluster, folder, backend, "waiting")

    task, worker = worker_processes(airflow, dag_id, run)
    worker.kill()
    task.kill()

    airflow.wait_for_task(dag_id, run, "train", "running", try_number=2)

    def log() -> str:
        return airflow.task_log(dag_id, run, "train", 2)

    wait_until(lambda: "Adopted training job" in log() or None, 60, log)
    folder.go()
    airflow.wait_for_task(dag_id, run, "train", "success", try_number=2)
    assert_trained_once(airflow, dag_id, run, folder)
    text = airflow.task_log(dag_id, run, "train", 2)
    assert line_numbers(text, "worker-0", 1) == list(range(folder.lines_of(text, "worker-0")))
    wait_until_gone(on_cluster)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_deferred_job_outlives_its_triggerer(on_cluster, airflow, backend, folder, number):
    dag_id, run = start(on_cluster, folder, backend, "deferred")
    wait_until(lambda: "line 5 of rank 1" in airflow.task_log(dag_id, run, "train") or None, 60, lambda: "no lines")

    airflow.kill("triggerer", number)
    airflow.restart("triggerer")

    def goes_on() -> bool | None:
        told = airflow.task_log(dag_id, run, "train").rpartition(" starting")[2]
        return ("of rank 0" in told and "of rank 1" in told) or None

    # The Training Operator deletes workers that still run when the master has ended, and their last lines with them.
    wait_until(goes_on, 60, lambda: airflow.task_log(dag_id, run, "train"))
    folder.go()

    assert airflow.wait_for_run(dag_id, run) == "success"
    assert_trained_once(airflow, dag_id, run, folder)
    text = airflow.task_log(dag_id, run, "train")
    numbers = line_numbers(text, "worker-0", 1)
    # None is lost. Those since the place was last written down may be told again.
    assert sorted(set(numbers)) == list(range(folder.lines_of(text, "worker-0")))
    wait_until_gone(on_cluster)


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_marking_the_task_failed_ends_the_job(on_cluster, airflow, backend, folder, how):
    dag_id, run = start(on_cluster, folder, backend, how, mode="stubborn")

    airflow.set_task_state(dag_id, run, "train", "failed")

    wait_until_gone(on_cluster)


def test_clearing_a_deferred_task_leaves_one_job(on_cluster, airflow, backend, folder):
    dag_id, run = start(on_cluster, folder, backend, "deferred")

    airflow.clear(dag_id, run, "train")
    airflow.wait_for_task(dag_id, run, "train", frozenset({"running", "deferred"}), try_number=2)
    folder.go()

    airflow.wait_for_task(dag_id, run, "train", "success", try_number=2)
    # Ended and started anew, or adopted: which of the two comes first is up to Airflow.
    assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == len(folder.trainings()) <= 2
    wait_until_gone(on_cluster)


def test_two_runs_at_once_have_a_job_each(on_cluster, airflow, backend, folder):
    runs = [on_cluster.run("watched_waiting", backend, folder=str(folder)) for _ in range(2)]
    folder.wait_for_training(2)
    folder.go()

    assert [airflow.wait_for_run("watched_waiting", run) for run in runs] == ["success", "success"]
    assert len(set(folder.trainings())) == 2
    wait_until_gone(on_cluster)
