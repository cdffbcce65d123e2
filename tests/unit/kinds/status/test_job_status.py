"""A job's status, from what its main object says and its pods. The pods are real ones, with their times changed."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import JOBS, ControllerStatus, ReplicaRef
from airflow_trainer_provider.kinds.kind import Controller, Kind, Suspension
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.deletion import FIRST_DELETION
from airflow_trainer_provider.kinds.status.job_status import job_status

_PODS = Path(__file__).parent / "pods"
_GRACE = "deletionGracePeriodSeconds"
_BEGIN = datetime(2026, 11, 21, 7, tzinfo=timezone.utc)


def at(seconds):
    return _BEGIN + timedelta(seconds=seconds)


def _text(seconds):
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def _replica_ref(pod, main):
    group, _, index = pod["metadata"]["name"].rpartition("-")
    return ReplicaRef(group, int(index)) if group else None


def _kind(controller, **does):
    return Kind(
        key="test",
        resource=JOBS,
        frameworks=frozenset(),
        read=lambda main, children: controller,
        groups=lambda main: {},
        replica_ref=_replica_ref,
        container=lambda main, group: None,
        pod_label="",
        suspension=Suspension(lambda wanted: {}),
        controller=Controller(**does),
    )


def pod(fixture, replica, *, created=0, ran=None, attempt=None, asked=None, grace=30, **terminated):
    """A real pod as a replica's.

    :param ran: seconds of start and end of its container, where it has them.
    :param asked: when its deletion was asked for.
    """
    manifest = json.loads((_PODS / f"{fixture}.json").read_text())
    metadata = {"name": replica, "uid": f"{replica}-{created}", "creationTimestamp": _text(created)}
    if attempt is not None:
        metadata["labels"] = {"jobset.sigs.k8s.io/restart-attempt": str(attempt)}
    if asked is not None:
        metadata |= {"deletionTimestamp": _text(asked + grace), "deletionGracePeriodSeconds": grace}
    state = manifest["status"].get("containerStatuses", [{}])[0].get("state", {})
    if ran and "terminated" in state:
        state["terminated"] |= {"startedAt": _text(ran[0]), "finishedAt": _text(ran[1]), **terminated}
    elif ran:
        state["running"]["startedAt"] = _text(ran[0])
    return manifest | {"metadata": metadata}


def status(*pods, controller=None, main=None, **seen):
    metadata = {"name": "job", "creationTimestamp": _text(0), **(main or {})}
    groups, kind = seen.pop("groups", {"worker": 2}), _kind(controller or ControllerStatus(), **seen.pop("does", {}))
    return job_status(kind, {"metadata": metadata}, pods, groups=groups, ranked=True, **seen)


def running(replica, since=5, **fields):
    return pod("running", replica, ran=(since, None), **fields)


FAILED = ControllerStatus(JobPhase.FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")


def test_without_pods_it_is_queued_and_its_replicas_are_there():
    found = status()

    assert (found.phase, found.reason, found.queued_at) == (JobPhase.QUEUED, None, at(0))
    assert [(row.name, row.rank, row.reason) for row in found.replicas] == [
        ("worker-0", 0, None),
        ("worker-1", 1, None),
    ]
    assert found.waiting_since == at(0)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "Warning", "reason": "FailedCreateService", "message": "must be no more than 63 characters"},
        # events.k8s.io/v1
        {"type": "Warning", "reason": "TrainJobResourcesCreationFailed", "note": "must be no more than 63 characters"},
    ],
)
def test_what_only_an_event_says_is_the_reason(event):
    older = {"type": "Warning", "reason": "Older"}
    remarks = [{"type": "Normal", "reason": "Created"}, {"type": "Warning", "reason": "SettedPodTemplateRestartPolicy"}]

    found = status(events=[older, event, *remarks])

    assert (found.phase, found.reason) == (JobPhase.QUEUED, event["reason"])
    assert found.message == "must be no more than 63 characters"


def test_it_is_queued_while_a_pod_has_no_node_and_the_scheduler_says_why():
    found = status(running("worker-0"), pod("unschedulable", "worker-1", created=3))

    assert (found.phase, found.reason, found.waiting_since) == (JobPhase.QUEUED, "Unschedulable", at(3))
    assert found.message.startswith("worker-1: 0/1 nodes are available: 1 Insufficient cpu.")


def test_it_starts_while_a_pod_has_a_node_and_does_not_run():
    found = status(running("worker-0"), pod("missing-image", "worker-1", created=4))

    assert (found.phase, found.reason, found.waiting_since) == (JobPhase.STARTING, "ErrImagePull", at(4))
    assert found.message.startswith("worker-1: failed to pull")
    assert found.started_at == at(5)


def test_the_replica_that_something_hinders_is_named():
    creating = pod("missing-key", "worker-0")
    creating["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    others = [pod("missing-key", f"worker-{index}") for index in (1, 2, 3)]

    found = status(creating, *others, groups={"worker": 4})

    assert (found.reason, found.message) == (
        "CreateContainerConfigError",
        'worker-1: secret "nowhere" not found',
    )


def test_a_replica_that_has_no_pod_yet_waits_since_the_others_were_made():
    found = status(running("worker-0", created=3), running("worker-1", created=7), groups={"worker": 3})

    assert (found.phase, found.waiting_since) == (JobPhase.STARTING, at(7))


def test_it_runs_once_all_replicas_run_or_have_ended():
    found = status(running("worker-0", 9), pod("succeeded", "worker-1", ran=(6, 8)))

    assert (found.phase, found.reason, found.started_at) == (JobPhase.RUNNING, None, at(6))
    assert (found.finished_at, found.first_failed, found.waiting_since) == (None, None, None)


def test_a_container_that_is_started_again_is_a_restart():
    found = status(running("worker-0"), pod("crash-loop", "worker-1"))

    assert (found.phase, found.reason) == (JobPhase.RESTARTING, "Error")
    assert found.message == "worker-1 ended with exit code 1"
    assert found.replicas[1].restarts == 3


def test_a_container_that_ended_a_moment_ago_and_is_to_start_again_is_a_restart():
    ended = pod("exit-3", "worker-1", ran=(5, 6))
    ended["spec"]["restartPolicy"] = "OnFailure"
    ended["status"]["phase"] = "Running"

    assert status(running("worker-0"), ended).phase is JobPhase.RESTARTING


def test_a_replica_whose_pod_failed_and_went_starts_again():
    found = status(running("worker-0"), gone=[pod("exit-3", "worker-1", ran=(5, 6))])

    assert (found.phase, found.reason) == (JobPhase.RESTARTING, "Error")


def _made_by(manifest, job, job_set=None):
    made_by = {"batch.kubernetes.io/controller-uid": job, "batch.kubernetes.io/job-name": "job-node-0"}
    if job_set:
        made_by |= {"jobset.sigs.k8s.io/jobset-uid": job_set, "jobset.sigs.k8s.io/jobset-name": "job"}
    manifest["metadata"]["labels"] = {**manifest["metadata"].get("labels", {}), **made_by}
    return manifest


@pytest.mark.parametrize(("owners", "what"), [(("a", "s"), "Job job-node-0"), (("a", "t"), "JobSet job")])
def test_what_was_deleted_with_its_job_and_trains_again_is_a_restart(owners, what):
    gone = [_made_by(running("worker-0", asked=20, attempt=0), *owners)]
    again = [_made_by(pod("missing-image", "worker-0", created=22, attempt=0), "b", "s")]

    found = status(*again, running("worker-1"), gone=gone)

    assert (found.phase, found.restarts, found.replicas[0].restarts) == (JobPhase.RESTARTING, 1, 1)
    assert found.reason == "ErrImagePull"
    again = [_made_by(pod("missing-image", "worker-0", created=22, attempt=0), "b", "s")]
    again[0]["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    found = status(*again, running("worker-1"), gone=gone)
    assert (found.reason, found.message) == (
        "Deleted",
        f"worker-0: {what} was deleted, and its controller has created it again",
    )


def test_a_job_set_that_is_created_again_counts_from_zero():
    stopped = _made_by(running("worker-0", asked=30, attempt=0), "a", "s")
    polite = _made_by(pod("succeeded", "worker-0", created=31, ran=(35, 60), asked=50, attempt=1), "b", "s")
    again = _made_by(running("worker-0", 70, created=65, attempt=0), "c", "t")

    found = status(again, gone=[stopped, polite], groups={"worker": 1})

    assert (found.phase, found.restarts, found.replicas[0].restarts) == (JobPhase.RUNNING, 2, 2)
    found = status(again, gone=[stopped, polite], groups={"worker": 1}, controller=ControllerStatus(JobPhase.SUCCEEDED))
    assert found.phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize(("jobs", "restarts"), [(("a", "b"), 2), (("a", "a"), 1)], ids=["two jobs", "one job"])
def test_each_job_that_was_deleted_is_one_restart(jobs, restarts):
    names = ("worker-0", "worker-1")
    gone = [_made_by(running(name, asked=20, attempt=0), job, "s") for name, job in zip(names, jobs, strict=True)]
    again = [_made_by(running(name, 30, created=25, attempt=0), "c", "s") for name in names]

    found = status(*again, gone=gone)

    assert (found.restarts, [replica.restarts for replica in found.replicas]) == (restarts, [1, 1])


def test_pods_of_a_job_that_was_suspended_or_started_again_by_its_job_set_are_counted_once():
    suspended = [_made_by(running("worker-0", asked=20, attempt=0), "a", "s")]
    again = _made_by(running("worker-0", 30, created=25, attempt=0), "a", "s")
    assert status(again, running("worker-1"), gone=suspended).restarts == 0

    restarted = _made_by(running("worker-0", 40, created=35, attempt=1), "b", "s")
    found = status(restarted, gone=[again], groups={"worker": 1}, controller=ControllerStatus(restarts=1))
    assert (found.restarts, found.replicas[0].restarts) == (1, 1)


def test_a_pod_that_was_deleted_before_it_ran_is_no_restart():
    gone = [_made_by(pod("unschedulable", "worker-0", asked=20, attempt=0), "a", "s")]

    assert status(_made_by(running("worker-0", 30, created=25, attempt=0), "b", "s"), gone=gone).restarts == 0


_HELD = {"deletionTimestamp": _text(50), "finalizers": ["example.com/audit"]}


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ([], JobPhase.FAILED),
        (["succeeded", "succeeded"], JobPhase.SUCCEEDED),
        (["succeeded", "exit-3"], JobPhase.FAILED),
        (["succeeded"], JobPhase.SUCCEEDED),
        (["succeeded", "running"], JobPhase.SUCCEEDED),
        (["exit-3", "running"], JobPhase.FAILED),
        (["running", "exit-3"], JobPhase.RUNNING),
        (["unschedulable", "running"], JobPhase.QUEUED),
    ],
)
def test_a_job_whose_deletion_is_held_up_ends_with_its_leader(pods, phase):
    replicas = [pod(fixture, f"worker-{index}") for index, fixture in enumerate(pods)]

    found = status(*replicas, main=_HELD, does={"leaves_deleted": True})

    assert found.phase is phase
    if phase is JobPhase.FAILED and "exit-3" not in pods:
        message = "Job job is being deleted, and is held by its finalizers: example.com/audit"
        assert (found.reason, found.message) == ("Deleted", message)


@pytest.mark.parametrize(
    ("main", "fields"),
    [
        ({"finalizers": ["example.com/audit"]}, {}),
        (_HELD | {"finalizers": ["foregroundDeletion"]}, {}),
        (_HELD, {"leaves_deleted": False}),
    ],
)
def test_a_job_that_is_not_held_up_is_read_as_ever(main, fields):
    assert status(main=main, does={"leaves_deleted": True} | fields).phase is JobPhase.QUEUED


def test_a_replica_that_succeeded_and_whose_pod_went_has_ended():
    found = status(running("worker-0"), gone=[pod("succeeded", "worker-1", ran=(5, 6))])

    assert found.phase is JobPhase.RUNNING


def test_what_keeps_a_replica_from_starting_again_is_the_reason():
    old = pod("evicted-api", "worker-1", ran=(5, 6))
    found = status(running("worker-0"), pod("unschedulable", "worker-1", created=9), gone=[old])

    assert (found.phase, found.reason) == (JobPhase.RESTARTING, "Unschedulable")


def test_one_without_room_comes_before_one_without_its_image():
    found = status(pod("missing-image", "worker-0"), pod("unschedulable", "worker-1"))

    assert (found.phase, found.reason) == (JobPhase.QUEUED, "Unschedulable")


def test_what_every_replica_passes_through_is_no_reason():
    creating = pod("missing-key", "worker-0")
    creating["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    unseen = pod("unschedulable", "worker-1")
    unseen["status"]["conditions"] = []

    assert status(creating, unseen).text() == "starting"
    assert status(unseen).text() == "queued"


def test_a_pod_that_is_made_again_is_a_restart_and_the_newest_counts():
    old = pod("exit-3", "worker-1", ran=(5, 6))
    creating = pod("missing-key", "worker-1", created=9)
    creating["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}

    found = status(creating, running("worker-0"), gone=[old])
    assert (found.phase, found.message) == (JobPhase.RESTARTING, "worker-1 ended with exit code 3")

    found = status(running("worker-1", 12, created=9), running("worker-0"), gone=[old])
    assert (found.phase, found.replicas[1].restarts, found.replicas[1].started_at) == (JobPhase.RUNNING, 1, at(12))


def test_a_jobset_counts_restarts_whose_pods_were_not_seen():
    found = status(running("worker-0", attempt=2), running("worker-1", attempt=2))

    assert [row.restarts for row in found.replicas] == [2, 2]


def test_a_job_that_was_suspended_and_goes_on_starts_and_does_not_restart():
    before = [pod("deleted", f"worker-{index}", ran=(2, 4), asked=3) for index in (0, 1)]

    found = status(gone=before, controller=ControllerStatus(JobPhase.SUSPENDED))
    assert (found.phase, found.waiting_since) == (JobPhase.SUSPENDED, None)

    found = status(gone=before)
    assert (found.text(), found.waiting_since) == ("queued", at(0))

    after = [pod("missing-image", f"worker-{index}", created=60) for index in (0, 1)]
    found = status(*after, gone=before)
    assert (found.phase, found.waiting_since) == (JobPhase.STARTING, at(60))


def _workload(**condition):
    return {"kind": "Workload", "status": {"conditions": [condition]}}


def test_a_job_that_kueue_suspends_waits_in_its_queue():
    queued = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
    why = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu"
    workload = _workload(type="QuotaReserved", status="False", message=why)

    found = status(main=queued, controller=ControllerStatus(JobPhase.SUSPENDED), children=[workload])

    assert (found.phase, found.waiting_since) == (JobPhase.QUEUED, None)
    assert found.text() == f"queued (SuspendedByKueue: {why})"


def test_a_job_whose_parts_kueue_suspends_waits_in_their_queue():
    held = ControllerStatus(None, "Queued", "queue team has not admitted it")

    found = status(controller=held)

    assert found.text() == "queued (SuspendedByKueue: queue team has not admitted it)"
    assert found.waiting_since is None


@pytest.mark.parametrize(
    ("main", "controller"),
    [
        ({"labels": {"kueue.x-k8s.io/queue-name": "team"}}, ControllerStatus(JobPhase.SUSPENDED)),
        ({}, ControllerStatus(None, "Queued", "queue team has not admitted it")),
    ],
)
def test_a_job_that_is_kept_from_its_queue_is_suspended(main, controller):
    workload = _workload(type="QuotaReserved", status="False", message="The workload is deactivated")

    found = status(main=main, controller=controller, children=[workload | {"spec": {"active": False}}])

    assert found.text() == "suspended (WorkloadDeactivated: The workload is deactivated)"


def test_a_cancelled_job_whose_parts_are_out_of_their_queue_has_ended():
    held = ControllerStatus(None, "Queued", "queue team has not admitted it")

    found = status(main={"annotations": {labels.CANCELLED: "the task was killed"}}, controller=held)

    assert found.text() == "cancelled (Cancelled: the task was killed)"


def test_a_workload_is_no_part_of_the_job():
    job = {"kind": "Job", "metadata": {"creationTimestamp": _text(0)}}
    seen = []

    def read(main, children):
        seen.extend(children)
        return ControllerStatus()

    job_status(
        replace(_kind(ControllerStatus()), read=read),
        {"metadata": {"creationTimestamp": _text(0)}},
        [],
        groups={},
        ranked=False,
        children=[job, {"kind": "Workload"}],
    )

    assert seen == [job]


def test_the_time_in_a_queue_of_kueue_is_no_waiting():
    queued = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
    admitted = _workload(type="Admitted", status="True", lastTransitionTime=_text(500))

    assert status(main=queued).waiting_since is None
    assert status(main=queued, children=[admitted]).waiting_since == at(500)
    assert status(pod("unschedulable", "worker-0", created=501), main=queued).waiting_since == at(501)


@pytest.mark.parametrize(
    ("first", "second", "culprit"),
    [
        # By time.
        (("exit-3", (5, 20)), ("exit-3", (5, 19)), "worker-1"),
        (("exit-3", (5, 18)), ("exit-3", (5, 19)), "worker-0"),
        # In the same second: one that was killed for its memory, and one that only lost the other.
        (("exit-3", (5, 19)), ("oom", (5, 19)), "worker-1"),
        (("exit-3", (5, 19), "RuntimeError: Connection closed by peer [10.0.0.7]"), ("exit-3", (5, 19)), "worker-1"),
        (("sigkill", (5, 19), "", 143), ("exit-3", (5, 19)), "worker-1"),
    ],
)
def test_the_replica_that_failed_first(first, second, culprit):
    def made(replica, fixture, ran, message="", code=None):
        extra = {"message": message} | ({"exitCode": code} if code else {})
        return pod(fixture, replica, ran=ran, **extra)

    found = status(made("worker-0", *first), made("worker-1", *second), controller=FAILED)

    assert (found.phase, found.first_failed) == (JobPhase.FAILED, culprit)
    assert found.finished_at == at(max(first[1][1], second[1][1]))


def test_the_reason_of_a_failed_job_is_its_first_failure():
    found = status(
        pod("deleted", "worker-0", ran=(5, 21), asked=20), pod("exit-3", "worker-1", ran=(5, 19)), controller=FAILED
    )

    assert found.text() == "failed (Error: ValueError: no)"
    assert [row.reason for row in found.replicas] == ["Stopped", "Error"]


@pytest.mark.parametrize(
    ("codes", "fixture", "reason"),
    [
        ('{"fail": ["3"]}', "exit-3", "PermanentExitCode"),
        ('{"restart": ["4-255"]}', "exit-3", "PermanentExitCode"),
        ('{"restart": ["3"]}', "exit-3", "Error"),
        # SIGKILL and SIGTERM say nothing of the training.
        ('{"restart": ["3"]}', "sigkill", "Error"),
        # Any other reason says more than its exit code.
        ('{"restart": ["3"]}', "oom", "OOMKilled"),
        ('{"fail": ["x"]}', "exit-3", "Error"),
    ],
)
def test_an_exit_code_that_is_declared_permanent_is_the_reason(codes, fixture, reason):
    main = {"annotations": {labels.EXIT_CODES: codes}}

    found = status(pod(fixture, "worker-0", ran=(5, 19)), running("worker-1"), controller=FAILED, main=main)

    assert (found.first_failed, found.reason, found.replicas[0].reason) == ("worker-0", reason, reason)


@pytest.mark.parametrize("end", [19, 20])
def test_one_that_was_ended_after_the_first_failure_was_stopped(end):
    sigterm = pod("sigkill", "worker-0", ran=(5, end), exitCode=143)

    found = status(sigterm, pod("exit-3", "worker-1", ran=(5, 19)), controller=FAILED)

    assert (found.replicas[0].reason, found.replicas[0].signal) == ("Stopped", "SIGTERM")


def test_a_job_that_is_given_up_while_its_replica_waits_for_another_start_names_that_one():
    found = status(gone=[running("worker-0"), pod("crash-loop", "worker-1")], controller=FAILED)

    culprit = found.replicas[1]
    assert (found.first_failed, culprit.exit_code, culprit.reason, culprit.restarts) == ("worker-1", 1, "Error", 3)
    assert found.replicas[0].reason == "Stopped"


def test_the_pod_that_was_deleted_before_the_others_is_named():
    deleted = pod("deleted", "worker-1", ran=(5, 12), asked=10)
    ended_with_it = pod("deleted", "worker-0", ran=(5, 14), asked=13)

    found = status(ended_with_it, deleted, controller=FAILED)
    assert (found.first_failed, found.reason) == ("worker-1", "Deleted")

    together = pod("deleted", "worker-1", ran=(5, 14), asked=13)
    found = status(ended_with_it, together, controller=FAILED)
    assert (found.first_failed, found.reason) == (None, "BackoffLimitExceeded")

    for replica, version in ((ended_with_it, 12), (together, 11)):
        first = {name: replica["metadata"][name] for name in ("deletionTimestamp", "deletionGracePeriodSeconds")}
        replica["metadata"][FIRST_DELETION] = first | {"resourceVersion": str(version)}
    found = status(ended_with_it, together, controller=FAILED)
    assert (found.first_failed, found.reason) == ("worker-1", "Deleted")


def test_nothing_failed_where_the_time_was_up():
    # Their deletion is asked for one by one, which may take more than the second.
    stopped = [pod("deleted", f"worker-{index}", ran=(5, 64), asked=60 + index, exitCode=3) for index in (0, 1)]
    deadline = ControllerStatus(JobPhase.FAILED, "DeadlineExceeded", "too long", finished_at=at(61))

    found = status(*stopped, controller=deadline)

    assert (found.reason, found.first_failed, found.finished_at) == ("DeadlineExceeded", None, at(61))
    assert {row.reason for row in found.replicas} == {"Stopped"}


def test_nothing_failed_where_the_time_of_the_pods_was_up():
    late = [pod("deadline", f"worker-{index}", ran=(5, 60)) for index in (0, 1)]

    found = status(*late, controller=FAILED)

    assert (found.reason, found.first_failed) == ("DeadlineExceeded", None)
    assert found.message == "Pod was active on the node longer than the specified deadline"
    assert {row.reason for row in found.replicas} == {"Stopped"}


def test_a_job_that_has_succeeded_takes_the_main_objects_word():
    ended = ControllerStatus(JobPhase.SUCCEEDED, "JobSucceeded", finished_at=at(30))
    left = pod("deleted", "worker-1", ran=(5, 33), asked=31)

    found = status(pod("succeeded", "worker-0", ran=(5, 29)), left, controller=ended)

    assert (found.phase, found.first_failed, found.finished_at) == (JobPhase.SUCCEEDED, None, at(30))
    assert found.text() == "succeeded"
    assert [row.reason for row in found.replicas] == ["Completed", "Stopped"]


RENDERED = {"annotations": {labels.GROUPS: '{"worker": 2}'}}


def polite(replica, ran, asked):
    """The pod of a training that exited with 0 when its deletion was asked for."""
    return pod("succeeded", replica, ran=ran, asked=asked)


def test_a_job_whose_leader_was_taken_away_has_failed_though_its_controller_says_otherwise():
    ended = ControllerStatus(JobPhase.SUCCEEDED, finished_at=at(12))

    found = status(gone=[polite("worker-0", (5, 11), 10)], controller=ended, groups={"worker": 1})

    assert (found.phase, found.reason, found.first_failed) == (JobPhase.FAILED, "Deleted", "worker-0")
    assert (found.message, found.replicas[0].exit_code) == ("its pod was deleted", 0)
    assert status(gone=[polite("worker-0", (5, 9), 10)], controller=ended, groups={"worker": 1}).phase is ended.phase


@pytest.mark.parametrize(
    ("controller", "lost"),
    [
        ({}, "worker-0"),
        ({"phase": JobPhase.RESTARTING}, "worker-0"),
        ({"keeps_complete": False}, None),
        ({"phase": JobPhase.SUSPENDED}, None),
        ({"reason": "Queued"}, None),
    ],
)
def test_a_job_that_goes_on_says_which_replica_it_has_lost_for_good(controller, lost):
    controller = ControllerStatus(**{"keeps_complete": True, **controller})

    found = status(running("worker-1"), gone=[polite("worker-0", (5, 11), 10)], controller=controller)

    assert found.lost == lost
    assert (found.replicas[0].reason == "Deleted") is (lost is not None)


@pytest.mark.parametrize(
    ("main", "asked", "phase"),
    [
        (RENDERED, 10, JobPhase.FAILED),
        # It was cleaned up, as the job had ended.
        (RENDERED, 55, JobPhase.SUCCEEDED),
        # Nothing says that the job needs it.
        ({}, 10, JobPhase.SUCCEEDED),
        ({"annotations": RENDERED["annotations"] | {labels.OPTIONAL: '["worker"]'}}, 10, JobPhase.SUCCEEDED),
        ({"annotations": RENDERED["annotations"] | {labels.ELASTIC: "true"}}, 10, JobPhase.SUCCEEDED),
    ],
)
def test_a_job_that_has_lost_a_replica_that_it_needs_has_failed(main, asked, phase):
    ended = ControllerStatus(JobPhase.SUCCEEDED, finished_at=at(60))
    others = pod("succeeded", "worker-0", ran=(5, 59)), polite("worker-1", (5, asked + 1), asked)

    found = status(*others, controller=ended, main=main)

    assert (found.phase, found.first_failed) == (phase, "worker-1" if phase is JobPhase.FAILED else None)
    assert [row.reason for row in found.replicas] == [
        "Completed",
        "Deleted" if phase is JobPhase.FAILED else "Stopped",
    ]


def test_of_several_that_were_taken_away_the_first_is_named():
    ended = ControllerStatus(JobPhase.SUCCEEDED, finished_at=at(60))

    found = status(polite("worker-0", (5, 22), 20), polite("worker-1", (5, 30), 19), controller=ended, main=RENDERED)

    assert (found.reason, found.first_failed) == ("Deleted", "worker-1")


def created(replica, **fields):
    """A pod that has not run yet."""
    return pod("running", replica, **fields) | {"status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("deleted", "newest", "ended", "culprit"),
    [
        # The Training Operator lets a job fail whose running pod is deleted, and may replace the pod as well.
        (running("worker-0", asked=10), created("worker-0", created=11), 12, "worker-0"),
        (running("worker-0", asked=10), running("worker-0", 11, created=11, asked=12), 12, "worker-0"),
        # The new pod has run for a while: it goes with the job.
        (running("worker-0", asked=10), running("worker-0", 11, created=11, asked=60), 60, None),
        # The pod had not run, as that of a job that is suspended while it starts.
        (created("worker-0", asked=10), created("worker-0", created=11), 12, "worker-1"),
    ],
)
def test_a_pod_that_was_deleted_is_why_a_job_has_failed_though_it_was_replaced(deleted, newest, ended, culprit):
    found = status(gone=[deleted, newest, running("worker-1", asked=ended)], controller=FAILED)

    assert (found.phase, found.first_failed) == (JobPhase.FAILED, culprit)
    assert (found.message == "its pod was deleted") is (culprit is not None)


def test_a_job_that_was_to_end_and_whose_training_then_exits_with_0_is_cancelled():
    ended = ControllerStatus(JobPhase.SUCCEEDED, finished_at=at(12))

    found = status(polite("worker-0", (5, 11), 10), controller=ended, main=CANCELLED, groups={"worker": 1})

    assert (found.phase, found.message) == (JobPhase.CANCELLED, "the test wants it")


@pytest.mark.parametrize(
    ("asked", "failed", "said", "culprit"),
    [
        # It may take its time to end, and its peer fails meanwhile.
        (10, 13, "ValueError: no", "worker-1"),
        (10, 10, "Connection reset by peer", "worker-1"),
        # In the same second, a failure of its own comes first; and a pod that is deleted later went with the job.
        (10, 10, "ValueError: no", "worker-0"),
        (14, 13, "Connection reset by peer", "worker-0"),
    ],
)
def test_who_was_deleted_first_is_to_blame_and_not_who_has_lost_it(asked, failed, said, culprit):
    lost = pod("exit-3", "worker-0", ran=(5, failed), message=said)

    found = status(lost, polite("worker-1", (5, 20), asked), controller=FAILED)

    assert found.first_failed == culprit
    elastic = {"annotations": {labels.ELASTIC: "true"}}
    assert status(lost, polite("worker-1", (5, 20), asked), controller=FAILED, main=elastic).first_failed == "worker-0"


@pytest.mark.parametrize(("failed", "said", "culprit"), [(3600, "ValueError: no", 0), (3600, "Connection refused", 1)])
def test_who_was_taken_away_long_before_is_to_blame_only_where_its_peer_says_so(failed, said, culprit):
    lost = pod("exit-3", "worker-0", ran=(5, failed), message=said)

    for taken in (polite("worker-1", (5, 20), 10), evicted("worker-1", (5, 20), 10)):
        assert status(lost, taken, controller=FAILED).first_failed == f"worker-{culprit}"


@pytest.mark.parametrize(
    ("began", "failed", "said", "culprit"),
    [
        (5, 15, "ValueError: no", "worker-1"),
        (5, 600, "ORTE has lost communication with a remote daemon.", "worker-1"),
        (5, 600, "Connection to worker-1 closed by remote host.", "worker-1"),
        # It has gone on with the new pod for a while.
        (5, 600, "ValueError: no", "worker-0"),
        (5, 3600, "Connection refused", "worker-0"),
        # It failed before, or began with the new pod.
        (5, 10, "ValueError: no", "worker-0"),
        (12, 15, "Connection refused", "worker-0"),
    ],
)
@pytest.mark.parametrize("newest", ["runs", "has not run", "is ended with the job"])
def test_who_was_taken_away_is_to_blame_though_a_new_pod_has_taken_its_place(newest, began, failed, said, culprit):
    lost = pod("exit-3", "worker-0", ran=(began, failed), message=said)
    ended = max(failed, 13) + 1
    newest = {
        "runs": running("worker-1", 13, created=12),
        "has not run": created("worker-1", created=12),
        "is ended with the job": pod("succeeded", "worker-1", created=12, ran=(13, ended), asked=ended),
    }[newest]
    gone = [
        pod("deleted", "worker-1", ran=(5, 11), asked=10),
        polite("worker-1", (5, 11), 10),
        evicted("worker-1", (5, 11), 10),
    ]

    for taken in gone:
        found = status(lost, newest, gone=[taken], controller=FAILED)
        assert found.first_failed == culprit
        if culprit == "worker-1":
            assert found.reason in ("Deleted", "EvictionByEvictionAPI")

    elastic = {"annotations": {labels.ELASTIC: "true"}}
    assert status(lost, newest, gone=gone[:1], controller=FAILED, main=elastic).first_failed == "worker-0"


def _deleted_with_exit_code():
    # The server of ssh ends so, in a worker of MPI.
    asked = pod("exit-3", "worker-1", ran=(5, 10), asked=10, exitCode=255, message="")
    asked["metadata"][FIRST_DELETION] = {key: asked["metadata"][key] for key in ("deletionTimestamp", _GRACE)}
    return asked


def _evicted_with_exit_code():
    manifest = pod("evicted-api", "worker-1", ran=(5, 10), exitCode=3)
    for each in manifest["status"]["conditions"]:
        each["lastTransitionTime"] = _text(10)
    return manifest


@pytest.mark.parametrize(("said", "culprit"), [("ValueError: no", "worker-0"), ("Broken pipe", "worker-1")])
@pytest.mark.parametrize(
    ("taken", "reason"),
    [(_deleted_with_exit_code(), "Deleted"), (_evicted_with_exit_code(), "EvictionByEvictionAPI")],
    ids=["deleted", "evicted"],
)
def test_in_the_second_of_a_deletion_who_says_that_it_lost_its_peer_did_not_fail_first(taken, reason, said, culprit):
    failed = pod("exit-3", "worker-0", ran=(5, 10), message=said)

    found = status(failed, taken, controller=FAILED)

    assert (found.first_failed, found.reason) == (culprit, reason if culprit == "worker-1" else "Error")


def test_an_elastic_job_goes_on_without_who_was_evicted():
    elastic = {"annotations": {labels.ELASTIC: "true"}}
    failed = pod("exit-3", "worker-0", ran=(5, 22))

    assert status(failed, evicted("worker-1", (5, 30), 20), controller=FAILED, main=elastic).first_failed == "worker-0"


def evicted(replica, ran, asked):
    """The pod of a training that exited with 0 when it was evicted."""
    why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    manifest = polite(replica, ran, asked)
    manifest["status"]["conditions"].append(why | {"lastTransitionTime": _text(asked)})
    return manifest


def test_who_was_evicted_first_is_to_blame_though_it_ends_last():
    found = status(pod("exit-3", "worker-0", ran=(5, 22)), evicted("worker-1", (5, 30), 20), controller=FAILED)

    assert (found.first_failed, found.reason) == ("worker-1", "EvictionByEvictionAPI")


CANCELLED = {"annotations": {labels.CANCELLED: "the test wants it"}}


@pytest.mark.parametrize("how", [{"deleted": True}, {"controller": ControllerStatus(JobPhase.SUSPENDED)}])
def test_a_cancelled_job_has_ended_once_its_pods_have(how):
    stopping = running("worker-0", asked=10)
    found = status(stopping, main=CANCELLED, **how)
    assert not found.phase.ended

    stopped = [pod("deleted", f"worker-{index}", ran=(5, 12), asked=10, exitCode=3) for index in (0, 1)]
    found = status(gone=stopped, main=CANCELLED, **how)
    assert (found.phase, found.reason, found.message) == (JobPhase.CANCELLED, "Cancelled", "the test wants it")
    assert (found.first_failed, found.finished_at) == (None, at(12))
    assert [row.reason for row in found.replicas] == ["Stopped", "Stopped"]


def test_the_wish_to_end_a_job_that_has_ended_changes_nothing():
    ended = ControllerStatus(JobPhase.SUCCEEDED, finished_at=at(30))

    assert status(main=CANCELLED, controller=ended, deleted=True).phase is JobPhase.SUCCEEDED
    assert not status(running("worker-0"), running("worker-1"), main=CANCELLED).phase.ended


def test_a_cancelled_job_whose_pods_never_ran_is_not_waited_for():
    waiting = [pod("missing-image", f"worker-{index}", asked=10) for index in (0, 1)]

    found = status(gone=waiting, main=CANCELLED, deleted=True)

    assert found.phase is JobPhase.CANCELLED


def test_what_is_no_replica_is_left_out():
    found = status(running("worker-0"), running("worker-1"), running("extra-0"))

    assert [row.name for row in found.replicas] == ["worker-0", "worker-1"]


def test_the_time_to_read_a_job_grows_no_faster_than_its_pods():
    def seconds(count):
        pods = [running(f"worker-{index}") for index in range(count)]
        gone = [pod("exit-3", f"worker-{index}", created=-60, ran=(-50, -40)) for index in range(count)]
        best = []
        for _ in range(5):
            begin = time.process_time()
            status(*pods, gone=gone, groups={"worker": count}, controller=FAILED)
            best.append(time.process_time() - begin)
        return min(best)

    # Ten times the pods; a quadratic step would need a hundred times as long.
    assert seconds(1000) < 30 * seconds(100)


def _with_sidecar(replica, code, *, ran=(5, 20), failed_at=30, phase="Failed"):
    manifest = pod("succeeded", replica, ran=ran)
    manifest["spec"]["containers"].append({"name": "shipper"})
    end = {"exitCode": code, "finishedAt": _text(failed_at)}
    manifest["status"]["containerStatuses"].append({"name": "shipper", "state": {"terminated": end}})
    manifest["status"]["phase"] = phase
    return manifest


def test_a_training_that_failed_before_a_sidecar_of_another_replica_did_failed_first():
    found = status(
        _with_sidecar("worker-0", 3, failed_at=60), pod("exit-3", "worker-1", ran=(5, 40)), controller=FAILED
    )

    assert (found.phase, found.first_failed) == (JobPhase.FAILED, "worker-1")


def test_a_sidecar_that_was_stopped_in_the_end_changes_nothing_of_a_success():
    rows = [_with_sidecar("worker-0", 143), _with_sidecar("worker-1", 3)]

    found = status(*rows, controller=ControllerStatus(JobPhase.SUCCEEDED))

    assert [(row.reason, row.message, row.failed) for row in found.replicas] == [("Completed", None, False)] * 2


def test_a_replica_that_a_sidecar_has_failed_is_to_start_again():
    found = status(running("worker-1"), gone=[_with_sidecar("worker-0", 3)])

    assert (found.phase, found.reason) == (JobPhase.RESTARTING, "Sidecar:Error")
    assert found.message == "worker-0: sidecar shipper ended with exit code 3"


def test_a_result_is_no_reason():
    found = status(
        pod("exit-3", "worker-0", ran=(5, 30), message='{"backend": "nccl"}'),
        pod("exit-3", "worker-1", ran=(5, 30)),
        controller=FAILED,
    )

    assert (found.first_failed, found.message) == ("worker-0", None)


_FORBIDDEN = 'pods "job-worker-1" is forbidden: violates PodSecurity "restricted:latest"'


def _event(reason, message, seconds, *, kind="Job", name="job", **fields):
    about = {"kind": kind, "name": name, "uid": f"{name}-0"}
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": about,
        "lastTimestamp": _text(seconds),
    } | fields


def test_where_some_pods_are_refused_the_job_says_so():
    found = status(running("worker-0"), events=[_event("FailedCreate", _FORBIDDEN, 40)])

    assert (found.phase, found.reason, found.message) == (JobPhase.STARTING, "FailedCreate", _FORBIDDEN)
    assert found.refused_at == at(40)


@pytest.mark.parametrize(
    "event",
    [
        # Before the replica lost its pod, about another one.
        _event("FailedCreate", _FORBIDDEN, 29),
        _event("FailedCreate", _FORBIDDEN, 0, lastTimestamp=None),
        _event("BackOff", "Back-off restarting", 40, kind="Pod", name="worker-0"),
        # What ended, and not what keeps the next pod from being created.
        _event("BackoffLimitExceeded", "Job has reached the specified backoff limit", 40),
        _event("DefaultFailurePolicy", "applying RestartJobSet failure policy action (first failed job: j)", 40),
    ],
)
def test_a_warning_that_is_not_about_the_missing_pod_is_not_its_reason(event):
    lost = pod("exit-3", "worker-1", ran=(5, 30))
    found = status(running("worker-0"), gone=[lost], events=[event])

    assert (found.reason, found.refused_at) == ("Error", None)
    later = [_event("FailedCreate", _FORBIDDEN, 31)]
    assert status(running("worker-0"), gone=[lost], events=later).refused_at == at(31)


def test_a_warning_before_another_pod_of_the_job_was_made_says_nothing_of_those_that_come_after_it():
    event = _event("FailedCreate", _FORBIDDEN, 40)

    assert status(running("initializer", created=39), events=[event]).reason == "FailedCreate"
    assert status(running("initializer", created=41), events=[event]).reason is None


@pytest.mark.parametrize("which", ['pods "worker-0" is forbidden', 'Pod "worker-0" is invalid'])
def test_a_refusal_of_the_second_in_which_another_pod_was_made_holds_until_its_own_pod_is_there(which):
    events = [_event("FailedCreate", f"Error creating: {which}: no", 40)]

    assert status(running("initializer", created=40), events=events).reason == "FailedCreate"
    assert status(running("worker-0", created=40), events=events).reason is None


_WEBHOOK = 'Error creating: admission webhook "rules" denied the request: no'
_COPY = 'TrainJob resources reconciliation failed: ConfigMap "j" is invalid: []: Too long'


@pytest.mark.parametrize(
    ("reason", "message", "made", "parts", "still_missing"),
    [
        ("FailedCreate", _WEBHOOK, None, [], True),
        # It may be the pod that was created in the next moment, and another replica's turn is later.
        ("FailedCreate", _WEBHOOK, 35, [], False),
        ("FailedCreate", _WEBHOOK, 34, [], True),
        ("FailedCreate", 'pods "job-1-zzzzz" is forbidden: no', 40, [], True),
        ("MPIJobFailed", f"worker pod created failed: {_WEBHOOK}", None, [], True),
        ("MPIJobFailed", f"service created failed: {_WEBHOOK}", None, [], False),
        ("FailedCreateService", _WEBHOOK, None, [], False),
        ("TrainJobResourcesCreationFailed", _COPY, None, [], True),
        # It cannot create another object, or could not create this one before.
        ("TrainJobResourcesCreationFailed", _COPY, None, ["JobSet"], False),
    ],
)
def test_what_is_missing_for_certain(reason, message, made, parts, still_missing):
    pods = [] if made is None else [pod("unschedulable", "initializer", created=made)]
    metadata = {"name": "job", "creationTimestamp": _text(41)}
    children = [{"kind": kind, "metadata": metadata} for kind in parts]

    found = status(*pods, events=[_event(reason, message, 40)], children=children)

    assert (found.reason, found.message, found.refused_at) == (reason, message, at(40))
    assert found.still_missing is still_missing


@pytest.mark.parametrize(
    ("refused", "there", "reason"),
    [
        ("job-0-zzzzz", {}, None),
        # Before the name is generated.
        ("job-0-", {}, None),
        ("job-0-zzzzz", {"phase": "Failed"}, "FailedCreate"),
        ("job-0-zzzzz", {"deletionTimestamp": "2026-11-21T07:00:30Z"}, "FailedCreate"),
        ("job-1-zzzzz", {}, "FailedCreate"),
        ("job-0-00000", {}, "FailedCreate"),
    ],
)
def test_a_pod_is_refused_under_another_generated_name_than_it_is_created_under(refused, there, reason):
    event = _event("FailedCreate", f'Error creating: pods "{refused}" is forbidden: no', 40)
    made = pod("unschedulable", "initializer", created=40)
    made["metadata"]["name"] = "job-0-22222"
    made["status"]["phase"] = there.get("phase", "Pending")
    made["metadata"] |= {name: text for name, text in there.items() if name != "phase"}

    assert status(made, events=[event]).reason == reason


@pytest.mark.parametrize(
    ("message", "reason"), [(_FORBIDDEN, "FailedCreate"), ("is forbidden: exceeded quota: q", "Unschedulable")]
)
def test_what_does_not_pass_by_itself_counts_more_than_a_wait_for_room(message, reason):
    found = status(pod("unschedulable", "worker-0"), events=[_event("FailedCreate", message, 40)])

    assert (found.reason, found.refused_at) == (reason, at(40) if reason == "FailedCreate" else None)


def _creating(replica):
    """A pod whose volumes are not mounted yet."""
    manifest = pod("missing-image", replica)
    found = manifest["status"]
    found["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    found["conditions"] = [each for each in found["conditions"] if each["type"] != "PodReadyToStartContainers"]
    return manifest


_MOUNT = 'MountVolume.SetUp failed for volume "cm" : configmap "none" not found'


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (_event("FailedMount", _MOUNT, 8, kind="Pod", name="worker-1"), "FailedMount"),
        # Healthy pods have it in their first seconds, and pull their image for minutes then.
        (_event("FailedMount", _MOUNT, 4, kind="Pod", name="worker-1"), None),
        (_event("FailedMount", _MOUNT, 8, kind="Pod", name="worker-0"), None),
        (_event("FailedMount", _MOUNT, 8, kind="Pod", name="another"), None),
        (_event("Unhealthy", "probe", 8, kind="Pod", name="worker-1"), None),
        # events.k8s.io/v1
        (
            _event("FailedMount", _MOUNT, 0, kind="Pod", name="worker-1", lastTimestamp=None, eventTime=_text(9)),
            "FailedMount",
        ),
    ],
)
def test_what_only_a_pods_event_says_is_the_reason(event, reason):
    creating = _creating("worker-1")

    found = status(running("worker-0"), creating, events=[event])

    assert (found.phase, found.reason) == (JobPhase.STARTING, reason)
    assert (found.message, found.refused_at is not None) == ((f"worker-1: {_MOUNT}", True) if reason else (None, False))


_PULL = 'Pulling image "registry.example/train:1"'


def _pull(replica):
    return _event("Pulling", _PULL, 8, kind="Pod", name=replica, type="Normal")


def test_the_image_that_a_node_pulls_is_what_the_job_waits_for():
    pods = [running("worker-0"), *(_creating(f"worker-{index}") for index in (1, 2))]
    pulls = [_pull(f"worker-{index}") for index in range(3)]

    found = status(*pods, groups={"worker": 3}, events=pulls)

    assert found.text() == f"starting (worker-1: {_PULL})"
    assert [(row.reason, row.message) for row in found.replicas] == [(None, None), *[("ContainerCreating", _PULL)] * 2]
    assert (found.refused_at, found.waiting_since) == (None, at(0))


def test_an_image_that_cannot_be_pulled_is_not_being_pulled():
    failing = _creating("worker-1")
    failing["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ImagePullBackOff"}}

    found = status(running("worker-0"), failing, events=[_pull("worker-1")])

    assert (found.reason, found.message) == ("ImagePullBackOff", "worker-1")


@pytest.mark.parametrize(
    ("init", "pulled_for", "message"),
    [
        ({"waiting": {"reason": "PodInitializing"}}, "worker-1", _PULL),
        ({"waiting": {"reason": "PodInitializing"}}, "worker-0", None),
        ({"waiting": {"reason": "ContainerCreating"}}, "worker-1", f"init container prepare: {_PULL}"),
        ({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}, "worker-1", None),
        # It was pulled.
        ({"running": {"startedAt": _text(9)}}, "worker-1", "init container prepare runs"),
    ],
)
def test_an_init_containers_image_is_waited_for_until_the_init_container_runs(init, pulled_for, message):
    waiting = pod("init-image", "worker-1")
    waiting["status"]["initContainerStatuses"][0] |= {"state": init}
    expected = message or ("init container prepare: no such image" if "ErrImagePull" in str(init) else None)

    found = status(running("worker-0"), waiting, events=[_pull(pulled_for)])

    assert found.phase is JobPhase.STARTING
    assert found.message == (f"worker-1: {expected}" if expected else None)


@pytest.mark.parametrize(("restarts", "phase"), [(0, JobPhase.STARTING), (1, JobPhase.RESTARTING)])
def test_a_job_whose_init_containers_have_all_failed_does_not_run(restarts, phase):
    pods = [pod("init-failed", f"worker-{index}") for index in range(2)]

    found = status(*pods, controller=ControllerStatus(restarts=restarts, started_at=at(1)))

    assert (found.phase, found.reason, found.started_at) == (phase, "Init:Error", None)
    assert found.waiting_since == at(0)
    assert found.message == "worker-0: init container prepare ended with exit code 2: no data"


@pytest.mark.parametrize(("others", "reason"), [([running("worker-1")], None), ([], "BackoffLimitExceeded")])
def test_why_a_job_starts_again_that_has_not_run_its_replica_knows_best(others, reason):
    restarting = ControllerStatus(JobPhase.RESTARTING, reason)

    found = status(pod("init-failed", "worker-0"), *others, controller=restarting)

    assert (found.phase, found.reason) == (JobPhase.RESTARTING, "Init:Error")


def test_the_wait_of_a_replica_whose_init_container_fails_counts_from_its_first_pod():
    earlier = [pod("init-failed", "worker-1", created=seconds) for seconds in (3, 20)]

    found = status(running("worker-0"), pod("unschedulable", "worker-1", created=40), gone=earlier)
    assert found.waiting_since == at(3)

    suspended = pod("unschedulable", "worker-1", created=3)
    found = status(running("worker-0"), pod("unschedulable", "worker-1", created=40), gone=[suspended])
    assert found.waiting_since == at(40)


def test_a_mount_that_failed_before_its_pod_was_prepared_is_no_reason_any_more():
    creating = _creating("worker-1")
    creating["status"]["conditions"].append({"type": "PodReadyToStartContainers", "status": "True"})

    found = status(
        running("worker-0"), creating, events=[_event("FailedMount", _MOUNT, 8, kind="Pod", name="worker-1")]
    )

    assert (found.reason, found.refused_at) == (None, None)


def test_of_two_mounts_that_fail_the_one_that_does_not_pass_is_the_reason():
    creating = [_creating(f"worker-{index}") for index in range(2)]
    attach = _event("FailedMount", "timed out waiting for the condition", 123, kind="Pod", name="worker-0")

    found = status(*creating, events=[_event("FailedMount", _MOUNT, 8, kind="Pod", name="worker-1"), attach])

    assert (found.message, found.refused_at) == (f"worker-1: {_MOUNT}", at(8))


def test_what_is_refused_of_an_elastic_job_that_trains_is_not_waited_for():
    events = [_event("FailedCreate", _FORBIDDEN, 40)]
    elastic = {"annotations": {"airflow-trainer-provider/elastic": "true"}}

    assert status(running("worker-0"), events=events, main=elastic).refused_at is None
    assert status(_creating("worker-0"), events=events, main=elastic).refused_at is None
    assert status(pod("unschedulable", "worker-0"), events=events, main=elastic).refused_at == at(40)


@pytest.mark.parametrize(("suspended", "reason"), [(None, "FailedCreate"), (30, "FailedCreate"), (41, None)])
def test_a_refusal_from_before_the_job_was_resumed_may_hold_no_more(suspended, reason):
    condition = {"type": "Suspended", "status": "False", "lastTransitionTime": _text(suspended or 0)}
    conditions = {} if suspended is None else {"conditions": [condition]}
    child = {"kind": "Job", "metadata": {"name": "job-worker", "creationTimestamp": _text(0)}, "status": conditions}

    assert status(children=[child], events=[_event("FailedCreate", _FORBIDDEN, 40)]).reason == reason


def test_a_refused_replica_is_known_by_its_whole_index():
    """Its digits may be letters of the names that Kubernetes generates."""
    pods = [running(f"worker-{index}", created=35) for index in range(4)]
    event = _event("FailedCreatePod", 'Error creating: pods "worker-4" is forbidden: no', 40)

    found = status(*pods, events=[event], groups={"worker": 5})

    assert (found.reason, found.still_missing) == ("FailedCreatePod", True)


def test_a_refusal_from_before_another_pod_was_made_may_hold_no_more():
    event = _event("FailedCreate", _FORBIDDEN, 40)

    assert status(running("worker-0", created=45), events=[event]).reason is None
    assert status(running("worker-0", created=30), events=[event]).reason == "FailedCreate"


def test_who_ran_and_was_lost_with_its_node_waits_since_its_new_pod_only():
    lost = pod("sigkill", "worker-0", created=0)
    end = lost["status"]["containerStatuses"][0]["state"]["terminated"]
    end |= {"reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}

    found = status(lost, groups={"worker": 1})

    assert (found.phase, found.waiting_since) == (JobPhase.RUNNING, None)


@pytest.mark.parametrize(
    ("grace", "asked", "reason"),
    [
        (2, 20, "Deleted"),
        # A pod that had ended already, and is cleaned up.
        (0, 20, "ContainerStatusUnknown"),
        (2, 21, "ContainerStatusUnknown"),
    ],
)
def test_a_container_that_its_node_has_not_found_any_more_was_stopped_by_the_deletion_of_its_pod(grace, asked, reason):
    lost = pod("sigkill", "worker-0", asked=asked, grace=grace)
    end = lost["status"]["containerStatuses"][0]["state"]["terminated"]
    end |= {"reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    for condition in lost["status"]["conditions"]:
        condition["lastTransitionTime"] = _text(20)

    found = status(gone=[lost], groups={"worker": 1}, controller=FAILED)

    assert (found.reason, found.first_failed) == (reason, "worker-0")


def test_the_deadline_that_the_kind_knows_is_in_the_status():
    assert status(does={"deadline_at": lambda main: at(60)}).deadline_at == at(60)
    assert status().deadline_at is None


def test_the_wait_of_a_job_that_was_suspended_counts_from_its_resume():
    resumed = [{"type": "Suspended", "status": "False", "lastTransitionTime": _text(500)}]
    metadata = {"name": "job-worker", "creationTimestamp": _text(0)}
    child = {"kind": "Job", "metadata": metadata, "status": {"conditions": resumed}}

    assert status(children=[child]).waiting_since == at(500)
    assert status(children=[child | {"status": None}]).waiting_since == at(0)
    held = [resumed[0] | {"status": "True"}]
    assert status(children=[child | {"status": {"conditions": held}}]).waiting_since == at(0)
