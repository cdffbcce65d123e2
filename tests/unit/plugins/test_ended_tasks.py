"""The listener: whose task it was is read in the database, and only the jobs of ours are ended, where they are."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import sqlalchemy
from airflow import models, settings
from airflow.exceptions import AirflowNotFoundException
from airflow.models.dag_version import DagVersion
from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import sessionmaker

import airflow_trainer_provider as provider
from airflow_trainer_provider.errors import ApiError, BackendUnavailable, ConnectionUnreadable, Problem, SpecError
from airflow_trainer_provider.hooks.backends import JobPlace
from airflow_trainer_provider.hooks.loop import run
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.plugins import ended_tasks, endings, traces
from airflow_trainer_provider.plugins.requests import EndedTask
from tests.airflow_version import AIRFLOW_V_3_3

if AIRFLOW_V_3_3:
    from airflow.models.task_state_store import TaskStateStoreModel

HANDLE = JobHandle(
    name="j", uid="u", backend="native", framework="jax", leader="worker-0", owner=1, location="native/ml/kube"
)
VALUE = HANDLE.to_xcom()
FIELDS = {"framework": "jax", "backend": None, "kubernetes_conn_id": "kube", "namespace": "ml", "rendered_job": "..."}


@pytest.fixture
def database(monkeypatch, tmp_path):
    """Airflow's, with the tables that are read, and functions that fill them."""
    models.import_all_models()  # what the tables refer to
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/airflow.db")
    tables = (XComModel, RenderedTaskInstanceFields, TaskInstance, SerializedDagModel, DagVersion, DagRun)
    for model in (*tables, *([TaskStateStoreModel] if AIRFLOW_V_3_3 else ())):
        model.__table__.create(engine)
    monkeypatch.setattr(settings, "NonScopedSession", sessionmaker(engine))
    # Endings of an earlier test have nothing to do with this one.
    monkeypatch.setattr(endings, "_endings", [])

    def add(model, **values):
        with engine.begin() as connection:
            connection.execute(sqlalchemy.insert(model.__table__).values(**values))

    def add_of_task(model, task_id, map_index=-1, run_id="r", **values):
        add(model, dag_id="d", run_id=run_id, task_id=task_id, map_index=map_index, **values)

    def task(task_id, state, map_index=-1, try_number=2):
        add_of_task(
            TaskInstance,
            task_id,
            map_index,
            id=TaskInstance.__table__.c.id.type.python_type(str(uuid.uuid4())),
            state=state,
            try_number=try_number,
            pool="default_pool",
            pool_slots=1,
            executor_config={},
        )

    def dag(*tasks):
        data = {"dag": {"tasks": [{"__type": "operator", "__var": task} for task in tasks]}}
        times, version = {"created_at": _NOW, "last_updated": _NOW}, uuid.uuid4()
        add(DagVersion, id=version, dag_id="d", version_number=1, **times)
        add(SerializedDagModel, id=uuid.uuid4(), dag_id="d", dag_hash="h", dag_version_id=version, data=data, **times)

    def dag_run(state):
        values = {
            "clear_number": 0,
            "log_template_id": 1,
            "run_type": "manual",
            "run_after": _NOW,
            "created_at": _NOW,
            "updated_at": _NOW,
        }
        with sqlalchemy.Connection(engine) as connection:
            columns = {column.name for column in DagRun.__table__.columns}
            wanted = {name: value for name, value in values.items() if name in columns}
            connection.execute(sqlalchemy.delete(DagRun.__table__))
            connection.execute(
                sqlalchemy.insert(DagRun.__table__).values(id=1, dag_id="d", run_id="r", state=state, **wanted)
            )
            connection.commit()

    yield SimpleNamespace(
        run=dag_run,
        handle=lambda task_id, value=VALUE, **where: add_of_task(
            XComModel, task_id, key="job", value=value, dag_run_id=1, **where
        ),
        returned=lambda task_id, **where: add_of_task(
            XComModel, task_id, key="return_value", value={}, dag_run_id=1, **where
        ),
        fields=lambda task_id, values=FIELDS, **where: add_of_task(
            RenderedTaskInstanceFields, task_id, rendered_fields=values, **where
        ),
        noted=lambda task_id, text: add_of_task(
            TaskStateStoreModel, task_id, key="trainer_place", value=text, dag_run_id=1, updated_at=_NOW
        ),
        task=task,
        dag=dag,
    )
    settled()
    engine.dispose()


