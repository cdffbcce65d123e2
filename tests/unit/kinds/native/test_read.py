"""What the Jobs of a training job say of it: objects of a real cluster, without the fields that are not read."""

from __future__ import annotations

import copy
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import ControllerStatus, Manifest
from airflow_trainer_provider.kinds.native.native import NATIVE
from airflow_trainer_provider.kinds.native.read import FIRST_RANK
from airflow_trainer_provider.kinds.objects.labels import CANCELLED, COMPLETE, GROUPS, PART_DELETED
from airflow_trainer_provider.kinds.status.deletion import MISSED, SEEN, as_gone

OBJECTS = Path(__file__).parent / "objects"
BACKOFF = "Job has reached the specified backoff limit"


def objects(name: str) -> tuple[Manifest, list[Manifest]]:
    content = json.loads((OBJECTS / f"{name}.json").read_text())
    return content["main"], content["children"]


def controller(name: str) -> ControllerStatus:
    return NATIVE.read(*objects(name))


def condition(child: Manifest, kind: str) -> Manifest:
    return next(each for each in child["status"]["conditions"] if each["type"] == kind)


@pytest.mark.parametrize(
    ("name", "phase", "reason", "message", "restarts"),
    [
        ("starting", None, None, None, 0),
        ("running", None, None, None, 0),
        ("queued", None, "Queued", "queue q has not admitted it", 0),
        ("suspended", JobPhase.SUSPENDED, "JobSuspended", None, 0),
        ("resumed", None, None, None, 0),
        ("succeeded", JobPhase.SUCCEEDED, None, None, 0),
        ("succeeded-and-others-run", JobPhase.SUCCEEDED, None, None, 0),
        ("succeeded-and-others-ended", JobPhase.SUCCEEDED, None, None, 0),
        # Its Pods are still ending.
        ("failing", JobPhase.FAILED, "BackoffLimitExceeded", f"Job jaxfail-44883-worker: {BACKOFF}", 0),
        ("failed", JobPhase.FAILED, "BackoffLimitExceeded", f"Job jaxfail-44883-worker: {BACKOFF}", 0),
        ("failed-in-one-group", JobPhase.FAILED, "BackoffLimitExceeded", f"Job twofail-44893-worker: {BACKOFF}", 0),
        (
            "failed-and-survivors-ended",
            JobPhase.FAILED,
            "BackoffLimitExceeded",
            f"Job twofail-44893-worker: {BACKOFF}",
            0,
        ),
        (
            "deadline",
            JobPhase.FAILED,
            "DeadlineExceeded",
            "Job deadline-44633-worker: Job was active longer than specified deadline",
            0,
        ),
        (
            "evicted",
            JobPhase.FAILED,
            "PodFailurePolicy",
            "Job evict-44861-worker: Pod native-try/evict-44861-worker-1-p8cqp has condition DisruptionTarget "
            "matching FailJob rule at index 0",
            0,
        ),
        ("restarting", JobPhase.RESTARTING, None, None, 0),
        ("restarted", None, None, None, 1),
        (
            "restarts-used-up",
            JobPhase.FAILED,
            "MaxFailedIndexesExceeded",
            "Job restart-end-44613-worker: Job has exceeded the specified maximal number of failed indexes",
            1,
        ),
    ],
)
def test_a_real_job_is_read(name, phase, reason, message, restarts):
    found = controller(name)
    assert (found.phase, found.reason, found.message, found.restarts) == (phase, reason, message, restarts)


def at(hour: int, minute: int, second: int) -> datetime:
    return datetime(2026, 11, 21, hour, minute, second, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("name", "started", "finished"),
    [
        ("queued", None, None),
        ("running", at(7, 8, 3), None),
        ("resumed", at(7, 6, 26), None),
        ("succeeded", at(7, 8, 24), at(7, 8, 33)),
        # Known from the first failure on, and the same ever after.
        ("failing", at(7, 8, 3), at(7, 8, 10)),
        ("failed", at(7, 8, 3), at(7, 8, 10)),
    ],
)
def test_a_job_starts_with_its_first_job_and_ends_with_its_completion_or_first_failure(name, started, finished):
    found = controller(name)
    assert (found.started_at, found.finished_at) == (started, finished)


def test_the_fixture_of_a_job_that_is_failing_has_not_failed_yet():
    _, (job,) = objects("failing")
    assert condition(job, "FailureTarget")
    assert not any(each["type"] == "Failed" for each in job["status"]["conditions"])


