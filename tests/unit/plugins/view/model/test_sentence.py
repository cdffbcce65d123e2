"""The sentence: of each state, and never too long."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_trainer_provider.plugins.view.model.records import TryRecord
from airflow_trainer_provider.plugins.view.model.sentence import DETAIL_LENGTH, SUMMARY_LENGTH, sentence_of
from airflow_trainer_provider.plugins.view.model.state import state_of
from tests.unit.plugins.view.model.samples import (
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

QUEUE = {"job": JOB, "request": {**REQUEST, "queue": "team-nlp"}}
UNSCHEDULABLE = {"started_at": None, "reason": "Unschedulable", "message": "no node fits"}
WAITING = [replica(0), replica(1, **UNSCHEDULABLE), replica(2, **UNSCHEDULABLE), replica(3)]
NO_IMAGE = {"started_at": None, "reason": "ImagePullBackOff", "message": "no such image"}
NODE_LOST = {"traceback": [], "reason": "NodeLost", "message": "gpu-243 stopped responding.", "others": []}
#: Name -> records, phase, summary, detail.
STATES = {
    "running": (
        records(xcoms=with_job(status=status(), progress=PROGRESS)),
        "running",
        "All 4 replicas are training.",
        "Restarted once; 212 steps were repeated.",
    ),
    "running, a replica is replaced": (
        records(xcoms=with_job(status=status(replicas=[*WAITING[:2], replica(2)]), progress=PROGRESS)),
        "running",
        "2 of 3 replicas are training.",
        "Restarted once; 212 steps were repeated.",
    ),
    "nothing reported": (
        records("deferred", with_job(status=status())),
        "running",
        "All 4 replicas are running.",
        "The script reports no progress, so step, rate and end are unknown.",
    ),
    "one replica": (
        records(xcoms=with_job(status=status(replicas=[replica(0)]))),
        "running",
        "The job is running.",
        "The script reports no progress, so step, rate and end are unknown.",
    ),
    "waiting in a queue": (
        records("deferred", {**QUEUE, "status": status("queued", [], message="needs 4 GPU.")}),
        "queued",
        "Waiting in queue team-nlp: needs 4 GPU.",
        "It has been waiting for 1 h 10 min.",
    ),
    "waiting in a queue, no reason": (
        records("deferred", {**QUEUE, "status": status("queued", [])}),
        "queued",
        "Waiting in queue team-nlp: its position and what is missing are not known.",
        "It has been waiting for 1 h 10 min.",
    ),
    "waiting at a known position": (
        records("deferred", {**QUEUE, "status": status("queued", [], queue=PLACE)}),
        "queued",
        "Position 3 of 7 in queue team-nlp: needs 4 GPU, 2 free in a100.",
        "It has been waiting for 1 h 10 min. It may start within 30 min.",
    ),
    "waiting at a known position, nothing else known": (
        records(
            "deferred",
            {**QUEUE, "status": status("queued", [], queue={"name": "team-nlp", "position": 1, "estimate_why": "No."})},
        ),
        "queued",
        "Position 1 in queue team-nlp.",
        "It has been waiting for 1 h 10 min.",
    ),
    "waiting at a known position, for long": (
        records(
            "deferred",
            {
                **QUEUE,
                "status": status(
                    "queued",
                    [],
                    queue={
                        **PLACE,
                        "missing": [],
                        "estimate": {"earliest": ago(-60), "latest": ago(-90), "basis": "Seen."},
                    },
                ),
            },
        ),
        "queued",
        "Position 3 of 7 in queue team-nlp.",
        "It has been waiting for 1 h 10 min. It may start in 1 h to 1 h 30 min.",
    ),
    "waiting where the position may not be known": (
        records(
            "deferred",
            {
                **QUEUE,
                "status": status(
                    "queued",
                    [],
                    message="couldn't assign flavors",
                    queue={"name": "team-nlp", "estimate_why": "The position is not known: no user may ask."},
                ),
            },
        ),
        "queued",
        "Waiting in queue team-nlp: couldn't assign flavors.",
        "It has been waiting for 1 h 10 min. The position is not known: no user may ask.",
    ),
    "waiting in a queue, with something else in XCom": (
        records("deferred", {**QUEUE, "status": status("queued", [], queue={"name": "x", "position": "first"})}),
        "queued",
        "Waiting in queue team-nlp: its position and what is missing are not known.",
        "It has been waiting for 1 h 10 min.",
    ),
    "waiting without a queue": (
        records("deferred", with_job(status=status("queued", WAITING, queued_at=ago(1)))),
        "queued",
        "No node has room for 2 of 4 replicas.",
        "worker-0 and worker-1 are waiting for a node; the others wait for them. It has been waiting for 1 min.",
    ),
    "waiting, all that is known is the job's reason": (
        records("deferred", with_job(status=status("queued", [], message="quota exceeded"))),
        "queued",
        "Waiting to start: quota exceeded.",
        "It has been waiting for 1 h 10 min.",
    ),
    "submitted": (
        records(),
        "starting",
        "The job was submitted; its state has not been reported yet.",
        None,
    ),
    "starting": (
        records(xcoms=with_job(status=status("starting", [replica(0), replica(1, started_at=None)]))),
        "starting",
        "Starting: 1 of 2 replicas runs.",
        "worker-0 is starting.",
    ),
    "starting, an image is pulled": (
        records(
            xcoms=with_job(
                status=status(
                    "starting",
                    [replica(0, started_at=None, reason="Init:ContainerCreating"), replica(1)],
                    reason=None,
                    message='master-0: Pulling image "train:1"',
                )
            )
        ),
        "starting",
        "Starting: 1 of 2 replicas runs.",
        'master-0: Pulling image "train:1"',
    ),
    "starting, an image is missing": (
        records(
            xcoms=with_job(
                status=status(
                    "starting", [replica(0, started_at=None, reason="ImagePullBackOff", message="no such image")]
                )
            )
        ),
        "starting",
        "master-0 cannot start: ImagePullBackOff.",
        "no such image",
    ),
    "restarting": (
        records(xcoms=with_job(status=status("restarting", message="worker-1 was evicted."), progress=PROGRESS)),
        "restarting",
        "The job is starting again: worker-1 was evicted.",
        "The last checkpoint is of step 6,400.",
    ),
    "suspended": (
        records("deferred", {**QUEUE, "status": status("suspended", []), "progress": PROGRESS}),
        "suspended",
        "Suspended. It holds no GPU.",
        "A resume puts the job back into queue team-nlp. The last checkpoint is of step 6,400.",
    ),
    "failed": (
        records("failed", with_job(status=status(), failure=FAILURE)),
        "failed",
        "ModuleNotFoundError: No module named 'x'",
        "worker-0 (rank 1) failed first; the other 1 replica stopped. It had run for 1 h.",
    ),
    "failed, node lost": (
        records(
            "up_for_retry",
            with_job(
                status=status(),
                progress=PROGRESS,
                failure={
                    **FAILURE,
                    "traceback": [],
                    "reason": "NodeLost",
                    "message": "gpu-243 stopped responding.",
                    "others": [],
                },
            ),
        ),
        "failed",
        "NodeLost: gpu-243 stopped responding.",
        "worker-0 (rank 1) failed first. It had run for 1 h. The last checkpoint is of step 6,400.",
    ),
    "failed before a job": (
        records("failed", {}),
        "failed",
        "The task failed before it started a job.",
        "The task's log says why.",
    ),
    "succeeded": (
        records("success", with_job(status=status(), return_value=RETURNED)),
        "succeeded",
        "All 4 replicas completed: eval_loss 1.814.",
        "Ended after 1 h.",
    ),
    "succeeded, no result": (
        records("success", with_job(return_value={**RETURNED, "metrics": {}, "result": None})),
        "succeeded",
        "The job completed.",
        "Ended after 1 h.",
    ),
    "succeeded, result unreadable": (
        records("success", with_job(return_value={**RETURNED, "result_error": "the result is not JSON"})),
        "succeeded",
        "The job succeeded, and its result could not be read.",
        "the result is not JSON",
    ),
    "released": (
        records("success", with_job(return_value=JOB)),
        None,
        "The job was started; this task does not wait for it.",
        "A sensor, or the cluster, says how it goes.",
    ),
    "cancelled": (
        records("failed", with_job(failure={**FAILURE, "phase": "cancelled", "message": "the task's time was over"})),
        "cancelled",
        "The job was cancelled: the task's time was over.",
        None,
    ),
    "marked as failed": (
        records("failed", with_job(status=status())),
        "cancelled",
        "The task ended before its job had: the job was ended.",
        "The task was marked as failed, its time was over, or Airflow ended it; the task's log says which.",
    ),
    "marked as success": (
        records("success", with_job(status=status())),
        "cancelled",
        "The task was marked as success while its job ran: the job was ended.",
        None,
    ),
    "skipped by hand or by dagrun_timeout": (
        records("skipped", with_job(status=status())),
        "cancelled",
        "The task was skipped while its job ran: the job was ended.",
        "It was marked as skipped, or the time of its run was over (dagrun_timeout).",
    ),
    "stale": (
        records("deferred", with_job(status=status(as_of=ago(12))), waiter_seen_at=NOW - timedelta(minutes=12)),
        "running",
        "Last known as running: the triggerer does not report.",
        "The job itself may go on. What is shown is the last that is known of it.",
    ),
    "stale, the script reported later": (
        records(
            "deferred",
            with_job(status=status(as_of=ago(12)), progress={**PROGRESS, "reported_at": ago(7)}),
            waiter_seen_at=NOW - timedelta(minutes=12),
        ),
        "running",
        "Last known as running: the triggerer does not report.",
        "The job itself may go on. What is shown is the last that is known of it.",
    ),
    "the worker is lost, and the next try takes over": (
        records("up_for_retry", with_job(status=status())),
        "running",
        "Last known as running: the task waits for its next try.",
        "The next try takes over the job if that still runs. What is shown is the last that is known of it.",
    ),
    "the worker is lost before it reported": (
        records("up_for_retry", with_job()),
        "starting",
        "Last known as starting: the task waits for its next try.",
        "The next try takes over the job if that still runs. What is shown is the last that is known of it.",
    ),
    "no job yet": (
        records("queued", {}),
        None,
        "No job yet: Airflow has queued the task.",
        "This page shows the job as soon as there is one.",
    ),
    "not scheduled": (
        records(None, {}),
        None,
        "No job yet: the task has not started.",
        "This page shows the job as soon as there is one.",
    ),
    "next try, and the job of the last one": (
        records("queued", with_job(failure=FAILURE), try_number=2),
        None,
        "No job yet: Airflow has queued the task.",
        "This page shows the job as soon as there is one.",
    ),
    "cleared, and not scheduled yet": (
        records(None, with_job(status=status(), failure=FAILURE)),
        None,
        "No job yet: the task has not started.",
        "This page shows the job as soon as there is one.",
    ),
    "next try runs, and the job of the last one": (
        records("running", with_job(status=status()), try_number=2),
        None,
        "No job yet: the task is about to submit it.",
        "This page shows the job as soon as there is one.",
    ),
    "cleared while it ran": (
        records("restarting", with_job(status=status())),
        "cancelled",
        "The task was cleared while its job ran: the job was ended.",
        None,
    ),
    "ended, and the triggerer is away": (
        records(
            "deferred",
            with_job(status=status("succeeded", finished_at=ago(12), as_of=ago(12))),
            waiter_seen_at=NOW - timedelta(minutes=12),
        ),
        "succeeded",
        "All 4 replicas completed.",
        "Ended after 48 min.",
    ),
    "running, restarts that the script does not report": (
        records(xcoms=with_job(status=status(restarts=2), progress={**PROGRESS, "restarts": []})),
        "running",
        "All 4 replicas are training.",
        "Restarted 2 times.",
    ),
    "waiting for a node, before there are replicas": (
        records("deferred", with_job(status=status("queued", [], reason="Unschedulable", message="0/3 nodes fit"))),
        "queued",
        "No node has room for the job.",
        "0/3 nodes fit",
    ),
    "skipped": (records("skipped", {}), None, "The task was skipped: there is no job.", None),
    "not training": (
        records("success", {}, is_training=False),
        None,
        "This task runs no training.",
        "The tab is for tasks of the trainer provider's operators.",
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_each_state_has_its_sentence(name):
    shown, phase, summary, detail = STATES[name]

    state = state_of(shown, None, NOW)

    assert (state.phase, *sentence_of(state)) == (phase, summary, detail)


def test_of_an_earlier_try_airflow_has_its_own_record_alone():
    tries = (TryRecord(1, "failed", NOW - timedelta(hours=2), NOW - timedelta(hours=1)), TryRecord(2, "running"))
    shown = records(xcoms={**with_job(status=status()), "job": {**JOB, "owner": 2}}, try_number=2, tries=tries)

    state = state_of(shown, 1, NOW)

    assert (state.phase, state.job) == ("failed", {})
    assert sentence_of(state).summary == "Try 1 did not succeed."
    assert state_of(shown, 2, NOW).phase == "running"


@pytest.mark.parametrize("phase", ["queued", "starting", "running", "restarting", "suspended", "failed", "cancelled"])
def test_no_sentence_is_too_long(phase):
    long = "a word and <b>markup</b>\nand another line " * 50
    rows = [replica(index, started_at=None, reason=long, message=long, name=f"{long}{index}") for index in range(200)]
    failure = {"failure": {**FAILURE, "phase": phase, "message": long, "traceback": [f"Error: {long}"]}}
    xcoms = {**QUEUE, "status": status(phase, rows, message=long)} | (
        failure if phase in ("failed", "cancelled") else {}
    )

    said = sentence_of(state_of(records("deferred", xcoms), None, NOW))

    assert 0 < len(said.summary) <= SUMMARY_LENGTH
    assert len(said.detail or "") <= DETAIL_LENGTH
    assert "\n" not in said.summary + (said.detail or "")
