"""Jobs on the cluster, with Airflow's parts killed, restarted and cleared on the way.

After each: one training, the right outcome, and nothing left in the cluster.
"""

from __future__ import annotations

import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from airflow_trainer_provider.kinds.objects.labels import TASK
from tests.airflow.jobs import line_numbers
from tests.airflow.tasks import worker_processes
from tests.airflow_version import AIRFLOW_V_3_3
from tests.cluster.airflow.jobs import handle_of, key_of, wait_until_alone, wait_until_gone
from tools.airflow_runner.api import wait_until

KUBEFLOW = ("trainer", "training-operator", "native")
#: Seconds in which a job trains, whatever else this machine does.
_STARTED_WITHIN = 360
on_each_backend = pytest.mark.parametrize("backend", KUBEFLOW)


def start(on_cluster, folder, backend, how, mode="train"):
    """A run whose job trains, and whose task has recorded its job and waits."""
    dag_id = f"watched_{how}"
    run = on_cluster.run(dag_id, backend, folder=str(folder), mode=mode)
    folder.wait_for_training(seconds=_STARTED_WITHIN)
    handle_of(on_cluster, dag_id, run)
    if how == "deferred":
        on_cluster.airflow.wait_for_task(dag_id, run, "train", "deferred")
    return dag_id, run


def assert_trained_once(airflow, dag_id, run, folder):
    assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == 1
    assert len(folder.trainings()) == 1


def test_a_job_that_runs_out_of_memory_has_more_within_the_same_try(on_cluster):
    airflow = on_cluster.airflow
    runs = {dag_id: on_cluster.run(dag_id, "native") for dag_id in ("grown_waiting", "grown_deferred")}

    for dag_id, run in runs.items():
        task = airflow.wait_for_task(dag_id, run, "train", timeout=720)
        log = airflow.task_log(dag_id, run, "train")
        assert (task["state"], task["try_number"]) == ("success", 1), log
        assert "It starts again with resources_per_node.memory 150Mi instead of 100Mi" in log
        assert "120 MiB held" in log
        (more,) = airflow.xcom(dag_id, run, "train")["more_memory"]
        assert (more["replica"], more["before"], more["after"]) == ("worker-0", "100Mi", "150Mi")
        assert airflow.xcom(dag_id, run, "train", "request")["requested"]["memory_bytes"] == 150 << 20
    wait_until_gone(on_cluster)


@on_each_backend
@pytest.mark.no_second_chance
def test_the_next_try_adopts_the_job_of_a_killed_worker(on_cluster, new_folder, side_by_side, backend):
    side_by_side(partial(kill_the_worker, on_cluster, new_folder))


def kill_the_worker(on_cluster, new_folder, backend):
    airflow = on_cluster.airflow
    with new_folder() as folder:
        dag_id, run = start(on_cluster, folder, backend, "waiting")

        task, worker = worker_processes(airflow, dag_id, run)
        worker.kill()
        task.kill()

        airflow.wait_for_task(dag_id, run, "train", "running", try_number=2, timeout=540)

        def log() -> str:
            return airflow.task_log(dag_id, run, "train", 2)

        wait_until(lambda: "Adopted training job" in log() or None, 180, log)
        folder.go()
        airflow.wait_for_task(dag_id, run, "train", "success", try_number=2)
        assert_trained_once(airflow, dag_id, run, folder)
        text = airflow.task_log(dag_id, run, "train", 2)
        assert line_numbers(text, "worker-0", 1) == list(range(folder.lines_of(text, "worker-0")))
        wait_until_gone(on_cluster, handle_of(on_cluster, dag_id, run))


@pytest.mark.skipif(not AIRFLOW_V_3_3, reason="Airflow keeps a task's state from 3.3 on")
@on_each_backend
@pytest.mark.no_second_chance
def test_a_try_in_another_namespace_starts_once_the_job_of_the_first_is_gone(
    on_cluster, new_folder, another_namespace, side_by_side, backend
):
    side_by_side(partial(move, on_cluster, new_folder, another_namespace))


