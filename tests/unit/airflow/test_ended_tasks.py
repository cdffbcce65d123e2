"""The listener: whose task it was is read in the database, and only the jobs of ours are ended, where they are."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest
import sqlalchemy
from airflow import models, settings
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import StaticPool

import airflow_trainer_provider as provider
from airflow_trainer_provider.hooks.loop import run
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.plugins import ended_tasks, traces

HANDLE = JobHandle(
    name="j", uid="u", backend="native", framework="jax", leader="worker-0", owner=1, location="native/ml/kube"
)
VALUE = HANDLE.to_xcom()
FIELDS = {"framework": "jax", "backend": None, "kubernetes_conn_id": "kube", "namespace": "ml", "rendered_job": "..."}


@pytest.fixture
def database(monkeypatch):
    """Airflow's, with the two tables that are read; a function that fills them."""
    models.import_all_models()  # what the tables refer to
    engine = sqlalchemy.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    for model in (XComModel, RenderedTaskInstanceFields):
        model.__table__.create(engine)
    session = sessionmaker(engine)
    monkeypatch.setattr(settings, "NonScopedSession", session)

    def add(model, task_id, map_index=-1, run_id="r", **values):
        key = {"dag_id": "d", "run_id": run_id, "task_id": task_id, "map_index": map_index}
        with engine.begin() as connection:
            connection.execute(sqlalchemy.insert(model.__table__).values(**key, **values))

    database = SimpleNamespace(
        handle=lambda task_id, value=VALUE, **where: add(
            XComModel, task_id, key="job", value=value, dag_run_id=1, **where
        ),
        fields=lambda task_id, values=FIELDS, **where: add(
            RenderedTaskInstanceFields, task_id, rendered_fields=values, **where
        ),
    )
    yield database
    engine.dispose()


@pytest.fixture
def ended(monkeypatch):
    """Whose jobs were ended, and where they were looked for."""
    ended = []

    async def cancel_task(self, identity, reason, handle=None):
        place = (self._name, self._kubernetes_conn_id, self._namespace)
        ended.append((identity.task_id, identity.map_index, identity.try_number, handle or place))

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    return ended


def _row(task_id, map_index=-1, state="failed"):
    return SimpleNamespace(dag_id="d", run_id="r", task_id=task_id, map_index=map_index, try_number=2, state=state)


def test_the_handle_in_xcom_says_where_the_job_is(database, ended):
    database.handle("train")
    database.fields("train")

    ended_tasks.on_task_instance_failed("running", _row("train"))

    assert ended == [("train", -1, 2, HANDLE)]


def test_the_templates_say_where_a_job_would_be_that_nobody_could_tell_of(database, ended):
    database.fields("train")

    ended_tasks.on_task_instance_failed(None, _row("train"))

    assert ended == [("train", -1, 2, (None, "kube", "ml"))]


@pytest.mark.parametrize("value", ["a path in a bucket", {"name": "theirs"}, None, 7])
def test_tasks_of_others_are_left_alone(database, ended, value):
    database.handle("load", value)
    database.fields("load", {"bash_command": "echo rendered_job"})
    database.handle("train", run_id="another")

    ended_tasks.on_task_instance_failed("running", _row("load"))
    ended_tasks.on_task_instance_success(None, _row("load"))
    ended_tasks.on_task_instance_failed("running", _row("train"))

    assert ended == []


def test_what_goes_on_by_itself_is_left_alone(database, ended):
    database.handle("train")

    ended_tasks.on_task_instance_failed("running", _row("train", state="up_for_retry"))
    ended_tasks.on_task_instance_success("running", _row("train", state="success"))

    assert ended == []


def test_a_failed_run_ends_what_its_tasks_have_not_handed_over(database, ended):
    for index in (0, 1, 2):
        database.handle("train", map_index=index)
    tis = [_row("train", 0), _row("train", 1, "success"), _row("train", 2, "skipped"), _row("load")]

    ended_tasks.on_dag_run_failed(SimpleNamespace(dag_id="d", run_id="r", task_instances=tis))

    assert sorted(entry[1] for entry in ended) == [0, 2]


def test_a_cluster_that_does_not_answer_keeps_nobody_for_long(database, monkeypatch):
    async def cancel_task(self, *_):
        await asyncio.Event().wait()

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    monkeypatch.setattr(ended_tasks, "_END_SECONDS", 0.05)
    for index in range(20):
        database.handle("train", map_index=index)
    dag_run = SimpleNamespace(dag_id="d", run_id="r", task_instances=[_row("train", index) for index in range(20)])

    before = time.monotonic()
    ended_tasks.on_dag_run_failed(dag_run)

    assert time.monotonic() - before < 1


def test_a_connection_is_read_without_a_supervisor(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_KUBE", '{"conn_type": "kubernetes", "extra": {"namespace": "ml"}}')

    connection = run(traces._read_connection("kube"))

    assert (connection.id, connection.namespace) == ("kube", "ml")


class _Message(BaseModel):
    """What a worker has in hand."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    dag_id: str = "d"
    run_id: str = "r"
    task_id: str = "train"
    map_index: int = -1
    try_number: int = 2
    state: str = "failed"
    task: object


@pytest.mark.parametrize("handle", [HANDLE, None])
def test_a_worker_ends_what_its_operator_submitted_or_may_have(ended, handle):
    with DAG("d", schedule=None):
        operator = provider.JAXJobOperator(task_id="train", backend="native", namespace="ml")
    operator.may_have_job, operator.handle = True, handle

    ended_tasks.on_task_instance_failed("running", _Message(task=operator))

    assert ended == [("train", -1, 2, handle or ("native", "kubernetes_default", "ml"))]


def test_a_worker_has_nothing_to_end_for_others_or_for_what_was_refused(ended):
    with DAG("d", schedule=None):
        operator = provider.JAXJobOperator(task_id="train")

    for task in (operator, SimpleNamespace(may_have_job=True)):
        ended_tasks.on_task_instance_failed("running", _Message(task=task))

    assert ended == []