@pytest.mark.parametrize("name", ["failed-and-survivors-ended", "succeeded-and-others-ended"])
def test_the_fixture_of_an_ended_job_has_suspended_survivors(name):
    _, jobs = objects(name)
    assert sum(job["spec"]["suspend"] for job in jobs) == 1


def test_what_fails_after_success_changes_nothing():
    main, jobs = objects("succeeded-and-others-run")
    evaluator = next(job for job in jobs if job["metadata"]["name"].endswith("evaluator"))
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    evaluator["status"]["conditions"] = [failed | {"lastTransitionTime": "2026-11-21T07:01:11Z"}]
    assert NATIVE.read(main, jobs).phase is JobPhase.SUCCEEDED
    evaluator["status"]["conditions"] = [failed | {"lastTransitionTime": "2026-11-21T07:01:09Z"}]
    assert NATIVE.read(main, jobs).phase is JobPhase.FAILED


def test_the_first_failure_is_reported():
    main, jobs = objects("failed-and-survivors-ended")
    for job, time in zip(jobs, ("2026-11-21T07:08:20Z", "2026-11-21T07:08:19Z"), strict=True):
        failed = {"type": "Failed", "status": "True", "reason": f"At{time}", "lastTransitionTime": time}
        job["status"]["conditions"] = [failed]
    found = NATIVE.read(main, jobs)
    assert (found.reason, found.finished_at) == ("At2026-11-21T07:08:19Z", at(7, 8, 19))
    assert found.message == f"Job {jobs[1]['metadata']['name']}: no more is known"


def test_a_condition_that_does_not_hold_says_nothing():
    main, jobs = objects("failing")
    for each in jobs[0]["status"]["conditions"]:
        each["status"] = "False"
    assert NATIVE.read(main, jobs).phase is None


@pytest.mark.parametrize("name", ["succeeded-and-others-run", "succeeded"])
def test_a_job_that_is_not_there_is_not_complete(name):
    main, jobs = objects(name)
    for missing in range(len(jobs)):
        rest = [copy.deepcopy(job) for at, job in enumerate(jobs) if at != missing]
        assert NATIVE.read(main, rest).phase is None
    assert NATIVE.read(main, []) == ControllerStatus(keeps_complete=True)


def with_all_objects(name):
    """A job all of whose objects were created."""
    main, jobs = objects(name)
    main["metadata"]["annotations"][COMPLETE] = "true"
    return main, jobs


def unknown(main):
    name = main["metadata"]["name"]
    message = f"a Job of {name} was deleted; whether it had succeeded is not known"
    return ControllerStatus(JobPhase.FAILED, "Deleted", message)


def test_a_job_that_is_deleted_while_it_trains_is_lost():
    main, jobs = with_all_objects("running")
    gone = as_gone(jobs[0], SEEN)

    found = NATIVE.read(main, [gone, *jobs[1:]])

    said = f"Job {gone['metadata']['name']} was deleted before it had ended"
    assert (found.phase, found.reason, found.message) == (JobPhase.FAILED, "Deleted", said)
    assert found.started_at == at(7, 8, 3)


@pytest.mark.parametrize(
    ("name", "phase"), [("succeeded", JobPhase.SUCCEEDED), ("failed", JobPhase.FAILED), ("failing", JobPhase.FAILED)]
)
@pytest.mark.parametrize("how", [SEEN, MISSED])
def test_a_job_that_goes_once_it_has_ended_has_ended_so(name, phase, how):
    main, jobs = with_all_objects(name)

    assert NATIVE.read(main, [as_gone(job, how) for job in jobs]) == NATIVE.read(main, jobs)
    assert NATIVE.read(main, jobs).phase is phase


@pytest.mark.parametrize("name", ["running", "succeeded"])
def test_of_a_job_that_is_not_there_nothing_is_known(name):
    main, _ = with_all_objects(name)

    assert NATIVE.read(main, []) == unknown(main)
    assert NATIVE.read(main, [as_gone(job, MISSED) for job in objects("running")[1]]) == unknown(main)


def two_jobs():
    """A job of two groups, of which the first is complete, and the second trains."""
    main, (complete,) = with_all_objects("succeeded")
    other = copy.deepcopy(complete)
    other["metadata"]["name"] += "-2"
    other["metadata"]["labels"][FIRST_RANK] = str(complete["spec"]["completions"])
    other["status"] = {"active": other["spec"]["completions"], "startTime": complete["status"]["startTime"]}
    size = complete["spec"]["completions"]
    main["metadata"]["annotations"][GROUPS] = json.dumps({"chief": size, "worker": size})
    return main, complete, other


