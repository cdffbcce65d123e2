"""What is read of a task instance, and with how many queries."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest
import sqlalchemy
from airflow import settings
from airflow.jobs.job import Job
from airflow.models.trigger import Trigger

from airflow_trainer_provider.plugins import declared
from airflow_trainer_provider.plugins.view import database as module
from airflow_trainer_provider.plugins.view.database import USUAL_RUNS, TaskKey, read_task
from tests.unit.plugins.view.conftest import HANDLE, NOW, RUN

KEY = TaskKey("mine", RUN, "train", -1)


@pytest.fixture
def statements(database):
    """What the database was asked."""
    found = []
    sqlalchemy.event.listen(database.engine, "before_cursor_execute", lambda *call: found.append(call[2]), named=False)
    return found


def test_a_task_instance_that_is_not_there_is_none(database):
    assert read_task(KEY) is None


def test_what_a_running_task_has_left_is_read(database):
    seen = NOW - timedelta(seconds=4)
    database.task("running", try_number=2, max_tries=3, last_heartbeat_at=seen)
    database.old_try(1, "failed")
    database.xcom("job", HANDLE.to_xcom())
    database.xcom("request", json.dumps({"gpus": 4}))
    database.xcom("else", {"not": "read"})

    records = read_task(KEY)

    assert (records.is_training, records.state, records.try_number, records.max_tries) == (True, "running", 2, 3)
    assert [(each.number, each.state) for each in records.tries] == [(1, "failed"), (2, "running")]
    assert records.xcoms == {"job": HANDLE.to_xcom(), "request": {"gpus": 4}}
    assert (records.waiter, records.waiter_seen_at) == ("worker", seen)


def test_of_the_task_of_a_function_the_summary_is_read_and_not_the_value(database, monkeypatch):
    read = []
    monkeypatch.setattr(module, "_value", lambda value: read.append(value) or value)
    summary = {"phase": "succeeded", "run_seconds": 60.0}
    database.task("success")
    database.xcom("return_value", {"phase": "of the moon"})
    database.xcom("summary", summary)
    database.earlier(1, return_value=[1, 2], summary=summary)

    records = read_task(KEY, earlier=1)

    assert records.xcoms["return_value"] == summary
    assert records.earlier[0].xcoms["return_value"] == summary
    assert read == [summary, summary]


def test_of_a_deferred_task_the_triggerer_reports(database):
    seen = NOW - timedelta(seconds=9)
    database.add(Job, id=7, job_type="TriggererJob", state="running", latest_heartbeat=seen)
    database.add(Trigger, id=3, classpath="a.B", kwargs="{}", created_date=NOW, triggerer_id=7)
    database.task("deferred", trigger_id=3)

    records = read_task(KEY)

    assert (records.waiter, records.waiter_seen_at) == ("triggerer", seen)


def test_without_a_triggerer_nothing_has_reported_since_the_trigger_was_created(database):
    created = NOW - timedelta(minutes=9)
    database.add(Trigger, id=3, classpath="a.B", kwargs="{}", created_date=created, triggerer_id=None)
    database.task("deferred", trigger_id=3)

    assert read_task(KEY).waiter_seen_at == created


def test_the_last_five_successes_are_read_the_latest_first_and_its_curves_alone(database):
    for days in (3, 1, 2, 4, 5, 6):
        returned = {"phase": "succeeded", "run_seconds": 60.0 * days}
        database.earlier(days, return_value=returned, progress={"step": days}, job={"name": "old"})
    database.task()

    earlier = read_task(KEY, USUAL_RUNS).earlier

    assert [run.run_id for run in earlier] == ["run-1", "run-2", "run-3", "run-4", "run-5"]
    assert [sorted(run.xcoms) for run in earlier] == [["progress", "return_value"], *4 * [["return_value"]]]


def test_a_later_run_is_no_earlier_one(database):
    database.earlier(1)
    database.task(start=NOW - timedelta(days=2))

    assert read_task(KEY, USUAL_RUNS).earlier == ()


def test_the_queries_do_not_grow_with_what_is_read(database, statements):
    database.task()
    database.rendered()
    database.xcom("request", {})
    read_task(KEY, USUAL_RUNS)
    for days in range(1, 6):
        database.earlier(days, return_value={"phase": "succeeded"})
    for number in range(2, 5):
        database.old_try(number - 2, "failed")
    statements.clear()

    read_task(KEY, USUAL_RUNS)

    asked = [each for each in statements if each.startswith("SELECT")]
    assert len(asked) == 6, asked


def test_as_many_earlier_runs_are_read_as_are_shown(database, statements):
    database.task()
    database.xcom("request", {})
    database.rendered()
    for days in (1, 2):
        database.earlier(days)
    statements.clear()

    assert read_task(KEY).earlier == ()
    assert len([each for each in statements if each.startswith("SELECT")]) == 4
    assert [run.run_id for run in read_task(KEY, 1).earlier] == ["run-1"]


def test_what_a_task_of_another_operator_has_pushed_is_not_believed(database):
    database.task(dag_version_id=database.version())
    database.xcom("job", HANDLE.to_xcom())
    database.xcom("request", {"gpus": 4})

    records = read_task(KEY)

    assert (records.is_training, records.xcoms) == (False, {})


def test_the_version_of_the_dag_that_ran_says_which_operator_the_task_had(database):
    database.task(dag_version_id=database.version("train"))
    database.xcom("request", {"gpus": 4})
    database.version()

    assert read_task(KEY).xcoms == {"request": {"gpus": 4}}


@pytest.mark.parametrize("version", [None, uuid.UUID(int=7)])
def test_where_airflow_has_no_version_of_the_run_the_latest_one_says_it(database, version):
    database.task(dag_version_id=version)
    database.version("train")
    assert read_task(KEY).is_training

    database.version()

    assert not read_task(KEY).is_training


def test_what_ran_is_a_training_in_whichever_version_of_the_dag_it_is_now(database):
    """Airflow moves a task that waits to a new version of the DAG, which may not have it any more."""
    database.task("deferred", dag_version_id=database.version())
    database.rendered()
    database.xcom("request", {"gpus": 4})

    assert read_task(KEY).xcoms == {"request": {"gpus": 4}}


def test_what_another_operator_has_rendered_makes_no_training(database):
    database.task(dag_version_id=database.version())
    database.rendered({"bash_command": "rendered_job"})

    assert not read_task(KEY).is_training


def test_a_version_that_airflow_has_replaced_is_read_again(database):
    version = database.version()
    database.task(dag_version_id=version)
    assert not read_task(KEY).is_training

    database.replace(version, "train")

    assert read_task(KEY).is_training


def test_of_versions_only_so_many_are_remembered(database, monkeypatch, statements):
    monkeypatch.setattr(declared, "_known", {})
    monkeypatch.setattr(declared, "_MOST", 2)
    versions = [database.version("train") for _ in range(3)]

    with settings.Session() as session:
        for _ in range(2):
            found = declared.declared_in(session, [("mine", version) for version in versions])

    assert set(found.values()) == {frozenset({"train"})}
    assert len(declared._known) <= 2


def test_versions_are_read_together_and_once(database, monkeypatch, statements):
    monkeypatch.setattr(declared, "_known", {})
    versions = [("mine", database.version("train")) for _ in range(60)]
    counts = []

    with settings.Session() as session:
        for _ in range(2):
            statements.clear()
            declared.declared_in(session, versions)
            counts.append(len(statements))

    assert counts == [2, 1]