_NOW = sqlalchemy.func.now()
#: Seconds until what happens in the background has happened, on a machine that stalls.
TIMEOUT = 60
#: The loop's own has fewer threads than endings that wait at once here.
_THREADS = ThreadPoolExecutor(64)


async def until(event):
    await asyncio.get_running_loop().run_in_executor(_THREADS, event.wait)


def wait_until(reached):
    deadline = time.monotonic() + TIMEOUT
    while not reached():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)


def settled():
    """Wait until all requests have been worked on."""
    deadline = time.monotonic() + TIMEOUT
    while any(each._is_working or each._under_way for each in endings._endings):
        assert time.monotonic() < deadline, "requests are still being worked on"
        time.sleep(0.01)


@pytest.fixture
def ended(monkeypatch):
    """Whose jobs were ended, where they were looked for, and whether released ones were spared."""
    ended = []

    async def cancel_task(self, identity, reason, handle=None, *, spare_released=False):
        place = (self._name, self._kubernetes_conn_id, self._namespace)
        ended.append((identity.task_id, identity.map_index, identity.try_number, handle or place, spare_released))

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)

    def found():
        settled()
        return ended

    return found


def _row(task_id, map_index=-1, state="failed"):
    return SimpleNamespace(dag_id="d", run_id="r", task_id=task_id, map_index=map_index, try_number=2, state=state)


def test_the_handle_in_xcom_says_where_the_job_is(database, ended):
    database.handle("train")
    database.fields("train")

    ended_tasks.on_task_instance_failed("running", _row("train"))

    assert ended() == [("train", -1, 2, HANDLE, False)]


def test_the_templates_say_where_a_job_would_be_whose_handle_was_not_pushed(database, ended):
    database.fields("train")

    ended_tasks.on_task_instance_failed(None, _row("train"))

    assert ended() == [("train", -1, 2, (None, "kube", "ml"), False)]


NOTED = JobPlace("trainer", "another", "theirs")
with_store = pytest.mark.skipif(not AIRFLOW_V_3_3, reason="Airflow keeps a task's state from 3.3 on")


@with_store
@pytest.mark.parametrize("fields", [FIELDS, {**FIELDS, "namespace": "refused/"}])
def test_the_place_that_the_task_has_noted_counts_whatever_its_last_try_was_given(database, ended, fields):
    database.fields("train", fields)
    database.noted("train", json.dumps(NOTED._asdict()))

    ended_tasks.on_task_instance_failed("running", _row("train"))

    assert ended() == [("train", -1, 2, tuple(NOTED), False)]


@with_store
@pytest.mark.parametrize("is_edited", [lambda handle: handle is not None, lambda handle: handle is None])
def test_neither_an_edited_handle_nor_an_edited_place_hides_the_job_that_the_other_one_names(
    database, monkeypatch, is_edited
):
    ended = []

    async def cancel_task(self, identity, reason, handle=None, **_):
        if is_edited(handle):
            raise SpecError([Problem("job.backend", "nonsense", "a backend", "Pass a handle.")])
        ended.append(handle or (self._name, self._kubernetes_conn_id, self._namespace))

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    database.handle("train")
    database.fields("train")
    database.noted("train", json.dumps(NOTED._asdict()))

    ended_tasks.on_task_instance_failed("running", _row("train"))
    settled()

    assert ended == ([NOTED] if is_edited(HANDLE) else [HANDLE])


@with_store
def test_a_noted_place_counts_only_where_our_operator_has_noted_it(database, ended):
    database.dag(
        {"task_id": "train", "template_fields": ["framework", "rendered_job"]},
        {"task_id": "theirs", "template_fields": ["bash_command"]},
    )
    for task_id in ("train", "theirs"):  # whose rendered fields Airflow has dropped
        database.noted(task_id, json.dumps(NOTED._asdict()))
        ended_tasks.on_task_instance_failed(None, _row(task_id))

    assert ended() == [("train", -1, 2, tuple(NOTED), False)]