@pytest.mark.parametrize("how", [SEEN, MISSED])
def test_a_complete_job_may_go_while_others_train(how):
    main, complete, other = two_jobs()
    gone = as_gone(complete, how)

    assert NATIVE.read(main, [gone, other]).phase is None
    other["status"] = complete["status"]
    assert NATIVE.read(main, [gone, other]).phase is JobPhase.SUCCEEDED


def test_while_another_job_trains_one_whose_end_was_not_seen_ends_nothing():
    main, complete, other = two_jobs()
    chiefs = frozenset(f"chief-{index}" for index in range(complete["spec"]["completions"]))

    assert (NATIVE.read(main, [other]).phase, NATIVE.read(main, [other]).without_part) == (None, chiefs)
    assert NATIVE.read(main, [complete, other]).without_part == frozenset()
    # It may be resumed.
    other["spec"]["suspend"] = True
    assert NATIVE.read(main, [other]).phase is JobPhase.SUSPENDED
    other["spec"]["suspend"] = False
    other["status"]["conditions"] = [
        {"type": "Complete", "status": "True", "lastTransitionTime": "2026-11-21T07:08:33Z"}
    ]
    assert NATIVE.read(main, [other]).reason == "Deleted"


def test_what_is_written_of_a_part_that_was_deleted_holds_once_nothing_else_shows_it():
    main, _, other = two_jobs()
    main["metadata"]["annotations"][PART_DELETED] = "Job a was deleted"
    other["spec"]["suspend"] = True

    found = NATIVE.read(main, [other])

    assert (found.phase, found.reason, found.message) == (JobPhase.FAILED, "Deleted", "Job a was deleted")


@pytest.mark.parametrize(
    ("metadata", "phase"),
    [
        # Not all of its objects were created yet.
        ({"annotations": {}}, None),
        ({"annotations": {CANCELLED: "the task is failed"}}, None),
        # Nothing of it is left that could run.
        ({"annotations": {COMPLETE: "true", CANCELLED: "the task is failed"}}, JobPhase.SUSPENDED),
        ({"annotations": {COMPLETE: "true"}, "deletionTimestamp": "2026-11-21T07:08:33Z"}, None),
    ],
)
def test_the_jobs_of_a_job_that_begins_or_ends_may_be_missing(metadata, phase):
    main, jobs = objects("running")
    annotations = main["metadata"]["annotations"] | metadata["annotations"]
    main["metadata"] |= {**metadata, "annotations": annotations}

    assert (NATIVE.read(main, []).phase, NATIVE.read(main, []).without_part) == (phase, frozenset())
    assert NATIVE.read(main, [as_gone(job, SEEN) for job in jobs]).phase is None


def test_all_jobs_that_are_waited_for_have_to_be_complete():
    main, (job,) = objects("succeeded")
    other = copy.deepcopy(job)
    other["status"] = {"active": other["spec"]["completions"], "startTime": job["status"]["startTime"]}
    size = job["spec"]["completions"]
    main["metadata"]["annotations"][GROUPS] = json.dumps({"chief": size, "worker": size})

    assert NATIVE.read(main, [job, other]).phase is None
    other["status"] = job["status"]
    assert NATIVE.read(main, [job, other]).phase is JobPhase.SUCCEEDED


def test_a_job_that_the_controller_has_not_seen_waits():
    main, jobs = objects("starting")
    jobs[0]["status"] = {}
    assert NATIVE.read(main, jobs) == ControllerStatus(keeps_complete=True)
    main, jobs = objects("restarted")
    del jobs[0]["status"]
    assert NATIVE.read(main, jobs) == ControllerStatus(keeps_complete=True)


def test_without_restarts_a_missing_pod_is_not_a_restart():
    main, jobs = objects("running")
    jobs[0]["status"]["active"] = 2
    assert NATIVE.read(main, jobs).phase is None


def test_pods_that_succeeded_and_are_not_counted_yet_are_not_missing():
    main, jobs = objects("restarted")
    jobs[0]["status"] |= {"active": 1, "uncountedTerminatedPods": {"succeeded": ["uid"]}}
    assert NATIVE.read(main, jobs).phase is None


def test_suspending_is_a_patch_of_each_job():
    assert (NATIVE.suspension.of_children, NATIVE.suspension.patch(True), NATIVE.suspension.patch(False)) == (
        True,
        {"spec": {"suspend": True}},
        {"spec": {"suspend": False}},
    )
