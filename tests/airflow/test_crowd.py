"""Many jobs at once, and what a DAG puts around them, in an Airflow with its own settings and an XCom backend."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.airflow.conftest import HERE
from tests.airflow.jobs import job_processes
from tests.scale import FULL
from tools.airflow_runner import AirflowInstance
from tools.airflow_runner.api import TIMEOUT, wait_until

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.local,
    pytest.mark.slow,
    pytest.mark.timeout(3600 if FULL else 900),
]

#: Deferred jobs of 0 to 2 s.
SHORT = 200 if FULL else 12
#: Jobs for each end, waited for in both ways. Each has four hostile lines, and a result or an error.
HOSTILE = 100 if FULL else 3
SECONDS = 3000 if FULL else 600
#: Tasks at once: as many as Airflow runs of itself, or what so many cores can start without keeping its API server from
#: answering.
PARALLELISM = min(32, 4 * (os.cpu_count() or 1))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowInstance]:
    """An Airflow with more tasks at once than the other tests have, and with heartbeats as late as Airflow has them."""
    home = tmp_path_factory.mktemp("crowd") / "home"
    config = {
        "core": {
            "parallelism": str(PARALLELISM),
            "xcom_backend": "airflow.providers.common.io.xcom.backend.XComObjectStorageBackend",
        },
        "common.io": {
            "xcom_objectstorage_path": f"file://{home.with_name('xcom')}",
            "xcom_objectstorage_threshold": "1",
        },
    }
    env = {"SHORT_JOBS": str(SHORT), "HOSTILE_JOBS": str(HOSTILE)}
    with AirflowInstance(home, [HERE / "crowd_dags"], config=config, env=env) as instance:
        yield instance


def states(airflow, run):
    """How many tasks of a run are in which state, by task."""
    found = airflow.sql("select task_id, state from task_instance where run_id = :run", run=run)
    return Counter((task, state) for task, state in found)


def xcom(airflow, dag_id, run, task, key="return_value", **which):
    """A value that the XCom backend keeps in a file."""
    where = airflow.xcom(dag_id, run, task, key, **which)
    assert where.startswith("file://"), where
    return json.loads(Path(where.removeprefix("file://")).read_text())


def test_jobs_that_end_within_seconds_of_their_deferral_fail_no_task(airflow):
    run = airflow.trigger_dag("crowd_short")

    assert airflow.wait_for_run("crowd_short", run, SECONDS) == "success", states(airflow, run)
    assert states(airflow, run) == {("train", "success"): SHORT}


def test_hostile_lines_results_and_errors_end_as_their_trainings_did(airflow):
    run = airflow.trigger_dag("crowd_hostile")

    assert airflow.wait_for_run("crowd_hostile", run, SECONDS) == "failed", states(airflow, run)
    ways = ("waiting", "deferred")
    ends = [("succeed", "success"), ("fail", "failed")]
    assert states(airflow, run) == {(f"{end}_{how}", state): HOSTILE for how in ways for end, state in ends}
    for how in ways:
        for number in range(HOSTILE):
            summary = xcom(airflow, "crowd_hostile", run, f"succeed_{how}", map_index=number)
            assert summary["phase"] == "succeeded", summary
            failure = xcom(airflow, "crowd_hostile", run, f"fail_{how}", "failure", map_index=number)
            assert "ValueError" in failure["traceback"][-1], failure
            for end in ("succeed", "fail"):
                log = airflow.task_log("crowd_hostile", run, f"{end}_{how}", map_index=number)
                assert f"the end of {number}" in log, log
    # None of its components has ended.
    airflow.wait_until_healthy()


def test_a_pool_that_counts_deferred_tasks_bounds_how_many_jobs_train(airflow, folder):
    airflow.request("POST", "/pools", json={"name": "gpus", "slots": 1, "include_deferred": True})
    run = airflow.trigger_dag("train_in_pool", {"folder": str(folder)})
    folder.wait_for_training()
    wait_until(lambda: states(airflow, run)["train", "deferred"] or None, TIMEOUT, lambda: str(states(airflow, run)))
    assert states(airflow, run) == {("train", "deferred"): 1, ("train", "scheduled"): 1}

    folder.go()

    assert airflow.wait_for_run("train_in_pool", run) == "success"
    assert len(set(folder.trainings())) == 2


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_task_that_depends_on_its_past_waits_for_the_job_of_the_run_before(airflow, folder, how):
    dag_id = f"train_after_past_{how}"
    airflow.wait_for_dag(dag_id)
    for day in (1, 2):
        which = {"dag_run_id": f"day-{day}", "logical_date": f"2026-02-0{day}T00:00:00Z"}
        airflow.request("POST", f"/dags/{dag_id}/dagRuns", json={**which, "conf": {"folder": str(folder)}})
    folder.wait_for_training()
    state = partial(airflow.run_state, dag_id, "day-2")
    wait_until(lambda: state() == "running" or None, TIMEOUT, state)
    assert airflow.task_states(dag_id, "day-2")["train"] is None

    folder.go()

    assert [airflow.wait_for_run(dag_id, f"day-{day}") for day in (1, 2)] == ["success", "success"]
    assert len(set(folder.trainings())) == 2
    assert [xcom(airflow, dag_id, f"day-{day}", "read") for day in (1, 2)] == [1, 2]


@pytest.mark.parametrize("mode", ["train", "raise"])
@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_teardown_in_a_group_comes_after_the_job_however_it_has_ended(airflow, folder, how, mode):
    dag_id = f"train_between_{how}"
    folder.go()
    run = airflow.trigger_dag(dag_id, {"folder": str(folder), "mode": mode})

    end = {"train": "success", "raise": "failed"}[mode]
    assert airflow.wait_for_run(dag_id, run) == end
    assert airflow.task_states(dag_id, run) == {
        "group.before": "success",
        "group.train": end,
        "group.after": "success",
    }
    name = xcom(airflow, dag_id, run, "group.train", "job")["name"]
    log = airflow.task_log(dag_id, run, "group.after")
    assert f"Training job {name} has ended already" in log, log
    assert job_processes() == []
