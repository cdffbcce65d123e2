"""Every route asks who it is, and whether that user may read the DAG, or edit it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fastapi.routing import APIRoute
from starlette.requests import Request

from airflow_trainer_provider.plugins.view import access
from airflow_trainer_provider.plugins.view.answers import json_answer
from airflow_trainer_provider.plugins.view.app import make_app
from tests.unit.plugins.view.conftest import HANDLE, NOW, PATH, RUN

BODY = {"uid": "u-1"}
PAGE = f"/task?dag_id=mine&run_id={RUN}&task_id=train&map_index=-1"
#: Route -> a request to it. The walk below fails for a route that is not here.
ROUTES = {
    "/task": ("GET", PAGE),
    "/dag": ("GET", "/dag?dag_id=mine"),
    "/jobs": ("GET", "/jobs"),
    "/api/jobs": ("GET", "/api/jobs"),
    "/static/{name:path}": ("GET", "/static/task/main.js"),
    "/api/dags/{dag_id}": ("GET", "/api/dags/mine"),
    "/api/dags/{dag_id}/series": ("GET", "/api/dags/mine/series?task_id=train&run=-1,r"),
    "/api/tasks/{dag_id}/{run_id}/{task_id}/{map_index}": ("GET", PATH),
    "/api/tasks/{dag_id}/{run_id}/{task_id}/{map_index}/series": ("GET", f"{PATH}/series?metric=loss"),
    "/api/tasks/{dag_id}/{run_id}/{task_id}/{map_index}/replicas": ("GET", f"{PATH}/replicas"),
    "/api/tasks/{dag_id}/{run_id}/{task_id}/{map_index}/{action}": ("POST", f"{PATH}/stop"),
}
#: They hold no data: each user may read them, and without authentication where Airflow reads no login of a cookie.
FILES = ("/jobs", "/static/{name:path}")
PAGES = ("/task", "/dag", *FILES)
#: Those that name no DAG. What they hold of each, the user may read: tests/unit/plugins/view/jobs/test_routes.py.
LISTS = ("/api/jobs",)


def _ask(client, method, path):
    return client.request(method, path, **({"json": BODY} if method == "POST" else {}))


def _routes():
    return [route for route in make_app().routes if isinstance(route, APIRoute)]


def _checks(dependant):
    yield dependant.call
    for each in dependant.dependencies:
        yield from _checks(each)


def test_no_route_is_without_a_request_in_these_tests():
    app = make_app()

    assert {route.path for route in app.routes} == set(ROUTES)
    assert len(app.routes) == len(_routes())


@pytest.mark.parametrize("route", _routes(), ids=lambda route: route.path)
def test_each_route_has_a_check_of_its_own(route):
    found = set(_checks(route.dependant))

    if route.path in PAGES and not access.HAS_COOKIE_SESSIONS:
        return
    assert access.get_user in found
    assert route.path in (*FILES, *LISTS) or access.may_read in found
    assert route.methods == {"GET"} or {access.may_edit, access.from_own_page} <= found


@pytest.mark.parametrize("path", ROUTES)
def test_without_a_login_there_is_no_answer(client, database, path):
    database.task()
    is_open = path in PAGES and not access.HAS_COOKIE_SESSIONS

    assert _ask(client(), *ROUTES[path]).status_code == (200 if is_open else 401)


@pytest.mark.parametrize("path", ROUTES)
def test_a_wrong_token_is_no_login(client, path):
    asker = client()
    asker.headers["Authorization"] = "Bearer wrong"
    is_open = path in PAGES and not access.HAS_COOKIE_SESSIONS

    assert _ask(asker, *ROUTES[path]).status_code == (200 if is_open else 403)


@pytest.mark.parametrize("path", [path for path in ROUTES if path not in (*FILES, *LISTS)])
def test_the_training_of_another_dag_is_not_shown(client, path):
    method, request = ROUTES[path]
    is_open = path in PAGES and not access.HAS_COOKIE_SESSIONS

    answer = _ask(client("admin"), method, request.replace("mine", "theirs"))

    assert answer.status_code == (200 if is_open else 403)
    assert "theirs" not in answer.text


def test_who_may_only_read_may_not_act(client, database):
    database.task()
    database.xcom("job", HANDLE.to_xcom())

    assert client("viewer").get(PATH).status_code == 200
    assert client("viewer").post(f"{PATH}/stop", json=BODY).status_code == 403
    assert database.notes() == []


def test_without_the_right_to_read_xcom_what_is_in_it_is_not_shown(client, database, manager, monkeypatch):
    database.task()
    allowed = manager.is_authorized_dag
    monkeypatch.setattr(
        manager,
        "is_authorized_dag",
        lambda access_entity=None, **asked: (
            access_entity.value != "XCOM" and allowed(access_entity=access_entity, **asked)
        ),
    )

    assert client("admin").get(PATH).status_code == 403


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 409),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"}, 403),
        ({"Origin": "http://testserver"}, 409),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 409),
    ],
)
def test_another_site_cannot_have_a_browser_act(client, database, headers, code):
    database.task()
    asker = client("admin")

    answer = asker.post(
        f"{PATH}/suspend", content='{"uid": "u-1"}', headers={"Content-Type": "application/json", **headers}
    )

    assert answer.status_code == code, answer.text


@pytest.mark.skipif(not access.HAS_COOKIE_SESSIONS, reason="this Airflow takes no cookie as a login")
def test_a_cookie_without_a_browsers_word_is_not_enough_to_act(client, database):
    database.task()
    token = client("admin").headers["Authorization"].removeprefix("Bearer ")
    asker = client()
    asker.cookies.set("_token", token)

    assert asker.get(PATH).status_code == 200
    assert asker.post(f"{PATH}/suspend", json=BODY).status_code == 403
    assert asker.post(f"{PATH}/suspend", json=BODY, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 409


def test_an_unchanged_view_is_not_sent_again(client, database):
    database.task(last_heartbeat_at=NOW)
    database.xcom("job", HANDLE.to_xcom())
    asker = client("viewer")

    first = asker.get(PATH)
    again = asker.get(PATH, headers={"If-None-Match": first.headers["ETag"]})
    database.xcom("progress", {"step": 3})
    changed = asker.get(PATH, headers={"If-None-Match": first.headers["ETag"]})

    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert (changed.status_code, changed.json()["progress"]["step"]) == (200, 3)
    assert first.headers["X-Content-Type-Options"] == "nosniff"
    assert first.headers["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize(
    "xcoms",
    [
        {"progress": {"history": {"loss": [{"value": 7}, {"value": "text"}]}}},
        {"progress": {"step": 10**400, "steps_per_second": -(10**400)}},
        {"progress": {"reported_at": "9999-12-31T23:00:00-05:00", "checkpoint": {"at": "0001-01-01T00:00:00+05:00"}}},
        {"request": {"startup_timeout_seconds": 1e300}, "status": {"phase": "queued", "queued_at": NOW.isoformat()}},
        {"status": {"phase": "running", "message": "half a character: \ud83d"}},
        {"return_value": {"phase": "succeeded", "result": {"loss": [float("nan"), float("inf")]}}},
    ],
    ids=(
        "values no list",
        "huge number",
        "end of the calendar",
        "endless wait",
        "half a character",
        "no finite number",
    ),
)
def test_whatever_is_in_xcom_there_is_an_answer(client, database, xcoms):
    database.task()
    for key, value in {"job": HANDLE.to_xcom(), "request": {}, **xcoms}.items():
        database.xcom(key, value)

    for part in ("", "/series?metric=loss", "/replicas"):
        assert client("viewer").get(PATH + part).status_code == 200


def test_a_result_may_have_numbers_that_json_has_not(client, database):
    database.task("success")
    database.xcom("job", HANDLE.to_xcom())
    database.xcom("return_value", {"phase": "succeeded", "result": {"loss": [float("nan"), float("-inf"), 1.5]}})

    assert client("viewer").get(PATH).json()["result"]["json"] == {"loss": ["NaN", "-Infinity", 1.5]}


def test_the_page_knows_its_address_and_runs_only_its_own_scripts(client):
    page = client("viewer", root_path="/prefix/trainer").get(PAGE)

    assert page.status_code == 200
    assert '<meta content="/prefix/trainer">' in page.text
    assert ('<meta name="trainer-auth" content="token">' in page.text) is not access.HAS_COOKIE_SESSIONS
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy


def test_files_with_their_version_are_kept_for_ever(client):
    asker = client("viewer")
    address = asker.get(PAGE).text.split('src="')[1].split('"')[0]

    versioned, plain = asker.get(f"/{address}"), asker.get("/static/task/main.js")
    other = asker.get("/static/v-0123456789abcdef/task/main.js")

    assert versioned.text == plain.text == other.text == "start()"
    assert "immutable" in versioned.headers["Cache-Control"]
    assert plain.headers["Cache-Control"] == other.headers["Cache-Control"] == "private, no-cache"
    assert plain.headers["Content-Type"].startswith("text/javascript")
    kept = asker.get("/static/task/main.js", headers={"If-None-Match": plain.headers["ETag"]})
    assert kept.status_code == 304


@pytest.mark.parametrize(
    "name",
    ["secret.key", "../app.py", "..%2Fapp.py", "task", "nothing.js", "v-1/../app.py", "task.html", "v-1/task.html"],
)
def test_nothing_but_the_files_of_pages_is_served(client, name):
    assert client("admin").get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize("path", [PATH, f"{PATH}/series?metric=loss", f"{PATH}/replicas"])
def test_a_task_instance_that_is_not_there_is_not_found(client, path):
    assert client("admin").get(path).status_code == 404


def test_what_is_usual_and_the_curve_before_come_from_earlier_runs(client, database):
    part = {"attempt": 0, "step": [1], "at": [1.0], "value": [2.5]}
    for days in (1, 2):
        returned = {"phase": "succeeded", "run_seconds": 60.0 * days}
        database.earlier(days, progress={"history": {"loss": [part]}}, return_value=returned)
    database.task()
    asker = client("viewer")

    assert asker.get(PATH).json()["typical"] == {"seconds": [60, 120], "runs": 2}
    assert asker.get(f"{PATH}/series?metric=loss").json()["previous"][0]["value"] == [2.5]


@pytest.mark.parametrize(
    "path",
    [f"{PATH}/series", f"{PATH}/series?metric=a&points=501", f"{PATH}?try=x", f"{PATH[:-2]}{2**31}", f"{PATH[:-2]}-2"],
)
def test_a_request_that_makes_no_sense_is_refused(client, database, path):
    database.task()

    assert client("admin").get(path).status_code == 422


def test_the_plugin_imports_no_web_server(tmp_path):
    script = (
        "import sys; import airflow.plugins_manager; before = set(sys.modules);"
        "from airflow_trainer_provider.plugins.trainer import TrainerPlugin;"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('airflow')))"
    )
    env = {"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def _answer(value, tag="", untagged=()):
    return json_answer(Request({"type": "http", "headers": [(b"if-none-match", tag.encode())]}), value, untagged)


def test_the_time_of_an_answer_alone_makes_no_new_answer():
    first = _answer({"step": 3, "as_of": "14:21:05"}, untagged=("as_of",))

    later = [
        _answer({"step": step, "as_of": "14:21:10"}, first.headers["ETag"], ("as_of",)).status_code for step in (3, 4)
    ]

    assert (first.status_code, later) == (200, [304, 200])


def test_a_tag_that_a_proxy_has_made_weak_is_the_same():
    tag = _answer({"step": 3}).headers["ETag"]

    asked = (tag, f"W/{tag}", f'"other", W/{tag}', "*", '"other"')

    assert not tag.startswith("W/")
    assert [_answer({"step": 3}, each).status_code for each in asked] == [304, 304, 304, 304, 200]


def test_only_editors_are_offered_the_actions_of_a_task(client, database):
    database.task(last_heartbeat_at=NOW)
    database.xcom("job", HANDLE.to_xcom())

    stop = [client(role).get(PATH).json()["actions"]["stop"] for role in ("viewer", "user")]

    assert stop == [
        {"allowed": False, "why": "You may not edit this task instance."},
        {"allowed": True, "why": None},
    ]


def test_an_earlier_try_is_shown_on_request(client, database):
    database.task(try_number=2, max_tries=2, last_heartbeat_at=NOW)
    database.old_try(1, "failed")
    asker = client("viewer")

    shown = [asker.get(f"{PATH}{query}").json() for query in ("?try=1", "")]

    assert [(each["try_number"], each["status"]["phase"]) for each in shown] == [(1, "failed"), (2, None)]
