"""The routes of the Training tab of a DAG: what they answer, and what they refuse."""

from __future__ import annotations

import pytest

from tests.unit.plugins.view.conftest import HANDLE, NOW, RUN

VIEW = "/api/dags/mine"
CURVES = f"{VIEW}/series?task_id=train&run=-1,{RUN.replace('+', '%2B')}"


@pytest.fixture
def trained(database):
    """A DAG with a run that trains, and one that has."""
    database.earlier(
        1, request={"gpus": 4}, job=HANDLE.to_xcom(), return_value={"phase": "succeeded", "metrics": {"loss": 1}}
    )
    database.add_run()
    database.task(last_heartbeat_at=NOW)
    for key, value in {
        "request": {},
        "job": HANDLE.to_xcom(),
        "progress": {"history": {"loss": [{"value": [2.0]}]}},
    }.items():
        database.xcom(key, value)
    return database


def test_the_runs_and_their_curves_are_answered(client, trained):
    asker = client("viewer")

    view, curves = asker.get(VIEW).json(), asker.get(CURVES).json()

    assert [(run["run_id"], run["outcome"]) for run in view["runs"]] == [(RUN, "starting"), ("run-1", "succeeded")]
    assert (view["tasks"], view["metric"], view["champion"]["value"]) == (["train"], "loss", 1)
    assert (curves["metric"], curves["runs"][0]["run_id"], curves["runs"][0]["entries"][0]["value"]) == (
        "loss",
        RUN,
        [2.0],
    )


def test_unchanged_runs_are_not_sent_again(client, trained):
    asker = client("viewer")
    first = asker.get(VIEW)

    again = asker.get(VIEW, headers={"If-None-Match": first.headers["ETag"]})
    trained.xcom("failure", {"phase": "failed"})
    changed = asker.get(VIEW, headers={"If-None-Match": first.headers["ETag"]})

    assert (first.status_code, again.status_code, again.content, changed.status_code) == (200, 304, b"", 200)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{VIEW}?limit=101", 422),
        (f"{VIEW}?limit=x", 422),
        (f"{VIEW}/series?task_id=train", 422),
        (f"{VIEW}/series?run=-1,a", 422),
        (f"{VIEW}/series?task_id=train&run=a", 422),
        (f"{VIEW}/series?task_id=train&run=x,a", 422),
        (f"{VIEW}/series?task_id=train&run=-2,a", 422),
        (f"{VIEW}/series?task_id=train&run=-1,a&run=x,b", 422),
        (f"{VIEW}/series?task_id=train&run={2**31},a", 422),
        (f"{VIEW}/series?task_id=train&run={2**31 - 1},a", 200),
        (f"{VIEW}/series?task_id=train&{'&'.join(f'run={at},a' for at in range(6))}", 422),
        (f"{VIEW}/series?task_id=prepare&run=-1,a", 404),
    ],
)
def test_a_request_for_runs_that_makes_no_sense_is_refused(client, trained, path, code):
    assert client("viewer").get(path).status_code == code


def test_a_dag_without_training_is_no_error(client, database):
    assert client("viewer").get(VIEW).json()["tasks"] == []


def test_the_metric_of_the_request_is_compared(client, database):
    returned = {"phase": "succeeded", "metrics": {"loss": 1, "accuracy": 2}}
    database.earlier(1, request={}, job=HANDLE.to_xcom(), return_value=returned)
    asker = client("viewer")

    shown = [asker.get(f"{VIEW}{query}").json()["metric"] for query in ("", "?metric=accuracy")]

    assert shown == ["loss", "accuracy"]


def test_the_task_of_the_request_is_shown(client, trained):
    trained.version("train", "distill")

    view = client("viewer").get(f"{VIEW}?task_id=train").json()

    assert (view["tasks"], view["task_id"], len(view["runs"])) == (["distill", "train"], "train", 2)
