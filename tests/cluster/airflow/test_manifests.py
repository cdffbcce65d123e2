"""Jobs of other people: their manifests, which the operator brings, and their jobs, which the sensor waits for."""

from __future__ import annotations

import re
import uuid
from contextlib import contextmanager
from functools import partial

import pytest

from tests.cluster.airflow.jobs import handle_of
from tests.cluster.by_hand import batch_job
from tools.airflow_runner.api import wait_until

#: Kind -> the resource, the backend, the framework, how many replicas, and the result.
BROUGHT = {
    "pytorchjob": ("pytorchjobs.kubeflow.org", "training-operator", "pytorch", 3, True),
    "trainjob": ("trainjobs.trainer.kubeflow.org", "trainer", "", 2, False),
    "xgboostjob": ("xgboostjobs.kubeflow.org", "training-operator", "xgboost", 2, False),
    "job": ("jobs.batch", "native", "", 2, True),
}
#: Seconds until a sensor has looked once, whatever else this machine does.
LOOKED_WITHIN = 270


def new_name():
    return f"by-hand-{uuid.uuid4().hex[:6]}"


@contextmanager
def applied(on_cluster, *manifests):
    """They are there, as if a user had applied them, and are gone after it."""
    kubectl, where = on_cluster.access.kubectl, f"--namespace={on_cluster.namespace}"
    kubectl.apply(manifests, where)
    try:
        yield
    finally:
        for each in manifests:
            kubectl("delete", each["kind"], each["metadata"]["name"], where, "--ignore-not-found", "--wait=false")


def _lines(log, replica):
    """The numbers of the replica's lines in a task's log, in the order in which they stand there."""
    return [int(number) for number in re.findall(rf"\[{replica}\] line (\d+)", log)]


def _assert_untouched(on_cluster, kind, name):
    """Nothing of ours was written on it."""
    found = on_cluster.access.kubectl.get(kind, name, on_cluster.namespace)
    assert "airflow-trainer-provider" not in str(found["metadata"]), found["metadata"]


@pytest.mark.parametrize("kind", BROUGHT)
def test_a_manifest_trains_waiting_and_deferred(on_cluster, side_by_side, kind):
    side_by_side(partial(bring, on_cluster))


def bring(on_cluster, kind):
    resource, backend, framework, replicas, has_result = BROUGHT[kind]
    airflow, kubectl = on_cluster.airflow, on_cluster.access.kubectl
    runs = {dag_id: on_cluster.run(dag_id, "") for dag_id in (f"brought_{kind}_waiting", f"brought_{kind}_deferred")}
    for dag_id, run in runs.items():
        assert airflow.wait_for_run(dag_id, run) == "success", airflow.task_log(dag_id, run, "train", 1)
        result = airflow.xcom(dag_id, run, "train")
        assert (result["backend"], result["framework"]) == (backend, framework)
        assert len(result["replicas"]) == replicas
        assert bool(result["metrics"]) is has_result
        assert "result_error" not in result
        handle, log = handle_of(on_cluster, dag_id, run), airflow.task_log(dag_id, run, "train", 1)
        assert f"[{handle.leader}]" in log
        wait_until(
            lambda handle=handle: not kubectl.get(resource, handle.name, on_cluster.namespace) or None,
            180,
            lambda handle=handle: f"{handle.name} is left",
        )


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_manifests_job_that_fails_is_diagnosed(on_cluster, side_by_side, how):
    side_by_side(partial(bring_one_that_fails, on_cluster))


def bring_one_that_fails(on_cluster, how):
    dag_id = f"brought_job_{how}"
    run = on_cluster.run(dag_id, "", word="fail")

    assert on_cluster.airflow.wait_for_run(dag_id, run) == "failed"

    failure = on_cluster.airflow.xcom(dag_id, run, "train", "failure")
    assert failure["exit_code"] == 3
    assert "no such shard" in failure["last_log_lines"]


@pytest.mark.parametrize("how", ["poke", "reschedule", "deferred"])
def test_a_job_that_comes_later_is_waited_for_and_left_as_it_is(on_cluster, side_by_side, how):
    side_by_side(partial(wait_for_one_that_comes_later, on_cluster))


def wait_for_one_that_comes_later(on_cluster, how):
    airflow, dag_id, name = on_cluster.airflow, f"found_{how}", new_name()
    run = on_cluster.run(dag_id, "", name=name)
    airflow.wait_for_task(dag_id, run, "wait", frozenset({"running", "deferred", "up_for_reschedule"}))
    looked = partial(airflow.task_log, dag_id, run, "wait", 1)
    wait_until(lambda: "There is no" in looked() or None, LOOKED_WITHIN, lambda: f"not looked: {looked()}")

    with applied(on_cluster, batch_job(name)):
        assert airflow.wait_for_run(dag_id, run) == "success", airflow.task_log(dag_id, run, "wait", 1)
        result = airflow.xcom(dag_id, run, "wait")
        assert (result["name"], result["phase"], result["metrics"]) == (name, "succeeded", {"loss": 0.25})
        # Each line once, in order, in each mode.
        text = airflow.task_log(dag_id, run, "wait", 1)
        assert _lines(text, "worker-0") == list(range(6)), text
        _assert_untouched(on_cluster, "job", name)