@with_store
@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "7", '{"backend": "native"}'),
        *(
            json.dumps({**NOTED._asdict(), **wrong})
            for wrong in ({"backend": 7}, {"namespace": "a/b"}, {"backend": None})
        ),
    ],
)
def test_what_is_no_place_in_the_tasks_state_is_ignored(database, ended, text):
    database.fields("train")
    database.noted("train", text)

    ended_tasks.on_task_instance_failed(None, _row("train"))

    assert ended() == [("train", -1, 2, (None, "kube", "ml"), False)]


@pytest.mark.parametrize(
    "listen",
    [
        ended_tasks.on_task_instance_failed,
        ended_tasks.on_task_instance_success,
        ended_tasks.on_task_instance_skipped,
    ],
)
def test_a_task_that_is_marked_has_no_job_afterwards(database, ended, listen):
    database.handle("train")
    database.fields("train")

    listen(None, _row("train", state="whatever"))

    assert len(ended()) == 1


@pytest.mark.parametrize(
    ("listen", "reason"),
    [
        (ended_tasks.on_task_instance_failed, "the task has failed, or was marked failed"),
        (ended_tasks.on_task_instance_success, "the task was marked success"),
        (
            ended_tasks.on_task_instance_skipped,
            "the task was skipped, by hand or as the time of its run was over (dagrun_timeout)",
        ),
    ],
)
def test_the_job_of_a_task_that_is_marked_says_why_it_has_ended(database, monkeypatch, listen, reason):
    reasons = []

    async def cancel_task(self, identity, reason, *_, **__):
        reasons.append(reason)

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    database.fields("train")
    listen(None, _row("train", state="whatever"))
    settled()

    assert reasons == [reason]


@pytest.mark.parametrize("value", ["a path in a bucket", {"name": "theirs"}, None, 7])
def test_tasks_of_other_operators_are_left_alone(database, ended, value):
    database.handle("load", value)
    theirs = {name: text for name, text in FIELDS.items() if name != "rendered_job"}
    theirs |= {"bash_command": "echo rendered_job", "queue": "rendered_job", "env": {"rendered_job": "x"}}
    database.fields("load", theirs)
    database.handle("train", run_id="another")
    database.fields("train", run_id="another")

    ended_tasks.on_task_instance_failed("running", _row("load"))
    ended_tasks.on_task_instance_success(None, _row("load"))
    ended_tasks.on_task_instance_failed("running", _row("train"))

    assert ended() == []


def test_a_handle_counts_only_where_our_operator_has_pushed_it(database, ended):
    """Any task may push a mapping that looks like a handle, and with it name any connection."""
    database.dag(
        {"task_id": "train", "template_fields": ["framework", "rendered_job"]},
        {"task_id": "theirs", "template_fields": ["bash_command"]},
    )
    database.handle("theirs")
    database.handle("train")  # whose rendered fields Airflow has dropped

    ended_tasks.on_task_instance_failed(None, _row("theirs"))
    ended_tasks.on_task_instance_failed(None, _row("train"))

    assert ended() == [("train", -1, 2, HANDLE, False)]


def test_what_goes_on_by_itself_is_left_alone(database, ended):
    database.handle("train")
    database.fields("train")

    ended_tasks.on_task_instance_failed("running", _row("train", state="up_for_retry"))
    ended_tasks.on_task_instance_success("running", _row("train", state="success"))
    ended_tasks.on_task_instance_skipped("running", _row("train", state="skipped"))

    assert ended() == []


class _Detached:
    """A run whose session is closed: reading any other attribute would raise."""

    dag_id = "d"
    run_id = "r"


