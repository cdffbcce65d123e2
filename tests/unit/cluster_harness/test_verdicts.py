"""The docs' table of verdicts."""

from __future__ import annotations

import re

import pytest

from tests.cluster import verdicts


def row(failure, backend, message, retry="no", way_out=""):
    return {"failure": failure, "backend": backend, "message": message, "retry": retry, "way_out": way_out}


def test_backends_that_say_the_same_share_a_row():
    rows = [
        row("out of memory", "trainer", "OOMKilled.", way_out="Raise it."),
        row("evicted", "trainer", "Evicted.", "yes"),
        row("out of memory", "native", "OOMKilled.", way_out="Raise it."),
        row("evicted", "native", "Evicted: it was.", "yes"),
        row("evicted", "other", "Evicted.", "no"),
    ]
    assert verdicts.table(rows).splitlines() == [
        "| Failure | Backend | Verdict | Retry can help | Way out |",
        "|---|---|---|---|---|",
        "| out of memory | `trainer`, `native` | `OOMKilled.` | no | Raise it. |",
        "| evicted | `trainer` | `Evicted.` | yes |  |",
        "| evicted | `native` | `Evicted: it was.` | yes |  |",
        "| evicted | `other` | `Evicted.` | no |  |",
    ]


def test_the_later_of_two_runs_counts():
    table = verdicts.table([row("evicted", "native", "before", "no"), row("evicted", "native", "after", "yes")])
    assert "before" not in table
    assert "| evicted | `native` | `after` | yes |" in table


def test_a_message_stays_in_its_cell():
    assert r"| `it said 'a \| b' and went` |" in verdicts.table([row("odd", "native", "it said `a | b`\n  and went")])


@pytest.mark.parametrize(
    ("now", "is_current"),
    [
        (row("evicted", "native", "w failed first: it was lost, Evicted: so.", "yes", "Try again."), True),
        (row("evicted", "native", "w failed first: it was lost, Evicted: otherwise.", "yes", "Try again."), True),
        (row("evicted", "native", "w failed first: it was lost, Preempted: so.", "yes", "Try again."), False),
        (row("evicted", "native", "w failed first: it was lost, Evicted: so.", "no", "Try again."), False),
        (row("evicted", "native", "w failed first: it was lost, Evicted: so.", "yes", "Give up."), False),
        (row("evicted", "trainer", "w failed first: it was lost, Evicted: so.", "yes", "Try again."), False),
        (row("deleted", "native", "w failed first: it was lost, Evicted: so.", "yes", "Try again."), False),
    ],
)
def test_a_page_is_current_where_it_says_what_the_cluster_says(now, is_current):
    page = verdicts.table([row("evicted", "native", "w failed first: it was lost, Evicted: so.", "yes", "Try again.")])

    assert (verdicts.difference(now, page) is None) == is_current


def test_the_page_has_the_failures_that_the_tests_record_and_no_others():
    recorded = re.findall(r"""(?:failed|record_verdict)\(\s*"([^"]+)\"""", verdicts.TESTS.read_text())
    shown = re.findall(r"^\| ([^|]+) \| `", verdicts.PAGE.read_text(), re.MULTILINE)

    assert set(recorded) == set(shown)
    assert len(recorded) == len(set(recorded))


@pytest.mark.parametrize(("seconds", "what", "is_current"), [(12, "a", True), (45, "a", True), (45, "b", False)])
def test_a_page_is_current_however_long_the_tests_let_a_start_take(seconds, what, is_current):
    page = verdicts.table([row("quota", "native", "FailedCreate: a had not started 12 s after it could have: no")])
    now = row("quota", "native", f"FailedCreate: {what} had not started {seconds} s after it could have: no")

    assert (verdicts.difference(now, page) is None) == is_current


def test_every_row_of_the_page_is_found_again():
    """Also one whose words hold what separates cells."""
    page = verdicts.table([row("odd", "native", "a | b: c", "no")])
    assert verdicts.difference(row("odd", "native", "a | b: c", "no"), page) is None


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Job contract-train-0a1b2c3d4e-2 is gone", "Job JOB is gone"),
        ("pod contract-train-0a1b2c3d4e-1-node-0-1-x7k2p: lost", "pod JOB-node-0-1: lost"),
        ("pod contract-train-0a1b2c3d4e-1-worker-0: lost", "pod JOB-worker-0: lost"),
        ("in trainer-test-0a1b2c3d: no", "in NAMESPACE: no"),
        ("uid 123e4567-e89b-12d3-a456-426614174000 of", "uid UID of"),
        ("lookup x on 10.255.255.53:53: refused", "lookup x on ADDRESS: refused"),
        ("it was lost, Deleted: its pod", "it was lost or ended, Deleted: its pod"),
        ("it was ended by SIGTERM, Deleted: its pod", "it was lost or ended, Deleted: its pod"),
        ("it was ended by SIGTERM, Error: so", "it was ended by SIGTERM, Error: so"),
        ("exit code 1, version 2.3.0, rank 10", "exit code 1, version 2.3.0, rank 10"),
    ],
)
def test_what_differs_from_run_to_run_is_not_shown(message, shown):
    assert verdicts.stable(message) == shown
