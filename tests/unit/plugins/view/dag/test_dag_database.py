"""What is read of the runs of a DAG, and with how many queries."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest
import sqlalchemy
from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel

from airflow_trainer_provider.plugins.view.dag.database import read_dag, read_progress
from tests.unit.plugins.view.conftest import NOW

#: Fields of one of the provider's operators.
RENDERED = {"args": [], "rendered_job": "..."}


@pytest.fixture
def add_run(database):
    """Adds a run of the DAG `mine` with a task in it."""

    def add(days, state="success", task_id="train", map_index=-1, is_new=True, version=None, **values):
        # Values: fields, as they were rendered; label, of the map index; and XComs.
        fields, label, xcoms = values.pop("fields", None), values.pop("label", None), values
        run_id = f"run-{days}"
        if is_new:
            database.add(
                DagRun,
                dag_id="mine",
                run_id=run_id,
                run_type="manual",
                logical_date=NOW - timedelta(days=days, hours=1),
                run_after=NOW - timedelta(days=days),
                state="running",
                clear_number=0,
                log_template_id=1,
            )
        columns = TaskInstance.__table__.c
        place = {"dag_id": "mine", "run_id": run_id, "task_id": task_id, "map_index": map_index}
        database.add(
            TaskInstance,
            id=columns.id.type.python_type(str(uuid.uuid4())),
            **place,
            state=state,
            rendered_map_index=label,
            dag_version_id=version or database.latest("mine"),
            try_number=1,
            max_tries=0,
            start_date=NOW - timedelta(days=days),
            pool="default_pool",
            pool_slots=1,
            executor_config={},
        )
        if fields is not None:
            database.add(RenderedTaskInstanceFields, **place, rendered_fields=fields)
        for key, value in {"request": {"gpus": 4}, **xcoms}.items():
            database.add(XComModel, dag_run_id=days, **place, key=key, value=value, timestamp=NOW)

    return add


@pytest.fixture
def statements(database):
    """What the database was asked."""
    found = []
    sqlalchemy.event.listen(database.engine, "before_cursor_execute", lambda *call: found.append(call[2]), named=False)
    return found


def test_a_dag_that_has_never_trained_has_no_task(database):
    database.task(dag_version_id=database.version())

    assert read_dag("mine", None, 20).tasks == ()


def test_a_task_of_another_operator_is_no_training_whatever_it_pushes(database, add_run):
    add_run(1, version=database.version(), fields={"bash_command": "rendered_job"})

    assert read_dag("mine", None, 20).tasks == ()
    assert read_progress("mine", "train", [("run-1", -1)]) is None


def test_a_task_that_the_dag_has_no_longer_is_still_shown(database, add_run):
    before = database.version("train", "distill")
    add_run(1, version=before)
    add_run(1, task_id="distill", is_new=False, version=before, fields=RENDERED)
    moved = database.version("train")
    add_run(2, task_id="distill", version=moved, fields=RENDERED)

    assert read_dag("mine", "distill", 20).tasks == ("distill", "train")
    assert [run.task.run_id for run in read_dag("mine", "distill", 20).runs] == ["run-1", "run-2"]


def test_of_a_task_that_had_another_operator_its_trainings_are_shown(database, add_run):
    for days, trainings in ((3, ["train"]), (2, []), (1, ["train"])):
        add_run(days, version=database.version(*trainings))

    assert [run.task.run_id for run in read_dag("mine", None, 20).runs] == ["run-1", "run-3"]


def test_the_newest_runs_are_read_first_and_one_before_them(add_run):
    for days in (2, 1, 4, 3):
        add_run(days, return_value=json.dumps({"phase": "succeeded", "days": days}), fields={"args": [str(days)]})

    found = read_dag("mine", None, 3)

    assert (found.tasks, found.task_id) == (("train",), "train")
    assert [run.task.run_id for run in found.runs] == ["run-1", "run-2", "run-3"]
    assert found.before.task.run_id == "run-4"
    assert [run.task.xcoms["return_value"]["days"] for run in found.runs] == [1, 2, 3]
    assert [run.fields["args"] for run in found.runs] == [["1"], ["2"], ["3"]]
    assert found.runs[0].at == NOW - timedelta(days=1, hours=1)
    assert found.runs[0].map_label is None


def test_what_never_was_a_training_is_no_run(add_run):
    for days, state in enumerate(("skipped", "removed", "upstream_failed", None, "failed", "queued")):
        add_run(days, state)

    assert [run.task.state for run in read_dag("mine", None, 20).runs] == ["failed", "queued"]


def test_each_instance_of_a_mapped_task_is_a_run_and_the_limit_counts_them(add_run):
    add_run(1, map_index=0, label="lr=0.1", status={"phase": "running"})
    add_run(1, map_index=1, is_new=False)
    add_run(2, map_index=0)

    found = read_dag("mine", "train", 2)

    assert [(run.key, run.map_label) for run in found.runs] == [(("run-1", 1), "1"), (("run-1", 0), "lr=0.1")]
    assert [run.task.xcoms.get("status") for run in found.runs] == [None, {"phase": "running"}]
    assert found.before.key == ("run-2", 0)


def test_of_several_tasks_the_wanted_one_is_read_and_never_one_that_is_no_training(database, add_run):
    database.version("train", "distill")
    add_run(1, task_id="train")
    add_run(1, task_id="distill", is_new=False)

    assert read_dag("mine", "train", 20).task_id == "train"
    for wanted in (None, "prepare"):
        found = read_dag("mine", wanted, 20)
        assert (found.tasks, found.task_id, len(found.runs)) == (("distill", "train"), "distill", 1)
    assert read_progress("mine", "prepare", [("run-1", -1)]) is None


def test_what_scripts_have_reported_is_read_in_the_wanted_order(add_run):
    for days in (1, 2, 3):
        add_run(days, progress={"step": days})

    found = read_progress("mine", "train", [("run-3", -1), ("run-1", -1), ("run-9", -1), ("run-1", 4)])

    assert found == [{"step": 3}, {"step": 1}, {}, {}]


def test_the_queries_do_not_grow_with_the_runs(add_run, statements):
    def asked():
        statements.clear()
        read_dag("mine", None, 100)
        return [each for each in statements if each.startswith("SELECT")]

    add_run(0, fields=RENDERED)
    few = asked()
    for days in range(1, 60):
        add_run(days, fields=RENDERED, return_value={"phase": "succeeded"}, status={}, map_index=days % 3)
    many = asked()

    assert len(read_dag("mine", None, 100).runs) == 60
    assert len(few) == len(many) == 6, many