@pytest.mark.parametrize("how", ["poke", "reschedule", "deferred"])
def test_a_job_of_others_that_fails_is_diagnosed_and_left(on_cluster, side_by_side, how):
    side_by_side(partial(wait_for_one_that_fails, on_cluster))


def wait_for_one_that_fails(on_cluster, how):
    name = new_name()
    with applied(on_cluster, batch_job(name, ticks=1, end="echo 'no such shard' >&2; exit 3")):
        run = on_cluster.run(f"found_{how}", "", name=name, kind="Job")

        assert on_cluster.airflow.wait_for_run(f"found_{how}", run) == "failed"

        failure = on_cluster.airflow.xcom(f"found_{how}", run, "wait", "failure")
        assert (failure["replica"], failure["exit_code"]) == ("worker-0", 3)
        assert "no such shard" in failure["last_log_lines"]
        _assert_untouched(on_cluster, "job", name)


@pytest.mark.parametrize("how", ["poke", "deferred"])
def test_its_start_is_waited_for_by_label_and_it_goes_on(on_cluster, side_by_side, how):
    side_by_side(partial(wait_for_its_start, on_cluster))


def wait_for_its_start(on_cluster, how):
    name = new_name()
    with applied(on_cluster, batch_job(name, ticks=7200, labels={"stage": name})):
        run = on_cluster.run(f"found_{how}", "", selector=f"stage={name}", phase="running")

        assert on_cluster.airflow.wait_for_run(f"found_{how}", run) == "success"

        assert on_cluster.airflow.xcom(f"found_{how}", run, "wait")["phase"] == "running"
        assert not on_cluster.access.kubectl.get("job", name, on_cluster.namespace)["status"].get("succeeded")
        _assert_untouched(on_cluster, "job", name)


def test_two_that_fit_are_named(cluster, on_cluster):
    name = new_name()
    with applied(on_cluster, *(batch_job(f"{name}-{each}", labels={"stage": name}) for each in "ab")):
        run = on_cluster.run("found_poke", "", selector=f"stage={name}")

        assert on_cluster.airflow.wait_for_run("found_poke", run) == "failed"

    both = ", ".join(f"job {name}-{each} in namespace {on_cluster.namespace}" for each in "ab")
    assert both in on_cluster.airflow.task_log("found_poke", run, "wait", 1)


def test_every_job_that_matches_is_waited_for_and_one_that_fails_fails_or_skips(cluster, on_cluster):
    name, airflow = new_name(), on_cluster.airflow

    def job(which, **fields):
        return batch_job(f"{name}-{which}", labels={"stage": f"{name}-{which[:4]}"}, **fields)

    with applied(on_cluster, job("good-1", ticks=7200), job("fail-1", ticks=1, end="exit 3")):
        wanted = {"found_every_hard": "good", "found_every_soft": "fail"}
        runs = {
            dag_id: on_cluster.run(dag_id, "", selector=f"stage={name}-{which}") for dag_id, which in wanted.items()
        }
        airflow.wait_for_task("found_every_hard", runs["found_every_hard"], "wait", "deferred")
        # It comes while the other one is waited for.
        with applied(on_cluster, job("good-2", ticks=1)):
            where = f"--namespace={on_cluster.namespace}"
            cluster.kubectl("exec", f"job/{name}-good-1", where, "--pod-running-timeout=170s", "--", "touch", "/tmp/go")

            assert airflow.wait_for_run("found_every_hard", runs["found_every_hard"]) == "success"
            found = airflow.xcom("found_every_hard", runs["found_every_hard"], "wait")
            assert sorted((each["name"], each["phase"]) for each in found) == [
                (f"{name}-good-1", "succeeded"),
                (f"{name}-good-2", "succeeded"),
            ]
            assert airflow.wait_for_task("found_every_soft", runs["found_every_soft"], "wait")["state"] == "skipped"


def test_a_trainjob_of_others_is_seen_whole(cluster, on_cluster):
    # Its runtime says how many nodes it has.
    name = new_name()
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "runtimeRef": {"name": "trainer-test-torch"},
            "trainer": {"command": ["sh", "-c", "echo line 0; echo line 1"]},
        },
    }
    with applied(on_cluster, job):
        run = on_cluster.run("found_deferred", "", name=name)

        assert on_cluster.airflow.wait_for_run("found_deferred", run) == "success"

        assert [row["group"] for row in on_cluster.airflow.xcom("found_deferred", run, "wait")["replicas"]] == ["node"]
        assert _lines(on_cluster.airflow.task_log("found_deferred", run, "wait", 1), "node-0") == [0, 1]
        _assert_untouched(on_cluster, "trainjob", name)
