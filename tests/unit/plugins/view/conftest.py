"""Airflow's database and auth manager, and a client of the app."""

from __future__ import annotations

import shutil
import uuid
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
import sqlalchemy
from airflow import models, settings
from airflow.api_fastapi import app as airflow_app
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.models.xcom import XComModel
from fastapi.testclient import TestClient
from sqlalchemy.orm import sessionmaker

from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.plugins.view.app import make_app

NOW = datetime.now(timezone.utc).replace(microsecond=0)
_TASK = {"dag_id": "mine", "task_id": "train", "map_index": -1}
_POOLED = {"pool": "default_pool", "pool_slots": 1, "executor_config": {}}
RUN = "manual__2026-11-22T10:00:00+00:00"
PATH = f"/api/tasks/mine/{RUN.replace('+', '%2B')}/train/-1"
HANDLE = JobHandle(
    name="j", uid="u-1", backend="native", framework="pytorch", leader="worker-0", owner=1, location="job/ml/kube"
)


class _AuthManager(SimpleAuthManager):
    """Each user reads one DAG, and edits it where the role allows that."""

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        is_own = details is not None and details.id == "mine"
        return is_own and super().is_authorized_dag(
            method=method, user=user, access_entity=access_entity, details=details
        )


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """A database with Airflow's tables."""
    models.import_all_models()
    path = tmp_path_factory.mktemp("empty") / "airflow.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    Base.metadata.create_all(engine)
    engine.dispose()
    return path


