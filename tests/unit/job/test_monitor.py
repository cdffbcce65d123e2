"""A job that takes its time is waited for; one that can never start is not. The clock is made up."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.job.monitor import Monitor
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

_BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


def at(seconds):
    return _BEGIN + timedelta(seconds=seconds)


def _status(*reasons, phase=JobPhase.STARTING, waiting_since=0, reason=None, **fields):
    """A job whose replicas wait for these reasons; ``run`` for one that runs."""
    replicas = [
        ReplicaStatus(group="worker", index=index, started_at=at(1))
        if word == "run"
        else ReplicaStatus(group="worker", index=index, reason=word, message=fields.get("message"))
        for index, word in enumerate(reasons)
    ]
    since = None if waiting_since is None else at(waiting_since)
    return JobStatus(phase=phase, reason=reason, queued_at=at(0), waiting_since=since, replicas=tuple(replicas))


@pytest.mark.parametrize(
    ("reason", "seconds"),
    [
        ("InvalidImageName", 10),
        ("ErrImageNeverPull", 10),
        ("Init:InvalidImageName", 10),
        ("ErrImagePull", 60),
        ("ImagePullBackOff", 60),
        ("Init:ImagePullBackOff", 60),
        ("Sidecar:ImagePullBackOff", 60),
        ("CreateContainerConfigError", 60),
        ("CreateContainerError", 60),
        ("RunContainerError", 60),
        ("ContainerCreating", None),
        ("PodInitializing", None),
        ("Unschedulable", None),
        ("CrashLoopBackOff", None),
        (None, None),
    ],
)
def test_what_lasts_too_long(reason, seconds):
    monitor = Monitor(None)
    status = _status("run", reason, message="so it is")

    assert monitor.observe(status, at(100)) is None
    assert monitor.next_wakeup(at(103)) == (None if seconds is None else seconds - 3)
    if seconds is None:
        assert monitor.observe(status, at(100_000)) is None
        return
    assert monitor.observe(status, at(100 + seconds - 0.1)) is None
    verdict = monitor.observe(status, at(100 + seconds))
    assert (verdict.reason, verdict.message, verdict.replica) == (reason, "so it is", "worker-1")


def _lost(message="The API initiated eviction", phase=JobPhase.RUNNING):
    status = _status("run", "EvictionByEvictionAPI", phase=phase, waiting_since=None, message=message)
    return status.model_copy(update={"lost": "worker-1"})


@pytest.mark.parametrize("message", ["The API initiated eviction", None])
def test_a_job_that_goes_on_for_long_without_a_replica_that_it_needs_is_ended(message):
    monitor = Monitor(None)

    assert monitor.observe(_lost(message), at(5)) is None
    assert monitor.observe(_lost(message, JobPhase.RESTARTING), at(64)) is None
    assert monitor.next_wakeup(at(64)) == 1
    verdict = monitor.observe(_lost(message), at(65))

    assert (verdict.reason, verdict.replica) == ("EvictionByEvictionAPI", "worker-1")
    said = message or "it was taken away before its end"
    assert verdict.why == f"it cannot succeed without worker-1: EvictionByEvictionAPI: {said}"
    outcome = verdict.outcome(_lost(message), at(66))
    assert (outcome.phase, outcome.first_failed) == (JobPhase.FAILED, "worker-1")
    assert [row.reason for row in outcome.replicas] == ["Stopped", "EvictionByEvictionAPI"]


def test_a_replica_that_is_there_again_is_not_lost():
    monitor = Monitor(None)
    monitor.observe(_lost(), at(5))
    monitor.observe(_status("run", "run"), at(60))

    assert monitor.next_wakeup(at(60)) is None
    assert monitor.observe(_lost(), at(66)) is None


@pytest.mark.parametrize(
    ("message", "said"), [("no data", "no data"), (None, "it has failed, and the job cannot start")]
)
def test_a_failure_that_nothing_cures_is_not_waited_for_when_it_lasts(message, said):
    monitor = Monitor(None)
    waits = _status(None)
    ended = waits.replicas[0].model_copy(update={"reason": "Init:Error", "message": message, "finished_at": at(1)})
    blocked = waits.model_copy(update={"replicas": (ended,), "blocked_by": "worker-0"})

    assert monitor.observe(blocked, at(100)) is None
    # Its container was started again, or its pod replaced.
    assert monitor.observe(waits, at(130)) is None
    assert monitor.observe(blocked, at(140)) is None
    assert monitor.next_wakeup(at(150)) == 50
    assert monitor.observe(blocked, at(199)) is None
    verdict = monitor.observe(blocked, at(200))
    assert (verdict.reason, verdict.message, verdict.replica) == ("Init:Error", said, "worker-0")


def test_a_failed_replica_that_its_controller_counts_is_left_to_it():
    monitor = Monitor(None)
    waits = _status(None, None)
    ended = waits.replicas[0].model_copy(update={"reason": "Init:Error", "finished_at": at(1)})

    assert monitor.observe(waits.model_copy(update={"replicas": (ended, waits.replicas[1])}), at(100)) is None
    assert monitor.next_wakeup(at(100)) is None


def test_an_image_that_cannot_be_pulled_is_one_fault_under_two_names():
    monitor = Monitor(None)
    for second in range(0, 60, 10):
        assert monitor.observe(_status("ErrImagePull" if second % 20 else "ImagePullBackOff"), at(second)) is None

    assert monitor.observe(_status("ErrImagePull"), at(60)).replica == "worker-0"


def test_a_fault_that_passed_is_forgotten():
    monitor = Monitor(None)
    monitor.observe(_status("ErrImagePull"), at(0))
    monitor.observe(_status("ContainerCreating"), at(50))
    assert monitor.next_wakeup(at(50)) is None

    assert monitor.observe(_status("ErrImagePull"), at(55)) is None
    assert monitor.next_wakeup(at(60)) == 55


def test_faults_of_two_replicas_are_two():
    monitor = Monitor(None)
    monitor.observe(_status("ErrImagePull", "run"), at(0))
    monitor.observe(_status("run", "ErrImagePull"), at(50))

    assert monitor.observe(_status("run", "ErrImagePull"), at(60)) is None
    assert monitor.observe(_status("run", "ErrImagePull"), at(110)).replica == "worker-1"


def test_the_startup_timeout_counts_from_when_it_could_have_started():
    monitor = Monitor(300)
    status = _status("run", "Unschedulable", phase=JobPhase.QUEUED, waiting_since=20, message="0/1 nodes are available")

    assert monitor.observe(status, at(100)) is None
    assert monitor.next_wakeup(at(100)) == 220
    verdict = monitor.observe(status, at(320))

    assert (verdict.reason, verdict.replica) == ("Unschedulable", "worker-1")
    assert verdict.message == (
        "worker-1 had not started 300 s after it could have (run_policy.startup_timeout_seconds): "
        "0/1 nodes are available"
    )


def test_what_hinders_the_job_is_the_reason_where_no_replica_knows_one():
    refused = _status(None, phase=JobPhase.QUEUED, reason="FailedCreate")

    verdict = _late(Monitor(5), refused)

    assert (verdict.reason, verdict.replica) == ("FailedCreate", None)
    assert verdict.message.endswith(": queued (FailedCreate)")

    refused = refused.model_copy(update={"message": "exceeded quota"})
    assert _late(Monitor(5), refused).message.endswith("(run_policy.startup_timeout_seconds): exceeded quota")

    assert _late(Monitor(5), _status("ContainerCreating")).reason == "StartupTimeout"


def test_what_a_late_replica_does_is_said_where_nothing_hinders_it():
    verdict = _late(Monitor(5), _status("run", "PodInitializing", message="init container prep runs"))

    assert verdict.reason == "StartupTimeout"
    assert verdict.message.endswith("(run_policy.startup_timeout_seconds): worker-1: init container prep runs")


def _late(monitor, status):
    monitor.observe(status, at(0))
    return monitor.observe(status, at(1000))


def test_without_a_timeout_it_may_wait_for_room_for_ever():
    assert _late(Monitor(None), _status("Unschedulable", phase=JobPhase.QUEUED)) is None


@pytest.mark.parametrize("phase", [JobPhase.SUSPENDED, JobPhase.QUEUED])
def test_the_time_in_a_queue_does_not_count(phase):
    monitor = Monitor(30)
    monitor.observe(_status(None, waiting_since=0), at(0))
    assert monitor.observe(_status(None, phase=phase, waiting_since=None), at(29)) is None
    assert monitor.next_wakeup(at(29)) is None
    assert monitor.observe(_status(None, phase=phase, waiting_since=None), at(5000)) is None

    assert monitor.observe(_status(None, waiting_since=5000), at(5001)) is None
    assert monitor.next_wakeup(at(5001)) == 29


_FORBIDDEN = 'pods "a" is forbidden: violates PodSecurity "restricted:latest"'
_DENIED = 'admission webhook "rules" denied the request: no'


def _refused(message, refused_at, *, reason="FailedCreate", phase=JobPhase.STARTING, replica=None, missing=True):
    status = _status("run", replica, phase=phase, reason=reason, waiting_since=10, message=message)
    update = {"message": f"worker-1: {message}", "refused_at": at(refused_at), "still_missing": missing}
    return status.model_copy(update=update)


def test_what_the_cluster_refuses_again_and_again_ends_the_job():
    once, later, last = (_refused(_DENIED, seconds, missing=False) for seconds in (3, 47, 48))
    monitor = Monitor(None)
    assert monitor.observe(once, at(5)) is None
    assert monitor.observe(once, at(5000)) is None
    assert monitor.next_wakeup(at(5000)) is None
    assert monitor.observe(later, at(5001)) is None
    verdict = monitor.observe(last, at(5002))

    assert (verdict.reason, verdict.message, verdict.replica) == ("FailedCreate", f"worker-1: {_DENIED}", None)
    assert verdict.why == f"it cannot start: FailedCreate: worker-1: {_DENIED}"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("FailedCreate", f"Error creating: {_FORBIDDEN}"),
        ("FailedCreatePod", 'Error creating: Pod "a" is invalid: spec.containers[0].resources.requests: Invalid value'),
        ("FailedCreate", f"Error creating: {_DENIED}"),
        ("MPIJobFailed", f"worker pod created failed: {_DENIED}"),
        ("TrainJobResourcesCreationFailed", 'ConfigMap "a" is invalid: []: Too long'),
        ("TrainJobResourcesCreationFailed", "etcdserver: request is too large"),
        (
            "TrainJobResourcesCreationFailed",
            "failed to create typed patch object: .spec.a: field not declared in schema",
        ),
    ],
)
def test_what_was_refused_and_stays_missing_ends_the_job(reason, message):
    first, last = (_refused(message, seconds, reason=reason) for seconds in (3, 40))
    monitor = Monitor(None)
    assert monitor.observe(first, at(5)) is None
    # The controller tries again, and what it says then is no other refusal.
    assert monitor.observe(last, at(44)) is None
    assert monitor.next_wakeup(at(44)) == 6
    assert monitor.observe(last, at(49)) is None

    assert monitor.observe(last, at(50)).message == f"worker-1: {message}"


def test_what_may_have_come_meanwhile_is_waited_for():
    monitor = Monitor(None)
    monitor.observe(_refused(_DENIED, 3), at(5))
    perhaps = _refused(_DENIED, 3, missing=False)

    assert monitor.observe(perhaps, at(5000)) is None
    assert monitor.next_wakeup(at(5000)) is None


def test_a_pod_that_was_refused_and_is_made_a_while_later_is_waited_for():
    monitor = Monitor(None)
    monitor.observe(_refused(_FORBIDDEN, 3), at(5))
    assert monitor.next_wakeup(at(5)) == 45
    monitor.observe(_status("run", "ContainerCreating"), at(49))

    assert monitor.next_wakeup(at(49)) is None
    assert monitor.observe(_status("run", "ContainerCreating"), at(5000)) is None
    assert monitor.observe(_refused(_FORBIDDEN, 4990), at(5001)) is None


def test_what_is_refused_only_once_more_a_while_after_it_was_granted_is_waited_for():
    monitor = Monitor(None)
    monitor.observe(_refused(_FORBIDDEN, 3), at(5))
    monitor.observe(_status("run", "ContainerCreating"), at(10))

    assert monitor.observe(_refused(_FORBIDDEN, 9000), at(9001)) is None
    assert monitor.observe(_refused(_FORBIDDEN, 9050), at(9051)) is not None


def _refused_pod(name, seconds, *, missing=True):
    return _refused(f'Error creating: pods "{name}-22222" is forbidden: no', seconds, missing=missing)


def test_a_pod_that_is_refused_once_another_one_is_there_has_its_own_time():
    monitor = Monitor(None)
    monitor.observe(_refused_pod("job-0", 3), at(5))

    assert monitor.observe(_refused_pod("job-1", 48), at(50)) is None
    assert monitor.next_wakeup(at(50)) == 45
    assert monitor.observe(_refused_pod("job-1", 48), at(95)) is not None


@pytest.mark.parametrize("missing", [True, False])
def test_the_time_of_pods_whose_refusals_alternate_is_up_as_well(missing):
    monitor = Monitor(None)
    for seconds in range(0, 44, 4):
        assert monitor.observe(_refused_pod(f"job-{seconds % 8}", seconds, missing=missing), at(seconds)) is None

    assert monitor.observe(_refused_pod("job-0", 46, missing=missing), at(46)) is not None


def test_a_refusal_of_long_ago_is_no_part_of_a_new_one():
    monitor = Monitor(None)
    monitor.observe(_refused_pod("job-0", 0), at(0))
    monitor.observe(_refused(_DENIED, 91, missing=False), at(91))

    assert monitor.observe(_refused_pod("job-0", 92), at(92)) is None


def test_a_refusal_that_is_reported_every_few_minutes_ends_the_job():
    monitor = Monitor(None)
    monitor.observe(_refused_pod("job-0", 0, missing=False), at(0))

    assert monitor.observe(_refused_pod("job-0", 122, missing=False), at(122)) is not None


def test_the_refusals_of_two_replicas_are_two():
    monitor = Monitor(None)
    message = 'MountVolume.SetUp failed for volume "cm" : configmap "none" not found'
    first, second = (
        _refused(message, seconds, reason="FailedMount", replica="FailedMount", missing=False) for seconds in (3, 60)
    )
    monitor.observe(first, at(5))
    other = second.replicas[1].model_copy(update={"index": 2})

    update = {"message": f"worker-2: {message}", "replicas": (*second.replicas[:1], other)}
    assert monitor.observe(second.model_copy(update=update), at(61)) is None


@pytest.mark.parametrize(
    "message",
    [
        "is forbidden: exceeded quota: q",
        "admission webhook denied the request: project quota exceeded: 8 of 8 GPUs in use",
        "is forbidden: status unknown for quota: q",
        "is forbidden: not yet ready to handle request",
        "the object has been modified",
        'Internal error occurred: failed calling webhook "x": connection refused',
        "etcdserver: request timed out",
        "something that is not known",
    ],
)
def test_a_refusal_that_passes_by_itself_is_waited_for(message):
    monitor = Monitor(None)
    monitor.observe(_refused(message, 10), at(10))

    assert monitor.observe(_refused(message, 5000), at(5000)) is None


@pytest.mark.parametrize("phase", [JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED])
def test_a_refusal_ends_no_job_that_has_ended(phase):
    monitor = Monitor(None)
    monitor.observe(_refused(_FORBIDDEN, 10), at(10))

    assert monitor.observe(_refused(_FORBIDDEN, 500, phase=phase), at(500)) is None


def test_a_mount_that_fails_counts_as_long_as_its_node_says_so():
    message = 'MountVolume.SetUp failed for volume "cm" : configmap "none" not found'
    once, still = (
        _refused(message, seconds, reason="FailedMount", replica="FailedMount", missing=False) for seconds in (20, 70)
    )
    monitor = Monitor(None)

    assert monitor.observe(once, at(20)) is None
    assert monitor.observe(once, at(5000)) is None
    assert monitor.next_wakeup(at(5000)) is None
    verdict = monitor.observe(still, at(5001))
    assert (verdict.reason, verdict.message, verdict.replica) == ("FailedMount", message, "worker-1")


@pytest.mark.parametrize("phase", [JobPhase.RUNNING, JobPhase.RESTARTING, JobPhase.SUSPENDED])
def test_the_deadline_of_a_job_that_has_started_or_is_suspended_is_its_controllers(phase):
    monitor = Monitor(None)
    status = _status("run", None, phase=phase).model_copy(update={"deadline_at": at(100)})

    assert monitor.observe(status, at(500)) is None
    assert monitor.next_wakeup(at(500)) is None


def test_a_job_whose_time_is_up_and_that_nothing_else_ends_is_ended():
    monitor = Monitor(None)
    status = _status("Unschedulable", phase=JobPhase.QUEUED).model_copy(update={"deadline_at": at(100)})

    assert monitor.observe(status, at(114)) is None
    assert monitor.next_wakeup(at(110)) == 5
    verdict = monitor.observe(status, at(115))
    assert (verdict.reason, verdict.replica) == ("DeadlineExceeded", None)
    assert verdict.why.startswith("its time is up: DeadlineExceeded: it has had all the time that run_policy.active_d")

    ended = status.model_copy(update={"phase": JobPhase.FAILED})
    assert monitor.observe(ended, at(200)) is None
    assert monitor.next_wakeup(at(200)) is None


@pytest.mark.parametrize(
    ("reason", "started", "bound"), [("Init:Error", None, True), ("Init:Error", 1, False), ("Error", None, False)]
)
def test_what_starts_again_before_it_has_run_is_bound_by_the_startup_timeout(reason, started, bound):
    monitor = Monitor(30)
    status = _status(None, phase=JobPhase.RESTARTING, reason=reason)
    status = status.model_copy(update={"started_at": at(started) if started else None})

    assert (_late(monitor, status) is not None) == bound


def test_another_reason_between_two_attempts_of_an_init_container_does_not_count_as_a_start():
    monitor = Monitor(30)
    failed = _status(None, phase=JobPhase.RESTARTING, reason="Init:Error")
    between = _status(None, phase=JobPhase.RESTARTING, reason="FailedCreate")
    for seconds in (1, 2):
        assert monitor.observe(failed, at(seconds)) is None
        assert monitor.observe(between, at(seconds)) is None

    assert _late(monitor, failed) is not None
    ran = between.model_copy(update={"started_at": at(3)})
    monitor = Monitor(30)
    monitor.observe(failed, at(1))
    monitor.observe(ran, at(4))
    assert _late(monitor, failed) is None


@pytest.mark.parametrize("phase", [JobPhase.RUNNING, JobPhase.RESTARTING])
def test_what_has_started_once_is_bound_no_more(phase):
    monitor = Monitor(30)
    monitor.observe(_status("run", phase=phase, waiting_since=None), at(5))

    assert _late(monitor, _status("Unschedulable", phase=JobPhase.QUEUED)) is None
    assert monitor.next_wakeup(at(1000)) is None


def test_whoever_takes_a_job_over_looks_for_a_while_before_it_judges():
    monitor = Monitor(300)
    status = _status("Unschedulable", phase=JobPhase.QUEUED)

    assert monitor.observe(status, at(9000)) is None
    assert monitor.next_wakeup(at(9000)) == 10
    assert monitor.observe(status, at(9010)).reason == "Unschedulable"


def test_a_job_that_has_ended_is_left_alone():
    monitor = Monitor(1)
    status = _status("InvalidImageName", phase=JobPhase.FAILED)

    assert _late(monitor, status) is None
    assert monitor.next_wakeup(at(1000)) is None


def test_a_wakeup_that_is_due_is_not_in_the_past():
    monitor = Monitor(None)
    monitor.observe(_status("InvalidImageName"), at(0))

    assert monitor.next_wakeup(at(500)) == 0


def test_the_outcome_is_a_failure_of_the_replica_that_does_not_start():
    status = _status("run", "ImagePullBackOff", message="Back-off pulling image")

    outcome = _late(Monitor(None), status).outcome(status, at(1000))

    assert (outcome.phase, outcome.reason, outcome.first_failed) == (JobPhase.FAILED, "ImagePullBackOff", "worker-1")
    assert (outcome.finished_at, outcome.waiting_since) == (at(1000), None)
    assert [row.reason for row in outcome.replicas] == ["Stopped", "ImagePullBackOff"]
