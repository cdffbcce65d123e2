"""The list of jobs holds what its viewer may read and has asked for."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel

from airflow_trainer_provider.plugins.view.jobs import index, routes
from tests.unit.plugins.view.conftest import HANDLE, NOW

REQUEST = {"framework": "pytorch", "backend": "native", "namespace": "ml", "queue": "q", "nodes": 2, "gpus": 4}


@pytest.fixture(autouse=True)
def _always_asked(monkeypatch):
    monkeypatch.setattr(index, "KEPT_SECONDS", -1.0)


@pytest.fixture
def job(database):
    """Adds the task of a job."""

    def add(run_id, phase="running", state="deferred", dag_id="mine", request=None, handle=None, **times):
        database.task(state, run_id, dag_id=dag_id, **times)
        of_task = {"run_id": run_id, "dag_id": dag_id}
        database.xcom("job", {**HANDLE.to_xcom(), "uid": f"u-{run_id}", **(handle or {})}, **of_task)
        database.xcom("request", {**REQUEST, **(request or {})}, **of_task)
        if phase:
            database.xcom("status", {"phase": phase, "queued_at": NOW.isoformat()}, **of_task)

    database.dag()
    return add


def ask(client, query="", role="admin"):
    answer = client(role).get(f"/api/jobs?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def runs(answer):
    return [row["run_id"] for row in answer["jobs"]]


def test_of_no_other_dag_anything_is_seen(client, database, job):
    database.dag("theirs", "team-b")
    job("r-1")
    job("r-2", dag_id="theirs", request={"namespace": "secret"}, handle={"framework": "jax", "backend": "mpi"})

    answers = [client("viewer").get(f"/api/jobs?view=all&{query}") for query in ("", "q=r-2", "dag=theirs", "page=2")]

    assert [each.json()["total"] for each in answers] == [1, 1, 1, 1]
    assert [each.json()["counts"]["all"] for each in answers] == [1, 0, 0, 1]
    assert answers[0].json()["gpus"] == {"in_use": 4, "requested": 0}
    assert runs(answers[0].json()) == ["r-1"]
    for text in ("theirs", "r-2", "secret", "team-b", "jax", "mpi"):
        assert not any(text in each.text for each in answers), text


def test_a_user_is_asked_about_the_dags_with_jobs_and_no_others(client, database, manager, job, monkeypatch):
    asked, allowed = set(), manager.is_authorized_dag
    for number in range(3):
        database.dag(f"other-{number}")
    job("r-1")
    job("r-2", dag_id="other-0")

    def is_authorized(details=None, **more):
        asked.add(details.id)
        return allowed(details=details, **more)

    monkeypatch.setattr(manager, "is_authorized_dag", is_authorized)

    assert runs(ask(client)) == ["r-1"]
    assert asked == {"mine", "other-0"}


def test_without_the_right_to_read_xcom_the_list_is_empty(client, manager, job, monkeypatch):
    job("r-1")
    allowed = manager.is_authorized_dag
    monkeypatch.setattr(
        manager,
        "is_authorized_dag",
        lambda access_entity=None, **asked: (
            (access_entity is None or access_entity.value != "XCOM") and allowed(access_entity=access_entity, **asked)
        ),
    )

    assert ask(client)["total"] == 0


def test_a_dag_that_airflow_has_no_longer_is_not_listed(client, database):
    database.task("deferred", "r-1")
    database.xcom("job", HANDLE.to_xcom(), "r-1")
    database.xcom("request", REQUEST, "r-1")

    assert ask(client)["total"] == 0


def test_who_may_only_read_is_offered_no_action(client, job):
    job("r-1")

    (of_viewer,), (of_editor,) = ask(client, role="viewer")["jobs"], ask(client, role="user")["jobs"]

    assert of_viewer["actions"]["stop"] == {"allowed": False, "why": "You may not edit this task instance."}
    assert of_editor["actions"]["stop"] == {"allowed": True, "why": None}


def test_a_row_has_what_the_page_shows_and_nothing_else(client, database, job):
    job("r-1", request={"secret": "x"}, handle={"password": "y"})
    database.xcom("progress", {"step": 5, "total_steps": 10, "percent": 50.0, "history": {"loss": []}}, "r-1")

    answer = ask(client)

    (row,) = answer["jobs"]
    assert (row["state"], row["note"], row["uid"]) == ("running", "All 2 replicas are training.", "u-r-1")
    assert (row["framework"], row["backend"], row["namespace"], row["owner"]) == ("pytorch", "native", "ml", "team-a")
    assert (row["nodes"], row["gpus"], row["progress"]["step"]) == (2, 4, 5)
    assert answer["choices"] == {
        "framework": ["pytorch"],
        "backend": ["native"],
        "namespace": ["ml"],
        "owner": ["team-a"],
    }
    assert not any(text in str(answer) for text in ("secret", "password", "history"))


def test_the_place_in_the_queue_is_shown_where_it_is_known(client, database, job):
    job("r-1", phase=None)
    job("r-2", "queued")
    estimate = {"earliest": NOW.isoformat(), "latest": (NOW + timedelta(hours=1)).isoformat(), "basis": "x"}
    queue = {"name": "q", "position": 3, "length": 7, "estimate": estimate, "else": "x"}
    database.xcom("status", {"phase": "queued", "queue": queue}, "r-1")

    rows = {row["run_id"]: row["position"] for row in ask(client, "view=waiting")["jobs"]}

    at, until = (time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in (NOW, NOW + timedelta(hours=1)))
    assert rows == {"r-1": {"queue": "q", "position": 3, "length": 7, "earliest": at, "latest": until}, "r-2": None}


def test_an_ended_job_is_listed_for_some_days(client, job):
    for days in (1, 6, 8):
        job(f"r-{days}", "succeeded", "success", end_date=NOW - timedelta(days=days))

    assert sorted(runs(ask(client, "view=all"))) == ["r-1", "r-6"]
    assert runs(ask(client, "view=active")) == []


@pytest.mark.parametrize("xcoms", [{"request": "text"}, {"request": {}, "job": 7}, {"request": REQUEST}])
def test_a_task_without_a_job_is_none(client, database, xcoms):
    database.dag()
    database.task("deferred", "r-1")
    for key, value in xcoms.items():
        database.xcom(key, value, "r-1")

    assert ask(client, "view=all")["total"] == 0


def test_what_a_task_of_another_operator_has_pushed_is_no_job(client, database, job):
    job("r-1", dag_version_id=database.version())
    job("r-2", dag_version_id=database.version("train"))

    assert runs(ask(client, "view=all")) == ["r-2"]


def test_what_changes_is_read_again_and_the_rest_is_not(client, database, job, monkeypatch):
    job("r-1")
    job("r-2", "succeeded", "success", end_date=NOW - timedelta(days=1))
    read = []
    read_tasks = index.read_tasks
    monkeypatch.setattr(index, "read_tasks", lambda ids, keys: read.append(len(ids)) or read_tasks(ids, keys))

    asker = client("viewer")
    first = asker.get("/api/jobs")
    again = asker.get("/api/jobs", headers={"If-None-Match": first.headers["ETag"]})
    rows = XComModel.__table__
    database.change(sqlalchemy.delete(rows).where(rows.c.key == "status", rows.c.run_id == "r-1"))
    database.xcom("status", {"phase": "suspended"}, "r-1", at=NOW + timedelta(seconds=1))
    changed = asker.get("/api/jobs", headers={"If-None-Match": first.headers["ETag"]})
    database.change(sqlalchemy.update(TaskInstance.__table__).values(state="failed", end_date=NOW))
    ended = asker.get("/api/jobs")

    assert (again.status_code, changed.status_code) == (304, 200)
    assert [each["state"] for each in changed.json()["jobs"]] == ["suspended"]
    assert (changed.json()["counts"]["attention"], ended.json()["counts"]["active"]) == (1, 0)
    assert read == [2, 0, 1, 2]


def test_within_two_seconds_the_database_is_asked_once(client, job, monkeypatch):
    monkeypatch.setattr(index, "KEPT_SECONDS", 2.0)
    job("r-1")
    asker = client("admin")
    asker.get("/api/jobs")
    job("r-2")

    assert runs(asker.get("/api/jobs").json()) == ["r-1"]


def test_without_an_answer_of_the_database_the_client_is_asked_to_come_again(client, job, monkeypatch):
    job("r-1")
    asker = client("admin")
    assert asker.get("/api/jobs").json()["total"] == 1
    monkeypatch.setattr(index, "read_versions", _fail)
    # For a while the earlier jobs are shown.
    assert asker.get("/api/jobs").json()["total"] == 1
    monkeypatch.setattr(index, "OLD_SECONDS", -1.0)

    answer = asker.get("/api/jobs")

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "Ask again later" in answer.json()["detail"]


def _fail(*asked):
    raise OSError("the database is away")


def test_the_queries_do_not_grow_with_the_jobs(client, database, job):
    found = []
    sqlalchemy.event.listen(database.engine, "before_cursor_execute", lambda *call: found.append(call[2]), named=False)
    asker = client("viewer")

    def asked():
        found.clear()
        assert asker.get("/api/jobs?view=all").status_code == 200
        return len([each for each in found if each.startswith("SELECT")])

    job("r-0")
    first, one = asked(), asked()
    for number in range(1, 60):
        job(f"r-{number}", dag_version_id=database.version("train"))
    all_new, many = asked(), asked()

    assert (all_new, many) == (first, one)
    assert one <= 7, found


@pytest.mark.parametrize("query", ["view=x", "sort=x", "page=0", "size=101", "size=0", f"q={'x' * 301}"])
def test_a_request_that_makes_no_sense_is_refused(client, query):
    assert client("admin").get(f"/api/jobs?{query}").status_code == 422


def test_a_job_that_is_deleted_meanwhile_is_left_out(client, job, monkeypatch):
    job("r-1")
    job("r-2")
    read_tasks = routes.read_tasks
    monkeypatch.setattr(
        routes, "read_tasks", lambda ids, keys: [each for each in read_tasks(ids, keys) if each.records.run_id == "r-2"]
    )

    assert runs(ask(client)) == ["r-2"]


def test_the_job_that_started_last_comes_first(client, database, job):
    for number, minutes in ((1, 9), (2, 3), (3, 6)):
        job(f"r-{number}", phase=None)
        started = (NOW - timedelta(minutes=minutes)).isoformat()
        database.xcom("status", {"phase": "running", "started_at": started}, f"r-{number}")

    assert runs(ask(client)) == ["r-2", "r-3", "r-1"]


def test_a_job_that_nothing_reports_on_is_stale_since_its_last_report(client, job):
    seen = NOW - timedelta(minutes=9)
    job("r-1", state="running", last_heartbeat_at=seen)

    (row,) = ask(client)["jobs"]

    assert row["stale_since"] == seen.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_running_job_has_no_position_in_its_queue(client, database, job):
    job("r-1", phase=None)
    database.xcom("status", {"phase": "running", "queue": {"name": "q", "position": 3, "length": 7}}, "r-1")

    (row,) = ask(client)["jobs"]

    assert row["position"] is None