@pytest.fixture
def database(monkeypatch, tmp_path, empty):
    """Airflow's, and functions that fill it."""
    shutil.copyfile(empty, tmp_path / "airflow.db")
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/airflow.db")
    # Airflow's own helper of either kind.
    monkeypatch.setattr(settings, "NonScopedSession", sessionmaker(engine))
    monkeypatch.setattr(settings, "Session", sessionmaker(engine))

    def add(model, **values):
        with engine.begin() as connection:
            connection.execute(sqlalchemy.insert(model.__table__).values(**values))

    def dag(dag_id="mine", owners="team-a"):
        if dag_id == "mine":
            add(DagBundleModel, name="dags")
        # Required since Airflow 3.2; not there before.
        newer = {"exceeds_max_non_backfill": False, "timetable_type": ""}
        add(
            DagModel,
            dag_id=dag_id,
            bundle_name="dags",
            owners=owners,
            is_paused=False,
            is_stale=False,
            max_active_tasks=1,
            max_consecutive_failed_dag_runs=0,
            has_task_concurrency_limits=False,
            **{name: value for name, value in newer.items() if name in DagModel.__table__.c},
        )

    def version(*trainings, dag_id="mine"):
        """A version of a DAG, later than the others."""
        id = uuid.uuid4()
        number = sum(of == dag_id for of in versions.values()) + 1
        # Airflow 3.1 takes the latest by time.
        created = NOW + timedelta(seconds=number)
        times = {"created_at": created, "last_updated": created}
        versions[id] = dag_id
        add(DagVersion, id=id, dag_id=dag_id, version_number=number, **times)
        of_version = {"dag_id": dag_id, "dag_version_id": id, **serialized(*trainings)}
        add(SerializedDagModel, id=uuid.uuid4(), **of_version, **times)
        return id

    def serialized(*trainings):
        """A DAG as Airflow keeps it: its trainings, and a task of another operator."""
        operators = [{"task_id": each, "template_fields": ["framework", "rendered_job"]} for each in trainings]
        tasks = [{"__type": "operator", "__var": each} for each in (*operators, {"task_id": "prepare"})]
        return {"data": {"dag": {"tasks": tasks}}, "dag_hash": ",".join(trainings)}

    def replace(version, *trainings):
        rows = SerializedDagModel.__table__
        of_version = rows.c.dag_version_id == version
        change(sqlalchemy.update(rows).where(of_version).values(**serialized(*trainings)))

    def rendered(fields=None, run_id=RUN):
        values = {"framework": "jax", "rendered_job": "..."} if fields is None else fields
        add(RenderedTaskInstanceFields, **_TASK, run_id=run_id, rendered_fields=values)

    versions = {}

    def latest(dag_id):
        found = [id for id, of in versions.items() if of == dag_id]
        return found[-1] if found else version("train", dag_id=dag_id)

    def task(state="running", run_id=RUN, try_number=1, max_tries=0, start=NOW, dag_id="mine", **times):
        columns = TaskInstance.__table__.c
        times.setdefault("dag_version_id", latest(dag_id))
        add(
            TaskInstance,
            id=columns.id.type.python_type(str(uuid.uuid4())),
            **{**_TASK, "dag_id": dag_id},
            run_id=run_id,
            state=state,
            try_number=try_number,
            max_tries=max_tries,
            start_date=start,
            **_POOLED,
            **times,
        )

    def xcom(key, value, run_id=RUN, dag_id="mine", at=NOW):
        add(
            XComModel,
            dag_run_id=abs(hash((dag_id, run_id))) % 10**6,
            **{**_TASK, "dag_id": dag_id},
            run_id=run_id,
            key=key,
            value=value,
            timestamp=at,
        )

    def add_run(run_id=RUN, run_after=NOW):
        add(
            DagRun,
            dag_id="mine",
            run_id=run_id,
            run_type="manual",
            run_after=run_after,
            state="success",
            clear_number=0,
            log_template_id=1,
        )

    def earlier(days, **xcoms):
        run_id, end = f"run-{days}", NOW - timedelta(days=days)
        add_run(run_id, end)
        task("success", run_id, start=end - timedelta(hours=1), end_date=end)
        for key, value in xcoms.items():
            xcom(key, value, run_id)

    def old_try(number, state):
        columns = TaskInstanceHistory.__table__.c
        add(
            TaskInstanceHistory,
            task_instance_id=columns.task_instance_id.type.python_type(str(uuid.uuid4())),
            **_TASK,
            run_id=RUN,
            try_number=number,
            state=state,
            start_date=NOW - timedelta(hours=2),
            end_date=NOW - timedelta(hours=1),
            **_POOLED,
            span_status="not_started",
        )

    def notes():
        with engine.begin() as connection:
            return connection.execute(sqlalchemy.select(Log.__table__)).all()

    def change(statement):
        with engine.begin() as connection:
            connection.execute(statement)

    made = {
        "add": add,
        "dag": dag,
        "version": version,
        "replace": replace,
        "rendered": rendered,
        "latest": latest,
        "task": task,
        "xcom": xcom,
        "earlier": earlier,
        "add_run": add_run,
        "old_try": old_try,
    }
    return SimpleNamespace(**made, notes=notes, change=change, engine=engine)


@pytest.fixture
def manager(monkeypatch):
    """Airflow's auth manager."""
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "a secret of this test " * 3)
    monkeypatch.setattr(airflow_app, "get_auth_manager_cls", lambda: _AuthManager)
    airflow_app.create_auth_manager()
    yield airflow_app.get_auth_manager()
    airflow_app.purge_cached_app()


@pytest.fixture
def client(database, manager, tmp_path):
    """Makes clients: of a user with a role, or of none."""
    folder = tmp_path / "static"
    (folder / "task").mkdir(parents=True)
    for page in ("task.html", "dag.html"):
        (folder / page).write_text('<head><meta content="__TRAINER_BASE__"><script src="static/task/main.js"></script>')
    (folder / "jobs.html").write_text("jobs")
    (folder / "task" / "main.js").write_text("start()")
    (folder / "secret.key").write_text("not of a page")
    app = make_app(folder)

    def make(role=None, root_path=""):
        headers = {}
        if role:
            token = manager.generate_jwt(SimpleAuthManagerUser(username=f"a-{role}", role=role))
            headers["Authorization"] = f"Bearer {token}"
        return TestClient(app, headers=headers, root_path=root_path, raise_server_exceptions=False)

    make.app = app
    return make