@pytest.mark.parametrize("listen", [ended_tasks.on_dag_run_failed, ended_tasks.on_dag_run_success])
def test_the_end_of_a_run_ends_what_its_tasks_have_neither_finished_nor_released(database, ended, listen):
    states = ["failed", "skipped", "up_for_retry", "success", "success"]
    for index, state in enumerate(states):
        database.task("train", state, index)
        database.handle("train", map_index=index)
        database.fields("train", map_index=index)
    database.returned("train", map_index=3)
    database.task("load", "failed")
    database.run("success")

    listen(_Detached())

    # Whether the last one was marked, or has released its job and pushes no value, the job itself shows.
    assert sorted((each[1], each[4]) for each in ended()) == [(0, False), (1, False), (2, False), (4, True)]


@pytest.mark.parametrize(("of_run", "state"), [(True, "running"), (False, "running"), (False, "failed")])
def test_a_task_that_was_cleared_meanwhile_keeps_the_job_of_its_next_try(database, ended, monkeypatch, of_run, state):
    monkeypatch.setattr(endings, "_COMMIT_SECONDS", 0.1)
    database.handle("train")
    database.fields("train")
    database.task("train", state, try_number=3)
    database.run("running")

    if of_run:
        ended_tasks.on_dag_run_failed(_Detached())
    else:
        ended_tasks.on_task_instance_failed(None, _row("train"))

    assert ended() == []


def test_a_job_is_ended_once_the_end_of_its_run_is_committed(database, ended, monkeypatch):
    database.handle("train")
    database.fields("train")
    database.task("train", "failed")
    database.run("running")
    is_due, reads = traces.Ending.is_due, []

    def read(self):
        reads.append(is_due(self))
        if len(reads) == 2:
            database.run("failed")
        return reads[-1]

    monkeypatch.setattr(traces.Ending, "is_due", read)

    ended_tasks.on_dag_run_failed(_Detached())

    assert ended() == [("train", -1, 2, HANDLE, False)]
    assert reads == [False, False, True]


def test_a_cluster_that_does_not_answer_keeps_no_other_waiting(database, monkeypatch):
    answers, served = threading.Event(), []

    async def cancel_task(self, identity, *_, **__):
        if self._kubernetes_conn_id == "dead":
            await until(answers)
        served.append(self._kubernetes_conn_id)

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    for index in range(40):
        database.fields("train", FIELDS | {"kubernetes_conn_id": "alive" if index == 39 else "dead"}, map_index=index)
    for index in range(40):
        ended_tasks.on_task_instance_failed(None, _row("train", index))

    # Whatever is found: threads that wait keep the process from ending.
    try:
        wait_until(lambda: served)
        assert served == ["alive"]
    finally:
        answers.set()


def test_the_listener_returns_at_once_while_nothing_answers(database, monkeypatch):
    answers = threading.Event()

    async def cancel_task(self, *_, **__):
        await until(answers)

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    for index in range(100):
        database.handle("train", map_index=index)
        database.fields("train", map_index=index)

    took = []
    for index in range(100):
        before = time.monotonic()
        ended_tasks.on_task_instance_failed("running", _row("train", index))
        took.append(time.monotonic() - before)
    answers.set()

    # A busy machine may stall a few of them.
    assert sorted(took)[90] < 0.5
    assert max(took) < 60


def test_the_number_of_endings_at_a_time_and_of_those_that_wait_is_bounded(database, monkeypatch, caplog):
    monkeypatch.setattr(endings, "_MOST_WAITING", 40)
    answers, now, most = threading.Event(), [0], [0]

    async def cancel_task(self, *_, **__):
        now[0] += 1
        most[0] = max(most[0], now[0])
        await until(answers)
        now[0] -= 1

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    for index in range(200):
        database.fields("train", map_index=index)
    for index in range(200):
        ended_tasks.on_task_instance_failed("running", _row("train", index))
    try:
        wait_until(lambda: most[0] >= endings._ENDED_AT_ONCE)
        # Long enough for more of them, were there no bound.
        time.sleep(0.5)
    finally:
        answers.set()
    settled()

    assert most[0] == endings._ENDED_AT_ONCE
    assert "Too many tasks have ended at the same time" in caplog.text