def move(on_cluster, new_folder, another_namespace, backend):
    airflow = on_cluster.airflow
    with new_folder() as folder:
        run = on_cluster.run("moved", backend, folder=str(folder), then=another_namespace)
        folder.wait_for_training(seconds=_STARTED_WITHIN)
        first = handle_of(on_cluster, "moved", run)

        worker_processes(airflow, "moved", run)[0].kill()
        folder.wait_for_training(2, seconds=_STARTED_WITHIN)

        selector = f"{TASK}={key_of(first)}"
        pods = on_cluster.access.kubectl.list("pods", another_namespace, selector)
        assert [pod for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")] == []
        assert on_cluster.access.kubectl.list("pods", on_cluster.namespace, selector) != []
        folder.go()
        assert airflow.wait_for_task("moved", run, "train", "success", try_number=2)["try_number"] == 2
        assert f"namespace {another_namespace}); none runs there" in airflow.task_log("moved", run, "train", 2)
        wait_until_gone(on_cluster, first)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.no_second_chance
def test_deferred_jobs_outlive_their_triggerer(on_cluster, cluster, new_folder, subtests, number):
    airflow = on_cluster.airflow
    with ExitStack() as folders:
        started = [(backend, folders.enter_context(new_folder())) for backend in KUBEFLOW]
        with ThreadPoolExecutor() as pool:
            runs = list(pool.map(lambda each: start(on_cluster, each[1], each[0], "deferred"), started))
        for dag_id, run in runs:
            wait_until(partial(line_5_is_logged, airflow, dag_id, run), 180, lambda: "no lines")

        airflow.kill("triggerer", number)
        airflow.restart("triggerer")

        for (backend, folder), (dag_id, run) in zip(started, runs, strict=True):
            with subtests.test(backend=backend):
                # The Training Operator deletes workers that still run when the master has ended, and their last lines
                # with them.
                wait_until(partial(goes_on, airflow, dag_id, run), 180, partial(airflow.task_log, dag_id, run, "train"))
                folder.go()
        for (backend, folder), (dag_id, run) in zip(started, runs, strict=True):
            with subtests.test(backend=backend):
                assert airflow.wait_for_run(dag_id, run) == "success"
                assert_trained_once(airflow, dag_id, run, folder)
                text = airflow.task_log(dag_id, run, "train")
                numbers = line_numbers(text, "worker-0", 1)
                # None is lost. Those since the cursor was last saved may be emitted again.
                assert sorted(set(numbers)) == list(range(folder.lines_of(text, "worker-0")))
    wait_until_gone(on_cluster)


def line_5_is_logged(airflow, dag_id, run):
    return "line 5 of rank 1" in airflow.task_log(dag_id, run, "train") or None


def goes_on(airflow, dag_id, run):
    """Whether both ranks' lines are logged again since the triggerer's restart."""
    _, *starts = re.split(r"\(ID \d+\) starting", airflow.task_log(dag_id, run, "train"))
    return (len(starts) > 1 and "of rank 0" in starts[-1] and "of rank 1" in starts[-1]) or None


@on_each_backend
@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_marking_the_task_failed_ends_the_job(on_cluster, new_folder, side_by_side, backend, how):
    side_by_side(partial(mark_failed, on_cluster, new_folder))


def mark_failed(on_cluster, new_folder, backend, how):
    with new_folder() as folder:
        dag_id, run = start(on_cluster, folder, backend, how, mode="stubborn")
        job = handle_of(on_cluster, dag_id, run)

        on_cluster.airflow.set_task_state(dag_id, run, "train", "failed")

        wait_until_gone(on_cluster, job)


@on_each_backend
@pytest.mark.no_second_chance
def test_clearing_a_deferred_task_leaves_one_job(on_cluster, new_folder, side_by_side, backend):
    side_by_side(partial(clear, on_cluster, new_folder))


def clear(on_cluster, new_folder, backend):
    airflow = on_cluster.airflow
    with new_folder() as folder:
        dag_id, run = start(on_cluster, folder, backend, "deferred")

        airflow.clear(dag_id, run, "train")
        airflow.wait_for_task(dag_id, run, "train", "deferred", try_number=2)
        handle = handle_of(on_cluster, dag_id, run)
        wait_until_alone(on_cluster, handle)
        folder.go()

        airflow.wait_for_task(dag_id, run, "train", "success", try_number=2)
        # Ended and started again, or adopted: which of the two comes first is up to Airflow.
        assert airflow.xcom(dag_id, run, "train")["result"]["trainings"] == len(folder.trainings()) <= 2
        wait_until_gone(on_cluster, handle)


@on_each_backend
def test_two_runs_at_once_have_a_job_each(on_cluster, new_folder, side_by_side, backend):
    side_by_side(partial(run_twice, on_cluster, new_folder))


def run_twice(on_cluster, new_folder, backend):
    with new_folder() as folder:
        runs = [on_cluster.run("watched_waiting", backend, folder=str(folder)) for _ in range(2)]
        folder.wait_for_training(2, seconds=_STARTED_WITHIN)
        folder.go()

        assert [on_cluster.airflow.wait_for_run("watched_waiting", run) for run in runs] == ["success", "success"]
        assert len(set(folder.trainings())) == 2
        for run in runs:
            wait_until_gone(on_cluster, handle_of(on_cluster, "watched_waiting", run))
