"""The task view: complete, of known fields alone, and whatever is in XCom."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from airflow_trainer_provider.plugins.view.model.progress import better
from airflow_trainer_provider.plugins.view.model.records import TryRecord
from airflow_trainer_provider.plugins.view.model.replicas import MOST_ROWS, replicas_of
from airflow_trainer_provider.plugins.view.model.series import series_of, thinned
from airflow_trainer_provider.plugins.view.model.state import state_of
from airflow_trainer_provider.plugins.view.model.task_view import task_view
from airflow_trainer_provider.plugins.view.model.values import count, duration, listed, moment
from airflow_trainer_provider.plugins.view.model.waiting import nodes_by_reason
from tests.unit.plugins.view.model.samples import (
    EARLIER,
    FAILURE,
    JOB,
    NOW,
    PLACE,
    PROGRESS,
    REQUEST,
    RETURNED,
    ago,
    records,
    replica,
    status,
    with_job,
)


def view(shown, number=None, may_edit=True):
    return task_view(shown, number, may_edit, NOW)


RUNNING = with_job(status=status(), progress=PROGRESS)


def test_of_a_running_job_all_is_there():
    shown = view(records("deferred", RUNNING, earlier=EARLIER))

    assert shown["as_of"] == "2026-11-21T14:21:07Z"
    assert shown["stale"] is None
    assert shown["job"] == {
        **{name: JOB[name] for name in ("name", "uid", "backend", "framework", "owner", "leader")},
        "namespace": "training",
        "queue": None,
        "pool": None,
    }
    assert shown["progress"] == {
        "step": 6560,
        "total_steps": 20000,
        "percent": 32.8,
        "stalled": False,
        "reported_at": "2026-11-21T14:21:07Z",
        "rate": {"value": 1.6, "unit": "steps/s", "versus_previous": -0.2},
        "eta": {
            "earliest": "2026-11-21T16:13:07Z",
            "latest": "2026-11-21T16:21:07Z",
            "basis": "rate of the last minutes and of the last successful run",
        },
        "last_checkpoint": {"step": 6400, "at": "2026-11-21T14:19:07Z", "path": "/ckpt/6400"},
    }
    assert shown["typical"] == {"seconds": [7001, 7003], "runs": 3}
    assert shown["previous"] == {"run_id": "run-1", "label": "2026-11-20T14:21:07Z", "state": "succeeded"}
    assert shown["facts"]["resumed_from"] == {"step": 4000, "at": "2026-11-21T13:21:07Z", "path": "/ckpt/4000"}
    assert shown["facts"]["gpu_hours"] == {"so_far": 4.0, "estimated_total": [11.5, 12.0]}
    assert shown["facts"]["size"] == {"nodes": 4, "processes_per_node": 1, "gpus": 4}
    assert shown["facts"]["tools"] == [{"name": "tensorboard", "href": "https://tb.example/x"}]
    assert [row["name"] for row in shown["metrics"]] == ["loss", "lr", "accuracy", "eval_loss"]
    assert [row["better"] for row in shown["metrics"]] == ["lower", None, "higher", "lower"]
    assert [row["last"] for row in shown["metrics"]] == [1.965, "NaN", 0.5, None]
    assert shown["restarts"][0]["lost_steps"] == 212
    assert shown["durations"] == []
    assert shown["actions"] == {
        "suspend": {"allowed": True, "why": None},
        "resume": {"allowed": False, "why": "The job is not suspended."},
        "stop": {"allowed": True, "why": None},
    }
    assert (shown["wait"], shown["failure"], shown["airflow"], shown["hang"], shown["result"]) == (None,) * 5


def test_without_the_right_to_edit_the_reason_is_shown():
    actions = view(records("deferred", RUNNING), may_edit=False)["actions"]

    assert [each["allowed"] for each in actions.values()] == [False, False, False]
    assert actions["stop"]["why"] == "You may not edit this task instance."


def test_of_a_waiting_job_what_is_known_is_there():
    message = (
        "0/212 nodes are available: 4 node(s) were unschedulable, 208 Insufficient nvidia.com/gpu. preemption: no."
    )
    rows = [replica(0, started_at=None, reason="Unschedulable", message=message)]
    queued = status("queued", rows, queued_at=ago(26), started_at=None)

    wait = view(records("deferred", with_job(status=queued), earlier=EARLIER))["wait"]

    assert (wait["kind"], wait["position"], wait["since"]) == ("nodes", None, "2026-11-21T13:55:07Z")
    assert wait["nodes"] == {
        "total": 212,
        "rows": [
            {"count": 4, "why": "were unschedulable", "say": "take no new pods (cordoned)"},
            {"count": 208, "why": "Insufficient nvidia.com/gpu", "say": "not enough nvidia.com/gpu free"},
        ],
    }
    assert wait["history"] == {"median": 200, "p90": 300, "runs": 3, "so_far": 1560.0}
    assert (wait["gives_up_at"], wait["gives_up_setting"]) == ("2026-11-21T14:25:07Z", "startup_timeout_seconds")


def test_in_a_queue_the_time_to_start_does_not_run():
    xcoms = {"job": JOB, "request": {**REQUEST, "queue": "team-nlp"}, "status": status("queued", [])}

    wait = view(records("deferred", xcoms))["wait"]

    assert (wait["kind"], wait["queue"], wait["gives_up_at"]) == ("queue", "team-nlp", None)


def _wait_in_queue(**place):
    queued = status("queued", [], queue={**PLACE, **place})
    xcoms = {"job": JOB, "request": {**REQUEST, "queue": "team-nlp"}, "status": queued}
    return view(records("deferred", xcoms))["wait"]


TOO_LATE = "The job should have started by now; what was seen of the queue does not hold any more."


def test_in_a_queue_the_place_is_there():
    wait = _wait_in_queue()

    assert (wait["kind"], wait["queue"], wait["cluster_queue"]) == ("queue", "team-nlp", "research")
    assert (wait["position"], wait["length"], wait["behind"], wait["cluster_position"]) == (3, 7, 4, 5)
    assert wait["missing"] == [
        {"resource": "GPU", "pool": "a100", "total": 32, "used": 30, "free": 2, "needed": 4},
        {"resource": "GiB memory", "pool": "a100", "total": None, "used": None, "free": 1, "needed": 2.5},
    ]
    # What has passed of the range is left out.
    assert wait["estimate"] == {
        "earliest": "2026-11-21T14:21:07Z",
        "latest": "2026-11-21T14:51:07Z",
        "basis": "From the last 24 admissions to this queue: one every 6 min.",
    }
    assert wait["estimate_why"] is None


@pytest.mark.parametrize(
    ("place", "known"),
    [
        ({"length": None}, {"position": 3, "length": None, "behind": None}),
        ({"length": 2}, {"position": 3, "length": 2, "behind": 0}),
        (
            {"position": None, "length": None, "estimate": None, "estimate_why": "No user may ask."},
            {"position": None, "behind": None, "estimate": None, "estimate_why": "No user may ask."},
        ),
        (
            {"estimate": {"earliest": ago(20), "latest": ago(1), "basis": "Seen."}},
            {
                "estimate": None,
                "estimate_why": TOO_LATE,
            },
        ),
    ],
    ids=["length unknown", "length older than position", "position unknown", "late"],
)
def test_what_is_not_known_of_a_place_is_none(place, known):
    wait = _wait_in_queue(**place)

    assert {name: wait[name] for name in known} == known


def test_of_a_failed_job_the_verdict_is_there_and_what_airflow_does():
    shown = view(records("up_for_retry", with_job(status=status(), failure=FAILURE), max_tries=2))

    assert shown["failure"] == {
        **FAILURE,
        "at": "2026-11-21T14:21:07Z",
        "step": None,
        "ranks": None,
        "others": [{"name": None, "replica": "master-0", "reason": "Stopped", "signal": "SIGTERM", "exit_code": None}],
    }
    assert shown["airflow"]["title"] == "Retries"
    assert shown["tries"] == [{"number": 1, "phase": "failed"}]
    assert (shown["max_tries"], shown["status"]["phase"]) == (3, "failed")
    assert not any(each["allowed"] for each in shown["actions"].values())


@pytest.mark.parametrize(
    ("max_tries", "note"),
    [(0, "no retries are left"), (1, "failed for good, 1 retry left"), (2, "failed for good, 2 retries left")],
)
def test_a_task_that_failed_for_good_says_what_is_left(max_tries, note):
    shown = view(records("failed", with_job(failure=FAILURE), try_number=1, max_tries=max_tries))

    assert shown["airflow"] == {"title": "Does not retry", "note": note}


def test_of_a_job_that_succeeded_the_result_is_there():
    shown = view(records("success", with_job(status=status(), return_value=RETURNED)))

    assert shown["result"] == {
        "json": {"path": "/model"},
        "error": None,
        "metrics": {"eval_loss": 1.814},
        "better": {"eval_loss": "lower"},
        "versus": {},
    }
    assert shown["facts"]["peak"] == {"memory_bytes": 5, "memory_replica": "master-0", "gpu_memory_bytes": None}
    assert shown["facts"]["gpu_hours"]["so_far"] == 4.0
    assert shown["durations"] == [{"kind": "queued", "seconds": 600}, {"kind": "running", "seconds": 3600}]


@pytest.mark.parametrize(
    "xcoms", [RUNNING, with_job(status=status("queued", [], queued_at=ago(26)))], ids=["running", "queued"]
)
def test_while_nothing_happens_the_view_stays_the_same(xcoms):
    def at(seconds):
        seen = NOW + timedelta(seconds=seconds)
        shown = task_view(records("deferred", xcoms, waiter_seen_at=seen, earlier=EARLIER), None, True, seen)
        return {name: value for name, value in shown.items() if name != "as_of"}

    assert at(0) == at(5) == at(20)


def test_an_earlier_try_is_shown_as_airflow_has_it():
    tries = (TryRecord(1, "failed", NOW - timedelta(hours=2), NOW - timedelta(hours=1)), TryRecord(2, "running"))
    shown = view(records(xcoms={**RUNNING, "job": {**JOB, "owner": 2}}, try_number=2, tries=tries), number=1)

    assert (shown["try_number"], shown["job"], shown["status"]["phase"]) == (1, None, "failed")
    assert shown["tries"] == [{"number": 1, "phase": "failed"}, {"number": 2, "phase": "running"}]


def test_while_nothing_is_reported_the_last_that_is_known_stays():
    seen = NOW - timedelta(minutes=12)
    shown = view(records("deferred", with_job(status=status(as_of=ago(12))), waiter_seen_at=seen))

    assert shown["stale"] == {
        "since": "2026-11-21T14:09:07Z",
        "why": "The triggerer does not report; the job itself may go on.",
    }
    assert shown["as_of"] == "2026-11-21T14:09:07Z"
    assert shown["status"]["phase"] == "running"


def test_while_the_triggerer_is_there_what_it_wrote_last_is_still_so():
    shown = view(records("deferred", with_job(status=status(as_of=ago(12)))))

    assert (shown["stale"], shown["as_of"]) == (None, "2026-11-21T14:21:05Z")


def test_between_two_tries_the_job_is_not_over():
    tries = (TryRecord(1, "up_for_retry", NOW - timedelta(minutes=75), NOW - timedelta(minutes=3)),)
    shown = records("up_for_retry", RUNNING, tries=tries, max_tries=2)

    shown_view, rows = view(shown), replicas_of(state_of(shown, None, NOW))["rows"]

    assert shown_view["stale"] == {
        "since": "2026-11-21T14:18:07Z",
        "why": "The task waits for its next try; the job itself may go on.",
    }
    assert (shown_view["as_of"], shown_view["status"]["finished_at"]) == ("2026-11-21T14:18:07Z", None)
    assert {row["state"] for row in rows} == {"running"}


HOSTILE = [None, 7, "text", [], ["x"], {}, {"phase": "dancing"}, {"phase": ["running"]}, float("nan"), True]


@pytest.mark.parametrize("key", ["job", "request", "status", "progress", "failure", "return_value"])
@pytest.mark.parametrize("value", HOSTILE, ids=repr)
@pytest.mark.parametrize("state", ["deferred", "success", "failed"])
def test_whatever_is_in_xcom_the_view_is_made(key, value, state):
    shown = records(state, {**RUNNING, "failure": FAILURE, "return_value": RETURNED, key: value})

    json.dumps([view(shown), replicas_of(state_of(shown, None, NOW))], allow_nan=False)


def _hostile(value):
    """The same mapping, with something else at each place."""
    if isinstance(value, dict):
        return {name: each if name == "phase" else _hostile(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_hostile(each) for each in value]
    return {"a": "mapping"} if isinstance(value, (str, type(None))) else "text"


def test_whatever_the_fields_are_the_view_is_made():
    xcoms = {name: _hostile(value) for name, value in {**RUNNING, "failure": FAILURE, "return_value": RETURNED}.items()}

    json.dumps(view(records("deferred", xcoms)), allow_nan=False)


def test_no_field_is_shown_that_is_not_known():
    secret = "PLANTED-SECRET"
    extra = {"env": {"TOKEN": secret}, "password": secret}
    xcoms = {
        "job": {**JOB, **extra, "location": secret},
        "request": {**REQUEST, **extra, "requested": {**REQUEST["requested"], **extra}},
        "status": {**status(replicas=[replica(0, **extra)]), **extra},
        "progress": {**PROGRESS, **extra, "checkpoint": {**PROGRESS["checkpoint"], **extra}},
        "failure": {**FAILURE, **extra, "others": [{**FAILURE["others"][0], **extra}]},
        "return_value": {**RETURNED, **extra},
    }
    shown = records("deferred", xcoms)

    assert secret not in json.dumps([view(shown), replicas_of(state_of(shown, None, NOW))])


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("eval_loss", "lower"),
        ("WER", "lower"),
        ("val/rmse", "lower"),
        ("answer_accuracy", "higher"),
        ("cancer_auc", "higher"),
        ("confidence_f1", "higher"),
        ("mAP50", "higher"),
        ("top1_acc", "higher"),
        ("val_acc1", "higher"),
        ("trace_bitmap", None),
        ("faced", None),
    ],
)
def test_a_metrics_name_says_where_it_gets_better(name, direction):
    assert better(name) == direction


def test_a_series_has_each_attempt_and_the_last_run_behind():
    series = series_of("loss", PROGRESS, EARLIER[0].xcoms["progress"])

    assert series["better"] == "lower"
    assert [part["attempt"] for part in series["train"]] == [0, 1]
    assert series["train"][0] == {"attempt": 0, "step": [1, 2, 3], "at": [1.0, 2.0, 3.0], "value": [3.0, None, 2.5]}
    assert series["eval"][0]["value"] == [2.9]
    assert series["previous"] == series["train"]
    assert series_of("none", PROGRESS, {})["train"] == []


@pytest.mark.parametrize("points", [2, 10, 500])
def test_a_thinned_curve_keeps_its_extremes_and_both_ends(points):
    values = [float(at % 7) for at in range(5000)]
    values[2345], values[4000] = 99.0, -99.0
    values[1000:1200] = [None] * 200

    kept = thinned(values, points)

    assert len(kept) <= points
    assert kept == sorted(set(kept))
    assert {0, 4999} <= set(kept)
    assert points < 4 or {2345, 4000} <= set(kept)


@pytest.mark.parametrize(
    ("phase", "fields", "state"),
    [
        ("running", {}, "running"),
        ("running", {"segments": [["queued", 1, 2], ["starting", 2, None]]}, "starting"),
        ("running", {"started_at": None}, "queued"),
        ("running", {"finished_at": ago(1), "reason": "Completed"}, "succeeded"),
        ("failed", {"finished_at": ago(1), "reason": "OOMKilled", "signal": "SIGKILL"}, "failed"),
        ("failed", {"finished_at": ago(1), "reason": "Stopped"}, "stopped"),
        ("failed", {}, "stopped"),
        ("suspended", {"started_at": None}, "suspended"),
    ],
)
def test_a_replica_has_a_state_and_segments(phase, fields, state):
    shown = state_of(records("deferred", with_job(status=status(phase, [replica(0, **fields)]))), None, NOW)

    (row,) = replicas_of(shown)["rows"]

    assert row["state"] == state
    assert all(len(segment) == 3 for segment in row["segments"])
    assert bool(row["events"]) == ("finished_at" in fields)


def test_the_rows_of_one_answer_are_bounded():
    rows = [replica(index) for index in range(MOST_ROWS + 5)]
    shown = replicas_of(state_of(records(xcoms=with_job(status=status(replicas=rows))), None, NOW))

    assert (shown["total"], len(shown["rows"])) == (MOST_ROWS + 5, MOST_ROWS)


@pytest.mark.parametrize("message", [None, "", "no quota", "0/3 nodes are available: something."])
def test_a_message_that_is_not_the_schedulers_is_not_taken_apart(message):
    assert nodes_by_reason(message) is None


def test_values_are_written_for_people():
    assert [duration(each) for each in (8, 518, 1680, 7920, 273600)] == [
        "8 s",
        "8 min 38 s",
        "28 min",
        "2 h 12 min",
        "3 d 4 h",
    ]
    assert (count(1, "replica"), count(1200, "step")) == ("1 replica", "1,200 steps")
    assert [listed(list(names)) for names in ("a", "ab", "abc", "abcdef")] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b and 4 others",
    ]
    assert moment("2026-11-21T14:21:07Z") == moment("2026-11-21T14:21:07") == NOW
    assert [moment(each) for each in ("soon", 7, None)] == [None, None, None]


def test_the_peak_is_that_of_the_replica_with_the_most():
    rows = [replica(at, peak_memory_bytes=peak) for at, peak in enumerate((5, 9, 0, None))]

    peak = view(records("deferred", with_job(status=status(replicas=rows))))["facts"]["peak"]

    assert (peak["memory_bytes"], peak["memory_replica"]) == (9, "worker-0")


def test_a_suspended_job_can_be_resumed_and_stopped():
    assert view(records("deferred", with_job(status=status("suspended", []))))["actions"] == {
        "suspend": {"allowed": False, "why": "The job is suspended already."},
        "resume": {"allowed": True, "why": None},
        "stop": {"allowed": True, "why": None},
    }


def test_a_failed_training_shows_how_far_it_came_and_no_estimate():
    shown = view(records("failed", with_job(status=status(), progress=PROGRESS, failure=FAILURE)))

    assert shown["failure"]["step"] == 6560
    assert (shown["progress"]["eta"], shown["facts"]["gpu_hours"]["estimated_total"]) == (None, None)


def test_a_small_curve_has_both_ends_of_all_attempts():
    spans = (range(70), range(70, 100))
    parts = [{"attempt": at, "value": [float(each) for each in span]} for at, span in enumerate(spans)]

    (row,) = view(records("deferred", with_job(progress={"history": {"loss": parts}})))["metrics"]

    assert (len(row["spark"]), row["spark"][0], row["spark"][-1]) == (40, 0.0, 99.0)


def test_a_replica_whose_end_nothing_saw_has_succeeded_with_its_job():
    shown = records("success", with_job(status=status(), return_value={**RETURNED, "replicas": []}))

    assert {row["state"] for row in replicas_of(state_of(shown, None, NOW))["rows"]} == {"succeeded"}


def test_a_start_after_an_earlier_one_is_a_restart():
    once, again = [["starting", 1, 2], ["running", 2, 5]], [["starting", 5, 6], ["running", 6, None]]
    rows = [replica(0, segments=once), replica(1, segments=[*once, *again])]

    shown = replicas_of(state_of(records("deferred", with_job(status=status(replicas=rows))), None, NOW))["rows"]

    assert [row["events"] for row in shown] == [[], [{"at": 6, "kind": "restart", "text": "Restarted"}]]


def test_a_replica_that_never_started_waited_until_the_end_of_its_job():
    ended = status("failed", [replica(0, started_at=None)], started_at=None, finished_at=ago(10))

    (row,) = replicas_of(state_of(records("failed", with_job(status=ended, failure=FAILURE)), None, NOW))["rows"]

    since, until = ((NOW - timedelta(minutes=each)).timestamp() for each in (70, 10))
    assert row["segments"] == [["queued", since, until]]


def test_a_thinned_curve_keeps_its_gaps():
    values = [1.0] * 1000 + [None] * 200 + [1.0] * 1000

    assert None in [values[at] for at in thinned(values, 50)]


def test_a_starting_job_has_no_position_in_a_queue():
    wait = view(records("deferred", with_job(status=status("starting", [], queue=PLACE))))["wait"]

    assert (wait["kind"], wait["position"], wait["missing"], wait["estimate"]) == ("nodes", None, [], None)


def test_a_starting_job_shows_how_long_it_waits():
    starting = status("starting", [replica(0, started_at=None)])

    wait = view(records("deferred", with_job(status=starting), earlier=EARLIER))["wait"]

    assert (wait["since"], wait["history"]["median"]) == ("2026-11-21T13:11:07Z", 200)


def test_the_view_is_as_old_as_the_last_report_of_the_script():
    xcoms = with_job(status=status(as_of=ago(12)), progress={**PROGRESS, "reported_at": ago(7)})

    shown = view(records("deferred", xcoms, waiter_seen_at=NOW - timedelta(minutes=12)))

    assert (shown["as_of"], shown["stale"]["since"]) == ("2026-11-21T14:14:07Z", "2026-11-21T14:09:07Z")


def test_a_cancelled_job_shows_what_airflow_does():
    cancelled = with_job(failure={**FAILURE, "phase": "cancelled"})

    assert view(records("failed", cancelled))["airflow"] == {"title": "Does not retry", "note": "no retries are left"}
    assert view(records("up_for_retry", cancelled, max_tries=1))["airflow"]["title"] == "Retries"


@pytest.mark.parametrize(
    ("seconds", "written"), [(59.6, "1 min"), (599, "9 min 59 s"), (3569, "59 min"), (3599, "1 h"), (86399, "1 d")]
)
def test_a_duration_is_rounded_to_the_units_that_it_is_written_in(seconds, written):
    assert duration(seconds) == written


def test_the_schedulers_reasons_are_shown_in_plain_words():
    reasons = {
        "had untolerated taint {gpu: true}": "have a taint that the job does not tolerate",
        "didn't match Pod's node affinity/selector": "are not among the nodes that the job asks for",
        "Insufficient cpu": "not enough cpu free",
        "Too many pods": "Too many pods",
    }
    message = f"0/4 nodes are available: {', '.join(f'1 {why}' for why in reasons)}. preemption: no."

    assert {row["why"]: row["say"] for row in nodes_by_reason(message)["rows"]} == reasons