@pytest.fixture
def stuck(monkeypatch):
    """A cluster that does not answer until the event is set; with how many tasks' jobs it was asked to end."""
    answers, begun = threading.Event(), []

    async def cancel_task(self, identity, *_, **__):
        begun.append(identity.map_index)
        await until(answers)

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    yield SimpleNamespace(answers=answers, begun=begun)
    answers.set()


def test_a_cluster_for_which_too_many_wait_takes_no_more_and_another_does(database, stuck, monkeypatch, caplog):
    monkeypatch.setattr(endings, "_endings", [])
    monkeypatch.setattr(endings, "_ENDED_AT_ONCE", 1)
    monkeypatch.setattr(endings, "_MOST_WAITING", 3)
    for index in range(5):
        database.task("train", "failed", index)
        database.fields("train", FIELDS | {"kubernetes_conn_id": "other" if index == 4 else "kube"}, map_index=index)
    database.run("failed")

    ended_tasks.on_dag_run_failed(_Detached())
    wait_until(lambda: len(stuck.begun) == 2)
    stuck.answers.set()
    settled()

    assert sorted(stuck.begun) in ([0, 1, 2, 4], [0, 1, 3, 4], [0, 2, 3, 4], [1, 2, 3, 4])
    assert caplog.text.count("Too many tasks of one cluster have ended at the same time") == 1
    database.fields("train")
    ended_tasks.on_task_instance_failed("running", _row("train"))
    settled()
    assert len(stuck.begun) == 5


def test_an_end_that_takes_too_long_lets_others_have_their_turn_and_is_tried_again(database, monkeypatch, caplog):
    monkeypatch.setattr(endings, "_endings", [])
    for name, value in (("_ENDED_AT_ONCE", 1), ("_ATTEMPT_SECONDS", 0.2), ("_AGAIN_SECONDS", 0.01)):
        monkeypatch.setattr(endings, name, value)
    attempts = []

    async def cancel_task(self, identity, *_, **__):
        attempts.append(identity.map_index)
        if attempts == [0]:
            await asyncio.sleep(60)

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    for index in range(2):
        database.fields("train", map_index=index)
        ended_tasks.on_task_instance_failed("running", _row("train", index))
    settled()

    assert attempts == [0, 1, 0]
    assert "are still to be ended, after 0 s" in caplog.text


def test_an_end_is_given_up_at_last(database, stuck, monkeypatch, caplog):
    monkeypatch.setattr(endings, "_MOST_SECONDS", 0.2)
    database.fields("train")

    ended_tasks.on_task_instance_failed("running", _row("train"))
    wait_until(lambda: "were not ended within 0 s" in caplog.text)


def test_what_the_cluster_does_not_take_is_tried_again_and_what_is_hopeless_is_not(database, monkeypatch, caplog):
    monkeypatch.setattr(endings, "_AGAIN_SECONDS", 0.01)
    tries = {"flaky": 0, "hopeless": 0}

    async def cancel_task(self, identity, *_, **__):
        tries[identity.task_id] += 1
        if identity.task_id == "hopeless":
            raise BackendUnavailable("there is no such connection")
        if tries["flaky"] < 3:
            raise ApiError("away")

    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    for name in tries:
        database.fields(name)
        ended_tasks.on_task_instance_failed("running", _row(name))
    settled()

    assert tries == {"flaky": 3, "hopeless": 1}
    assert "task hopeless (map index -1) in run r of DAG d could not be ended: there is no such" in caplog.text


def test_a_database_that_does_not_answer_for_a_moment_is_asked_again(database, ended, monkeypatch):
    database.fields("train")
    asked, endings_of = [], traces.endings_of

    def flaky(batch):
        asked.append(batch)
        if len(asked) == 1:
            raise sqlalchemy.exc.OperationalError("select", {}, Exception("database is locked"))
        return endings_of(batch)

    monkeypatch.setattr(traces, "endings_of", flaky)

    ended_tasks.on_task_instance_failed("running", _row("train"))

    assert len(ended()) == 1


