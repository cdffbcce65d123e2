"""What a viewer does with a job: it reaches the right job, or none, and stands in the audit log."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from airflow_trainer_provider.errors import ApiError, ManageError
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.plugins.view import actions
from tests.unit.plugins.view.conftest import HANDLE, NOW, PATH, RUN

BODY = {"uid": "u-1"}


class _Backend:
    def __init__(self):
        self.found, self.done, self.fault, self.seconds = [HANDLE], [], None, 0

    async def find(self, identity):
        self.identity = identity
        return self.found

    async def suspend(self, handle, *, wait=True):
        return await self._do("suspend", handle, wait)

    async def resume(self, handle):
        return await self._do("resume", handle)

    async def _do(self, *what):
        await asyncio.sleep(self.seconds)
        if self.fault:
            raise self.fault
        self.done.append(what)
        return "done"


@pytest.fixture
def backend(monkeypatch):
    made = _Backend()

    async def backend_of(self, handle, *, timeout=None):
        return made

    monkeypatch.setattr(TrainerHook, "backend_of", backend_of)
    return made


@pytest.fixture
def user(client, database):
    database.task(last_heartbeat_at=NOW)
    database.xcom("job", HANDLE.to_xcom())
    database.xcom("request", {"framework": "pytorch"})
    return client("user")


@pytest.fixture
def status(database):
    return lambda phase: database.xcom("status", {"phase": phase, "as_of": NOW.isoformat()})


def test_suspend_reaches_the_job_and_does_not_wait(user, status, backend, database):
    status("running")

    answer = user.post(f"{PATH}/suspend", json=BODY)

    assert (answer.status_code, answer.json()) == (202, {"message": "done"})
    assert backend.done == [("suspend", HANDLE, False)]
    assert (backend.identity.dag_id, backend.identity.run_id, backend.identity.try_number) == ("mine", RUN, 1)
    (note,) = database.notes()
    assert (note.event, note.owner, note.dag_id, note.task_id, note.run_id, note.map_index) == (
        "trainer_suspend_job",
        "a-user",
        "mine",
        "train",
        RUN,
        -1,
    )
    assert json.loads(note.extra)["uid"] == "u-1"


def test_resume_reaches_the_job(user, status, backend):
    status("suspended")

    assert user.post(f"{PATH}/resume", json=BODY).status_code == 202
    assert backend.done == [("resume", HANDLE)]


@pytest.mark.parametrize("action", ["suspend", "resume", "stop"])
def test_another_job_is_left_alone(user, status, backend, database, action):
    status("running")

    answer = user.post(f"{PATH}/{action}", json={"uid": "of-an-earlier-job"})

    assert answer.status_code == 409
    assert "another job" in answer.json()["detail"]
    assert (backend.done, database.notes()) == ([], [])


def test_a_handle_of_another_tasks_job_is_not_followed(user, status, backend):
    status("running")
    backend.found = []

    answer = user.post(f"{PATH}/suspend", json=BODY)

    assert answer.status_code == 409
    assert backend.done == []


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ManageError("The job j has ended."), 409),
        (ApiError("the cluster is away", status=503), 503),
        (TimeoutError("slow"), 504),
    ],
)
def test_what_the_cluster_says_is_passed_on(user, status, backend, database, fault, code):
    status("running")
    backend.fault = fault

    assert user.post(f"{PATH}/suspend", json=BODY).status_code == code
    assert [note.event for note in database.notes()] == ["trainer_suspend_job"]


def test_a_cluster_that_does_not_answer_ends_the_request(user, status, backend, monkeypatch):
    monkeypatch.setattr(actions, "_SECONDS", 0.2)
    status("running")
    backend.seconds = 60

    answer = user.post(f"{PATH}/suspend", json=BODY)

    assert answer.status_code == 504
    assert "may still" in answer.json()["detail"]


@pytest.mark.parametrize("phase", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("action", ["suspend", "resume", "stop"])
def test_nothing_is_done_to_a_job_that_has_ended(user, status, backend, phase, action):
    status(phase)

    assert user.post(f"{PATH}/{action}", json=BODY).status_code == 409
    assert backend.done == []


def test_a_job_on_this_machine_is_not_suspended(client, database, backend):
    database.task(last_heartbeat_at=NOW)
    database.xcom("job", HANDLE.model_copy(update={"backend": "local", "location": "/l"}).to_xcom())
    database.xcom("request", {"can_suspend": False})

    answer = client("admin").post(f"{PATH}/suspend", json=BODY)

    assert (answer.status_code, answer.json()["detail"]) == (409, "The local backend cannot suspend jobs.")


def test_the_job_of_a_task_that_is_none_of_ours_is_left_alone(client, database, backend):
    database.task(last_heartbeat_at=NOW, dag_version_id=database.version())
    for key, value in {"job": HANDLE.to_xcom(), "request": {"gpus": 4}, "status": {"phase": "running"}}.items():
        database.xcom(key, value)

    answer = client("admin").post(f"{PATH}/suspend", json=BODY)

    assert (answer.status_code, answer.json()["detail"]) == (409, "The task runs no training.")
    assert (backend.done, database.notes()) == ([], [])


def test_stop_marks_the_task_as_failed_as_airflow_does(user, status, database, monkeypatch):
    from airflow.api_fastapi.core_api.services.public import task_instances
    from airflow.models.dagbag import DBDagBag

    status("running")
    dag, marked = SimpleNamespace(has_task=lambda task_id: True), []
    monkeypatch.setattr(DBDagBag, "get_latest_version_of_dag", lambda self, dag_id, session: dag)
    monkeypatch.setattr(
        task_instances,
        "_patch_task_instance_state",
        lambda task_id, run_id, dag, body, data, session: marked.append((task_id, run_id, body, data)),
    )

    answer = user.post(f"{PATH}/stop", json=BODY)

    assert answer.status_code == 202, answer.text
    ((task_id, run_id, body, data),) = marked
    assert (task_id, run_id, body.map_index, data["new_state"]) == ("train", RUN, -1, "failed")
    assert not any((body.include_upstream, body.include_downstream, body.include_future, body.include_past))
    assert [note.event for note in database.notes()] == ["trainer_stop_job"]


@pytest.mark.parametrize("body", [{}, {"uid": ""}, {"uid": 1}, {"uid": "u-1", "more": 1}, []])
def test_a_body_that_names_no_job_is_refused(user, status, body):
    status("running")

    assert user.post(f"{PATH}/suspend", json=body).status_code == 422


def test_an_action_that_is_none_is_refused(user):
    assert user.post(f"{PATH}/delete", json=BODY).status_code == 422
