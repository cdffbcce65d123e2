"""The Training tabs' routes in a real API server, with users of different rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from airflow_trainer_provider.plugins.view.access import HAS_COOKIE_SESSIONS
from tests.airflow.conftest import HERE, AirflowUnderTest
from tests.airflow.jobs import JobFolder
from tests.airflow.users import log_in, user_settings
from tools.airflow_runner.api import ANSWER_SECONDS, TIMEOUT, wait_until

pytestmark = pytest.mark.slow

USERS = {"ada": "admin", "uma": "user", "vic": "viewer"}
DAG = "train_deferred"
RUNS = f"/trainer/api/dags/{DAG}"


class _Airflow(AirflowUnderTest):
    """An Airflow with several users."""

    def of(self, name: str | None) -> httpx.Client:
        """A client of a user; None: of one who has not logged in."""
        client = httpx.Client(base_url=self.url, timeout=ANSWER_SECONDS)
        if name:
            log_in(client, name)
        return client


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Airflow]:
    """Beside that of the folder, where everybody is an admin."""
    folder = tmp_path_factory.mktemp("view")
    core = user_settings(folder, USERS)
    with _Airflow(folder / "home", [HERE / "dags"], config={"core": core}) as instance:
        log_in(instance._client, "ada")
        yield instance


@pytest.fixture
def run_id(airflow: _Airflow, folder: JobFolder) -> str:
    """Of a run whose task waits for its job in the triggerer."""
    run_id = airflow.trigger_dag(DAG, {"folder": str(folder)})
    folder.wait_for_training()
    airflow.wait_for_task(DAG, run_id, "train", {"deferred"})
    return run_id


@pytest.fixture
def path(run_id: str) -> str:
    """Of the task view."""
    return f"/trainer/api/tasks/{DAG}/{quote(run_id, safe='')}/train/-1"


def test_the_view_follows_a_job_to_its_end(airflow: _Airflow, folder: JobFolder, run_id: str, path: str):
    viewer = airflow.of("vic")

    first = viewer.get(path)
    view = first.json()

    job = airflow.xcom(DAG, run_id, "train", "job")
    assert (first.status_code, view["job"]["name"], view["job"]["uid"]) == (200, job["name"], job["uid"])
    assert (view["facts"]["size"]["nodes"], view["job"]["framework"]) == (2, "pytorch")
    assert view["actions"]["stop"] == {"allowed": False, "why": "You may not edit this task instance."}
    assert airflow.of("uma").get(path).json()["actions"]["stop"]["allowed"]
    assert viewer.get(path, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    assert viewer.get(f"{path}/replicas").status_code == viewer.get(f"{path}/series?metric=loss").status_code == 200

    def reported() -> bool | None:
        (run,) = viewer.get(RUNS).raise_for_status().json()["runs"]
        assert (run["run_id"], run["is_active"]) == (run_id, True)
        return run["outcome"] in ("starting", "running") or None

    # Whoever waits for the job reports its state some seconds after the submit.
    wait_until(reported, TIMEOUT, lambda: f"{viewer.get(RUNS).json()['runs']}")

    def listed(view_: str) -> list[dict[str, Any]]:
        rows = viewer.get("/trainer/api/jobs", params={"view": view_, "q": run_id}).raise_for_status().json()["jobs"]
        return [row for row in rows if row["uid"] == job["uid"]]

    # An index of the jobs is shared for two seconds.
    wait_until(lambda: listed("active") or None, TIMEOUT, lambda: "it is not listed")
    (row,) = listed("active")
    assert (row["owner"], row["nodes"], row["dag_id"], row["is_active"]) == ("airflow", 2, DAG, True)
    assert row["actions"]["stop"] == {"allowed": False, "why": "You may not edit this task instance."}

    folder.go()
    assert airflow.wait_for_run(DAG, run_id) == "success"
    wait_until(lambda: not listed("active") or None, TIMEOUT, lambda: "the job is still active")
    assert [(row["state"], row["note"]) for row in listed("all")] == [
        ("succeeded", "All 2 replicas completed: loss 0.5.")
    ]
    view = viewer.get(path).json()
    assert view["status"]["phase"] == "succeeded"
    assert view["summary"] == "All 2 replicas completed: loss 0.5."
    assert view["result"]["json"]["metrics"] == {"loss": 0.5}
    assert not view["actions"]["stop"]["allowed"]

    runs = viewer.get(RUNS).json()
    assert (runs["tasks"], runs["metric"], runs["champion"]["value"]) == (["train"], "loss", 0.5)
    assert (runs["runs"][0]["outcome"], runs["runs"][0]["metrics"]["loss"]) == ("succeeded", 0.5)
    assert runs["runs"][0]["durations"]["running"] > 0
    curves = viewer.get(f"{RUNS}/series", params={"task_id": "train", "run": f"-1,{run_id}"}).json()
    assert curves["metric"] == "loss"
    assert curves["runs"][0]["entries"][0]["value"][0] == 1.0


def test_a_run_names_what_it_was_given_otherwise(airflow: _Airflow, folder: JobFolder):
    folder.go()
    for mode in ("train", "other"):
        assert airflow.wait_for_run(DAG, airflow.trigger_dag(DAG, {"folder": str(folder), "mode": mode})) == "success"

    newest, *_ = airflow.of("vic").get(RUNS, params={"limit": 1}).json()["runs"]

    assert newest["changed"] == [{"name": "argument 3", "from": "train", "to": "other"}]


def test_only_an_editor_stops_the_job_and_the_audit_log_has_it(
    airflow: _Airflow, folder: JobFolder, run_id: str, path: str
):
    job = airflow.xcom(DAG, run_id, "train", "job")
    body = {"uid": job["uid"]}

    assert airflow.of(None).post(f"{path}/stop", json=body).status_code == 401
    assert airflow.of("vic").post(f"{path}/stop", json=body).status_code == 403
    assert airflow.of("uma").post(f"{path}/stop", json={"uid": "another"}).status_code == 409
    strange = {"Origin": "https://evil.example"}
    assert airflow.of("uma").post(f"{path}/stop", json=body, headers=strange).status_code == 403
    assert not airflow.status_of(job["name"]).phase.ended

    assert airflow.of("uma").post(f"{path}/stop", json=body).status_code == 202

    wait_until(lambda: airflow.status_of(job["name"]).phase.ended or None, TIMEOUT, lambda: "the job goes on")
    assert airflow.status_of(job["name"]).phase.value == "cancelled"
    assert airflow.task_instance(DAG, run_id, "train")["state"] == "failed"
    events = airflow.request("GET", "/eventLogs", params={"dag_id": DAG, "run_id": run_id, "limit": 100})
    stops = [each for each in events["event_logs"] if each["event"] == "trainer_stop_job"]
    assert [(each["owner"], each["task_id"]) for each in stops] == [("uma", "train")]


def test_without_a_login_nothing_is_shown(airflow: _Airflow, run_id: str, path: str):
    stranger = airflow.of(None)
    page = f"/trainer/task?dag_id={DAG}&run_id={run_id}&task_id=train&map_index={{MAP_INDEX}}"

    data = (
        path,
        f"{path}/replicas",
        f"{path}/series?metric=a",
        RUNS,
        f"{RUNS}/series?task_id=train&run=-1,r",
        "/trainer/api/jobs",
    )
    codes = [stranger.get(each).status_code for each in data]

    assert codes == [401] * len(data)
    if HAS_COOKIE_SESSIONS:
        pages = ("/trainer/jobs", f"/trainer/dag?dag_id={DAG}", page, "/trainer/static/task/main.js")
        assert [stranger.get(each).status_code for each in pages] == [401] * len(pages)


def test_airflow_shows_the_tabs_and_the_page(airflow: _Airflow):
    plugins = airflow.request("GET", "/plugins")["plugins"]
    (ours,) = [plugin for plugin in plugins if plugin["name"] == "trainer"]

    assert {view["destination"] for view in ours["external_views"]} == {"task_instance", "dag", "nav"}
    assert airflow.of("vic").get("/trainer/jobs").status_code == 200
    assert [app["url_prefix"] for app in ours["fastapi_apps"]] == ["/trainer"]


def test_a_session_of_the_browser_is_a_login(airflow: _Airflow, run_id: str, path: str):
    if not HAS_COOKIE_SESSIONS:
        pytest.skip("this Airflow takes no cookie as a login")
    token = airflow.of("uma").headers["Authorization"].removeprefix("Bearer ")
    browser = httpx.Client(base_url=airflow.url, cookies={"_token": token}, timeout=ANSWER_SECONDS)

    assert browser.get(path).status_code == 200
    assert browser.post(f"{path}/stop", json={"uid": "x"}).status_code == 403
    assert browser.post(f"{path}/stop", json={"uid": "x"}, headers={"Origin": airflow.url}).status_code == 409