def test_a_connection_is_read_without_a_supervisor(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_KUBE", '{"conn_type": "kubernetes", "extra": {"namespace": "ml"}}')

    connection = run(traces.read_connection("kube"))

    assert (connection.id, connection.namespace) == ("kube", "ml")


def test_a_connection_that_a_failed_secrets_backend_hides_counts_as_unreadable(monkeypatch):
    def get(conn_id):
        raise AirflowNotFoundException("no")

    monkeypatch.setattr(models.Connection, "get_connection_from_secrets", get)

    with pytest.raises(ConnectionUnreadable):
        run(traces.read_connection("kube"))


def test_a_forked_process_has_requests_of_its_own(database, ended, monkeypatch):
    database.fields("train")
    ended_tasks.on_task_instance_failed(None, _row("train"))
    assert len(ended()) == 1
    # As a fork finds them: the parent's thread was in the middle of them.
    inherited = endings._endings.pop()
    inherited.pid, inherited._is_working = 0, True
    monkeypatch.setattr(endings, "_endings", [inherited])

    ended_tasks.on_task_instance_failed(None, _row("train"))

    assert endings._endings.pop(0) is inherited
    assert len(ended()) == 2


@pytest.mark.parametrize("error", [AirflowNotFoundException("no"), sqlalchemy.exc.OperationalError("select", {}, None)])
def test_a_connection_that_cannot_be_read_is_read_again(database, monkeypatch, error):
    monkeypatch.setattr(endings, "_AGAIN_SECONDS", 0.01)
    reads, ended = [], []

    def get(conn_id):
        reads.append(conn_id)
        if len(reads) < 3:
            raise error
        return models.Connection(conn_id, "kubernetes")

    async def cancel_task(self, *_, **__):
        ended.append(await self._read_connection("kube"))

    monkeypatch.setattr(models.Connection, "get_connection_from_secrets", get)
    monkeypatch.setattr(TrainerHook, "cancel_task", cancel_task)
    database.fields("train")
    ended_tasks.on_task_instance_failed(None, _row("train"))
    settled()

    assert (len(reads), len(ended)) == (3, 1)


@pytest.mark.parametrize("wrong", [{"namespace": "a/b"}, {"backend": "trianer"}, {"kubernetes_conn_id": ["x"]}])
def test_a_task_whose_fields_were_refused_has_nothing_to_end(wrong):
    fields = {"backend": "native", "kubernetes_conn_id": "kube", "namespace": "ml", **wrong}
    task = EndedTask("d", "r", "train", -1, 1, "the run failed")

    run(traces.Ending(task, fields=fields).end_jobs())


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
    context: object = None

    def get_template_context(self):
        if self.context is None:
            raise ValueError("the parameters of the run are invalid")
        return self.context


@pytest.mark.parametrize("handle", [HANDLE, None])
def test_a_worker_ends_what_its_operator_submitted_or_may_have(ended, handle):
    with DAG("d", schedule=None):
        operator = provider.JAXJobOperator(task_id="train", backend="native", namespace="ml")
    operator.handle = handle

    ended_tasks.on_task_instance_failed("running", _Message(task=operator))

    assert ended() == [("train", -1, 2, handle or ("native", "kubernetes_default", "ml"), False)]


def test_a_worker_ends_what_an_earlier_try_has_submitted_though_the_fields_of_this_one_were_never_rendered(ended):
    with DAG("d", schedule=None):
        operator = provider.JAXJobOperator(task_id="train", backend="native", namespace="{{ nothing }}")
    context = {"task_state_store": SimpleNamespace(get={"trainer_place": NOTED._asdict()}.get)}

    ended_tasks.on_task_instance_failed("running", _Message(task=operator, context=context))

    assert ended() == [("train", -1, 2, tuple(NOTED), False)]


def test_a_worker_has_nothing_to_end_for_others_or_for_what_was_refused(ended):
    with DAG("d", schedule=None):
        operator = provider.JAXJobOperator(task_id="train")
    operator.may_have_job = False

    for task in (operator, SimpleNamespace(may_have_job=True)):
        ended_tasks.on_task_instance_failed("running", _Message(task=task))

    assert ended() == []
