"""Views, search, filters, order and pages of jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_trainer_provider.plugins.view.jobs.entry import entry_of
from airflow_trainer_provider.plugins.view.jobs.selection import Filters, choices_of, gpus_of, page_of
from tests.unit.plugins.view.model.samples import FAILURE, NOW, ago, records, replica, status, with_job


def entry(state="deferred", owners="nlp", **xcoms):
    """What is kept of a job with this XCom."""
    found = entry_of("1", records(state, with_job(**xcoms)), owners, NOW)
    assert found is not None
    return found


RUNNING = entry(status=status())
WAITING = entry(status=status("queued", []))
PULLING = entry(status=status("starting", [replica(0, started_at=None, reason="ContainerCreating")]))
PULLING_FOR_INIT = entry(status=status("starting", [replica(0, started_at=None, reason="Init:ContainerCreating")]))
STUCK = entry(status=status("starting", [replica(0, started_at=None, reason="ImagePullBackOff")]))
NO_NODE = entry(status=status("queued", [replica(0, started_at=None, reason="Unschedulable")]))
RESTARTED = entry(status=status(replicas=[replica(0), replica(1, restarts=1, started_at=ago(30))]))
RESTARTED_BEFORE = entry(status=status(replicas=[replica(1, restarts=1, started_at=ago(90))]))
SUSPENDED = entry(status=status("suspended", []))
FAILED = entry("failed", status=status("failed", finished_at=ago(60)), failure=FAILURE)
FAILED_BEFORE = replace(FAILED, finished_at=NOW - timedelta(hours=25))
RETRIES = entry("up_for_retry", status=status("failed", finished_at=ago(60)), failure=FAILURE)
SUCCEEDED = entry("success", return_value={"phase": "succeeded", "started_at": ago(60), "finished_at": ago(10)})
CUT_OFF = entry("failed", status=status())
RESTARTED_TWICE = entry(
    status=status(replicas=[replica(at, restarts=1, started_at=ago(since)) for at, since in ((0, 90), (1, 5), (2, 80))])
)
NO_ROOM = entry(status=status("queued", [], reason="Unschedulable"))
ENDED = entry(
    "success",
    status=status(replicas=[replica(0, restarts=1, started_at=ago(30))]),
    return_value={"phase": "succeeded", "started_at": ago(60), "finished_at": ago(10)},
)
RESTARTING = entry(status=status("restarting"))


@pytest.mark.parametrize(
    ("job", "views"),
    [
        (RUNNING, {"active"}),
        (WAITING, {"active", "waiting"}),
        (PULLING, {"active"}),
        (PULLING_FOR_INIT, {"active"}),
        (STUCK, {"active", "attention"}),
        (NO_NODE, {"active", "waiting", "attention"}),
        (RESTARTED, {"active", "attention"}),
        (RESTARTED_BEFORE, {"active"}),
        (SUSPENDED, {"active", "attention"}),
        (FAILED, {"failed", "attention"}),
        (FAILED_BEFORE, {"failed"}),
        (RETRIES, {"failed", "attention"}),
        (SUCCEEDED, set()),
        (CUT_OFF, set()),
        (RESTARTED_TWICE, {"active", "attention"}),
        (NO_ROOM, {"active", "waiting", "attention"}),
        (ENDED, set()),
        (RESTARTING, {"active", "attention"}),
    ],
)
def test_a_job_is_in_its_views(job, views):
    counts = page_of([job], Filters(), "all", "-started", 1, 50, NOW).counts

    assert {name for name, count in counts.items() if count} == {*views, "all"}


@pytest.mark.parametrize("text", ["TRAIN", "d", "llm-train-4be2-1", " r ", "no module named"])
def test_a_search_finds_names_and_the_reason(text):
    assert Filters(text).match(FAILED)


@pytest.mark.parametrize(
    "filters",
    [
        Filters("absent"),
        Filters(dag="other"),
        Filters(namespace="other"),
        Filters(framework="jax"),
        Filters(backend="native"),
        Filters(state="queued"),
        Filters(owner="nl"),
    ],
)
def test_a_filter_leaves_out_what_it_does_not_match(filters):
    assert not filters.match(RUNNING)


def test_filters_match_together():
    names = {"dag": "d", "namespace": "training", "framework": "pytorch", "backend": "trainer", "state": "running"}

    assert Filters("llm", owner="vision", **names).match(replace(RUNNING, owners="nlp, vision"))


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("started", ["old", "new", "waits"]),
        ("-started", ["waits", "new", "old"]),
        ("-duration", ["old", "new", "waits"]),
        ("-size", ["new", "old", "waits"]),
        ("state", ["waits", "new", "old"]),
        ("dag", ["waits", "new", "old"]),
        ("owner", ["new", "waits", "old"]),
        ("framework", ["new", "old", "waits"]),
    ],
)
def test_jobs_are_sorted(sort, order):
    names = {"started_at": NOW - timedelta(hours=9), "owners": "z", "gpus": 2, "dag_id": "z"}
    old = replace(RUNNING, id="old", **names)
    new = replace(RUNNING, id="new", owners="a", gpus=8, dag_id="b", framework="jax")
    waits = replace(
        WAITING, id="waits", started_at=None, queued_at=NOW, owners="b", gpus=1, dag_id="a", framework="xgboost"
    )

    shown = page_of([new, waits, old], Filters(), "all", sort, 1, 50, NOW).entries

    assert [each.id for each in shown] == order


def test_pages_are_cut_and_the_last_one_is_shown_for_later_ones():
    jobs = [replace(RUNNING, id=f"{number:03}") for number in reversed(range(120))]

    pages = [page_of(jobs, Filters(), "active", "started", number, 50, NOW) for number in (1, 3, 9)]

    assert [(page.number, len(page.entries), page.entries[0].id) for page in pages] == [
        (1, 50, "000"),
        (3, 20, "100"),
        (3, 20, "100"),
    ]
    assert page_of([], Filters(), "active", "started", 5, 50, NOW).number == 1


def test_gpus_are_those_of_jobs_that_go_on():
    assert gpus_of([RUNNING, STUCK, WAITING, SUSPENDED, FAILED, SUCCEEDED]) == {"in_use": 8, "requested": 4}
    assert gpus_of([RESTARTING]) == {"in_use": 4, "requested": 0}


def test_what_there_is_to_choose_from_is_named_once():
    choices = choices_of([replace(RUNNING, owners="b, a"), replace(WAITING, owners="a", namespace=None)])

    assert choices == {
        "framework": ["pytorch"],
        "backend": ["trainer"],
        "namespace": ["training"],
        "owner": ["a", "b"],
    }


def test_waiting_jobs_are_sorted_by_how_long_they_wait():
    short, long = (
        replace(WAITING, id=id, started_at=None, queued_at=NOW - timedelta(hours=hours))
        for id, hours in (("a-short", 1), ("b-long", 9))
    )
    runs = replace(RUNNING, id="runs", started_at=NOW - timedelta(hours=5))

    shown = page_of([short, long, runs], Filters(), "all", "started", 1, 50, NOW).entries

    assert [each.id for each in shown] == ["b-long", "runs", "a-short"]
