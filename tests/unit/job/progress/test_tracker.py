"""The progress of a job over its lines, restarts and statuses. The clock is made up."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.job.progress.tracker import Tracker
from airflow_trainer_provider.job.status import JobPhase, JobStatus, Progress, ReplicaStatus

START = datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()
RUNNING = JobStatus(phase=JobPhase.RUNNING, queued_at=datetime(2026, 1, 1, tzinfo=timezone.utc))


def tracker(earlier=None, job="u", **metrics):
    return Tracker(job, "worker-0", metrics, earlier)


def report(tracker, at, /, position=None, **fields):
    line = json.dumps({"trainer_progress": fields})
    tracker.observe(line, START + at, position or (int(at * 1000) + 1, 1))


def iso(seconds):
    return datetime.fromtimestamp(START + seconds, timezone.utc).isoformat(timespec="milliseconds")


def test_nothing_while_nothing_is_reported():
    found = tracker(loss=r"loss=(\S+)")
    found.observe("hello", START, (1, 1))
    found.observe_status(RUNNING, START)

    assert found.snapshot() is None
    assert found.summary() is None
    assert found.version == 0


def test_a_snapshot_has_all_that_views_show():
    found = tracker()
    for at in range(0, 101, 10):
        report(found, at, step=2 * at, total_steps=1000, metrics={"loss": 2 - at / 100})
    report(found, 100, step=200, checkpoint={"step": 180, "path": "/c/180"}, metrics={"grad": math.nan})

    snapshot = found.snapshot()
    history = snapshot.pop("history")
    assert snapshot == {
        "step": 200,
        "total_steps": 1000,
        "percent": 20.0,
        "steps_per_second": 2.0,
        "estimated_end": iso(500),
        "reported_at": iso(100),
        "metrics": {"loss": 1.0, "grad": "NaN"},
        "attempt": 0,
        "restarts": [],
        "checkpoint": {"step": 180, "at": iso(100), "path": "/c/180"},
        "resumed_from": None,
        "position": ["u", 100001, 1],
    }
    assert history["loss"][0]["step"] == list(range(0, 201, 20))
    assert history["grad"] == [{"attempt": 0, "step": [200], "at": [START + 100], "value": [None]}]
    assert found.metrics == {"loss": 1.0}
    json.dumps(snapshot, allow_nan=False)


def test_steps_that_go_back_begin_an_attempt():
    found = tracker()
    for at, step in ((0, 0), (60, 120), (70, 100), (80, 110)):
        report(found, at, step=step, metrics={"loss": 1.0})

    snapshot = found.snapshot()
    assert snapshot["attempt"] == 1
    assert snapshot["restarts"] == [{"at": iso(70), "from_step": 100, "lost_steps": 20}]
    assert snapshot["steps_per_second"] == 1.0
    assert [entry["step"] for entry in snapshot["history"]["loss"]] == [[0, 120], [100, 110]]


def test_a_training_that_resumes_names_the_checkpoint_and_its_step():
    found = tracker()
    report(found, 0, step=120, checkpoint={"step": 100, "path": "/c/100"})
    report(found, 60, resumed_from={"path": "/c/100"})
    report(found, 70, step=101)

    snapshot = found.snapshot()
    assert snapshot["resumed_from"] == {"step": 100, "at": iso(60), "path": "/c/100"}
    assert snapshot["restarts"] == [{"at": iso(70), "from_step": 101, "lost_steps": 19}]
    again = Tracker("u", "worker-0", {}, snapshot)
    assert again.snapshot()["resumed_from"] == snapshot["resumed_from"]
    report(again, 80, resumed_from={"step": 7, "path": "/c/other"})
    assert again.snapshot()["resumed_from"] == {"step": 7, "at": iso(80), "path": "/c/other"}


@pytest.mark.parametrize(
    ("seconds", "extra", "restart", "unsaved"),
    [
        (1200, {}, "status", "1,200 steps, about 20 minutes of work"),
        (1200, {}, "late status", "1,200 steps, about 20 minutes of work"),
        (1200, {}, "other job", "1,200 steps, about 20 minutes of work"),
        # Steps that are counted from 0 again in each epoch.
        (1200, {}, "none", None),
        (300, {}, "status", None),
        (1200, {"checkpoint": {"step": 3}}, "status", None),
        (1200, {"resumed_from": {"path": "/c"}}, "other job", None),
    ],
)
def test_a_restart_that_costs_much_without_a_checkpoint_is_noted(seconds, extra, restart, unsaved):
    found = tracker()
    found.observe_status(RUNNING, START)
    restarted = RUNNING.model_copy(update={"restarts": 1})
    for at in range(0, seconds + 1, 60):
        report(found, at, step=at, **extra)
    if restart == "other job":
        found = Tracker("v", "worker-0", {}, found.snapshot())
    if restart == "status":
        found.observe_status(restarted, START + seconds + 10)
    report(found, seconds + 60, step=0)
    if restart == "late status":
        assert found.unsaved is None
        found.observe_status(restarted, START + seconds + 70)

    assert found.unsaved == unsaved


@pytest.mark.parametrize("goes_back", [True, False])
def test_a_restart_of_the_job_begins_one_attempt(goes_back):
    found = tracker()
    found.observe_status(RUNNING.model_copy(update={"restarts": 2}), START)
    report(found, 10, step=50)
    found.observe_status(RUNNING.model_copy(update={"restarts": 3}), START + 20)
    # A line of the time before that comes late.
    report(found, 21, step=52)
    assert found.snapshot()["attempt"] == 0

    report(found, 30, step=40 if goes_back else 53)
    report(found, 31, step=54)

    lost = {"at": iso(30), "from_step": 40 if goes_back else 53, "lost_steps": 12 if goes_back else 0}
    assert found.snapshot()["restarts"] == [lost]


@pytest.mark.parametrize(("late", "attempt"), [(30, 1), (90, 2)])
def test_a_restart_whose_lines_overtake_its_status_begins_one_attempt(late, attempt):
    found = tracker()
    found.observe_status(RUNNING, START)
    report(found, 10, step=50)
    report(found, 20, step=40)
    found.observe_status(RUNNING.model_copy(update={"restarts": 1}), START + 20 + late)
    report(found, 130, step=41)
    assert found.snapshot()["attempt"] == attempt

    found.observe_status(RUNNING.model_copy(update={"restarts": 2}), START + 140)
    report(found, 150, step=42)

    assert found.snapshot()["attempt"] == attempt + 1


def test_a_restart_of_the_leader_alone_counts():
    found = tracker()
    replica = ReplicaStatus(group="worker", index=0)
    found.observe_status(RUNNING.model_copy(update={"replicas": (replica,)}), START)
    report(found, 1, step=1)
    again = replica.model_copy(update={"restarts": 1})
    found.observe_status(RUNNING.model_copy(update={"replicas": (again,)}), START + 2)
    report(found, 10, step=2)

    assert found.snapshot()["attempt"] == 1


def test_the_controllers_progress_counts_too():
    found = tracker()
    known = Progress(percent=45, remaining_seconds=800, metrics={"loss": 0.5})
    for _ in range(2):
        found.observe_status(RUNNING.model_copy(update={"progress": known}), START + 5)

    snapshot = found.snapshot()
    assert found.version == 1
    assert (snapshot["percent"], snapshot["step"], snapshot["estimated_end"]) == (45, None, iso(805))
    assert snapshot["history"] == {"loss": [{"attempt": 0, "step": [None], "at": [START + 5], "value": [0.5]}]}


def test_the_controllers_progress_counts_once_for_two_processes():
    known = Progress(percent=45, remaining_seconds=800, metrics={"loss": 0.5})
    first = tracker()
    first.observe_status(RUNNING.model_copy(update={"progress": known}), START + 5)
    second = tracker(first.snapshot())
    second.observe_status(RUNNING.model_copy(update={"progress": known}), START + 60)

    assert second.snapshot() == first.snapshot()
    assert second.version == 0

    again = known.model_copy(update={"percent": 46})
    second.observe_status(RUNNING.model_copy(update={"progress": again}), START + 70)
    second.observe_status(RUNNING.model_copy(update={"progress": known}), START + 80)
    assert second.version == 2
    other = tracker(first.snapshot(), job="another")
    other.observe_status(RUNNING.model_copy(update={"progress": known}), START + 60)
    assert other.version == 1


def test_of_steps_and_percent_the_last_one_counts():
    found, percents = tracker(), []
    for at, fields in enumerate(
        (
            {"percent": 0, "total_steps": 40},
            # Of both in one report the steps are finer.
            {"percent": 30, "step": 13},
            {"metrics": {"loss": 0.5}},
            {"step": 39, "percent": 97},
            # An end that comes before the next report of a step.
            {"percent": 100, "remaining_seconds": 0},
        )
    ):
        report(found, at, **fields)
        percents.append(found.snapshot()["percent"])
    assert percents == [0, 32.5, 32.5, 97.5, 100]

    # The next process knows that as well, and another attempt ends it.
    second = tracker(found.snapshot())
    assert (second.snapshot()["percent"], second.snapshot()["step"]) == (100, 39)
    report(second, 10, step=2)
    assert second.snapshot()["percent"] == 5
    assert tracker(second.snapshot()).snapshot()["percent"] == 5


def test_percent_counts_where_no_total_of_steps_is_known():
    found = tracker()
    report(found, 0, step=3, percent=20)
    report(found, 1, step=4)

    assert found.snapshot()["percent"] == 20


def test_an_end_in_the_far_future_is_unknown():
    found = tracker()
    report(found, 0, step=0, total_steps=10**15)
    report(found, 1000, step=1)

    assert found.snapshot()["estimated_end"] is None


def test_a_burst_of_old_lines_is_no_rate():
    found = tracker()
    for step in range(5000):
        found.observe(json.dumps({"trainer_progress": {"step": step}}), START, (1, step))
    assert found.snapshot()["steps_per_second"] is None
    found.observe('{"trainer_progress": {"step": 5009}}', START + 10, (2, 1))

    assert found.snapshot()["steps_per_second"] == 1.0


def test_malformed_reports_are_ignored_and_the_first_reason_is_kept():
    found = tracker(loss=r"loss=(\S+)")
    found.observe("loss=high", START, (1, 1))
    found.observe('{"trainer_progress": []}', START, (1, 2))

    assert found.snapshot() is None
    assert found.ignored == "the expression for loss has found 'high', which is no number"


def test_what_an_expression_finds_discards_no_json_report():
    found = tracker(loss=r"loss=(\S+)")
    found.observe('loss=0.5, {"trainer_progress": {"step": 3}}', START, (1, 1))

    assert found.snapshot()["step"] == 3
    assert found.ignored == "the expression for loss has found '0.5,', which is no number"


def test_no_line_ends_the_reading(monkeypatch):
    def fail(text):
        raise KeyError("x")

    monkeypatch.setattr("airflow_trainer_provider.job.progress.tracker.read_json_line", fail)
    found = tracker(loss=r"loss=(\S+)")
    found.observe("loss=0.5", START, (1, 1))

    assert found.snapshot()["metrics"] == {"loss": 0.5}
    assert found.ignored == "KeyError: 'x'"


def test_too_many_metrics_are_ignored():
    found = tracker()
    for name in range(33):
        report(found, 0, metrics={f"m{name}": 1})

    assert len(found.snapshot()["metrics"]) == 32
    assert found.ignored == "the job has more than 32 metrics"


def test_another_process_goes_on_with_nothing_twice_and_nothing_lost():
    lines = [
        (json.dumps({"trainer_progress": {"step": step, "metrics": {"loss": 1 / step}}}), step)
        for step in [*range(1, 40), *range(30, 60)]
    ]
    whole, first = tracker(), tracker()
    for number, (line, _) in enumerate(lines):
        whole.observe(line, START + number, (number, 1))
    for number, (line, _) in enumerate(lines[:50]):
        first.observe(line, START + number, (number, 1))
    snapshot = json.loads(json.dumps(first.snapshot()))

    second = tracker(snapshot)
    assert second.position == (49, 1)
    for number, (line, _) in list(enumerate(lines))[30:]:
        second.observe(line, START + number, (number, 1))

    assert second.snapshot() == whole.snapshot() | {"steps_per_second": second.snapshot()["steps_per_second"]}


def test_another_job_of_the_task_begins_an_attempt():
    first = tracker()
    report(first, 10, step=100)

    second = tracker(first.snapshot(), job="another")
    assert second.position is None
    report(second, 12, step=101)

    assert second.snapshot()["restarts"] == [{"at": iso(12), "from_step": 101, "lost_steps": 0}]


SNAPSHOT = {"reported_at": iso(0), "history": {}, "metrics": {}, "position": ["u"]}


@pytest.mark.parametrize(
    "earlier",
    [
        {},
        {"reported_at": "now"},
        {**SNAPSHOT, "history": []},
        {**SNAPSHOT, "history": {"loss": [{"attempt": 0, "step": [[]], "at": [1], "value": [1]}]}},
        {**SNAPSHOT, "metrics": {"loss": 10**400}},
        {**SNAPSHOT, "step": "many"},
        {**SNAPSHOT, "step": 10**400},
        {**SNAPSHOT, "total_steps": 0},
        {**SNAPSHOT, "percent": []},
        {**SNAPSHOT, "attempt": [1]},
        {**SNAPSHOT, "restarts": 5},
        {**SNAPSHOT, "restarts": [5]},
        {**SNAPSHOT, "checkpoint": "last"},
    ],
)
def test_what_is_no_snapshot_is_ignored(earlier):
    assert tracker(earlier).snapshot() is None


def test_a_snapshot_without_values_that_may_be_missing_is_one():
    assert tracker(SNAPSHOT).snapshot()["reported_at"] == iso(0)
