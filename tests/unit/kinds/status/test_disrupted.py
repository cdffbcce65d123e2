"""What is written down of replicas that were taken away and exited with 0."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.job.status import JobPhase, ReplicaStatus
from airflow_trainer_provider.kinds.base import ControllerStatus
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.status.disrupted import cut_short, lost_for_good, to_write, with_written
from airflow_trainer_provider.kinds.status.failure import settle
from airflow_trainer_provider.kinds.status.pod_status import PodState
from airflow_trainer_provider.kinds.status.reading import Reading
from airflow_trainer_provider.kinds.status.replicas import ReplicaState, read_replicas

_AT = datetime(2026, 11, 21, 7, tzinfo=timezone.utc)
_SUCCEEDED = ControllerStatus(JobPhase.SUCCEEDED, finished_at=_AT)
#: Of a job that goes on, and that starts nothing again that is complete.
_KEPT = ControllerStatus(restarts=1, job_set="a", keeps_complete=True)


def replica(index=0, code=0, disrupted=True, end=_AT, attempt=None, job_set=None, succeeded=True):
    status = ReplicaStatus(
        group="worker", index=index, rank=index, exit_code=code, reason="Stopped", finished_at=end, node="node"
    )
    state = PodState("pod", status, "ended", True, _AT)
    disrupted_at = _AT if disrupted else None
    which = {"attempt": attempt, "job_set": job_set, "has_succeeded": succeeded}
    return ReplicaState(status, "ended", state, disrupted_at=disrupted_at, **which)


def blank(index=0):
    return ReplicaState(ReplicaStatus(group="worker", index=index, rank=index), "waiting")


def main(text=None, *, ours=True, **annotations):
    written = {} if text is None else {labels.DISRUPTED: text}
    groups = {labels.GROUPS: '{"worker": 1000}'} if ours else {}
    return {"metadata": {"name": "job", "uid": "u", "annotations": groups | annotations | written}}


def job(main, replicas, controller=_SUCCEEDED, kind=KINDS["native"]):
    return Reading(kind, main, controller, replicas)


def read(*values):
    return with_written(job(*values)).replicas


def patched(before, replicas, controller=_SUCCEEDED):
    """The main object after the patch; None where there is none."""
    patch = to_write(job(before, replicas, controller), None)
    return patch and main(patch["metadata"]["annotations"][labels.DISRUPTED])


def test_what_is_written_stands_for_a_pod_that_is_gone():
    written = patched(main(), [replica(0), replica(1, disrupted=False)])

    first, second = read(written, [blank(0), blank(1)])

    assert (first.status.name, first.status.exit_code, first.status.reason) == ("worker-0", 0, "Stopped")
    assert (first.stage, first.disrupted_at, second) == ("ended", _AT, blank(1))
    assert cut_short(job(written, [first, second])) is first
    assert settle([first, second], failed=True)[0].reason == "Deleted"


def test_what_is_written_stands_for_a_pod_whose_deletion_was_covered_up():
    written = patched(main(), [replica()])
    covered_up = replica(disrupted=False)

    (found,) = read(written, [covered_up])

    assert found.disrupted_at == _AT
    assert to_write(job(written, [covered_up]), None) is None


def test_it_is_written_once():
    written = patched(main(), [replica()])

    assert to_write(job(written, [replica()]), None) is None
    assert to_write(job(written, [blank()]), None) is None


@pytest.mark.parametrize("end", [replica(code=1), replica(disrupted=False)])
def test_what_the_controller_knows_is_not_written(end):
    assert to_write(job(main(), [end]), None) is None


def test_what_was_started_again_is_written_no_longer():
    written = patched(main(), [replica()])
    again = replica(disrupted=False, end=_AT + timedelta(seconds=9))

    assert read(written, [again]) == [again]
    patch = to_write(job(written, [again]), None)
    assert patch == {"metadata": {"uid": "u", "annotations": {labels.DISRUPTED: None}}}


def test_what_was_written_before_a_restart_of_the_whole_job_says_nothing():
    ended = {restarts: ControllerStatus(JobPhase.SUCCEEDED, finished_at=_AT, restarts=restarts) for restarts in (1, 2)}
    written = patched(main(), [replica(attempt=1)])

    assert read(written, [blank()], ended[2]) == [blank()]
    assert read(written, [blank()], ended[1]) != [blank()]
    # Elsewhere the restarts of a job are those of other replicas.
    assert read(patched(main(), [replica()]), [blank()], ended[2]) != [blank()]


@pytest.mark.parametrize(
    ("then", "now", "holds"), [("a", "a", True), ("a", "b", False), ("a", None, True), (None, "a", True)]
)
def test_what_was_written_of_a_job_set_that_was_created_again_says_nothing(then, now, holds):
    ended = ControllerStatus(JobPhase.SUCCEEDED, finished_at=_AT, restarts=1, job_set=now)
    written = patched(main(), [replica(attempt=1, job_set=then)])

    assert (read(written, [blank()], ended) != [blank()]) == holds


@pytest.mark.parametrize(("now", "is_kept"), [("a", True), (None, True), ("b", False)])
def test_what_was_written_of_a_job_set_that_is_gone_does_not_stand_for_what_the_next_one_lost(now, is_kept):
    written = patched(main(), [replica(attempt=0, job_set="a")])
    unseen = replica(code=None, attempt=0, job_set=now, end=_AT + timedelta(seconds=30))

    assert (patched(written, [unseen]) is None) is is_kept


def test_it_is_written_of_which_job_set_it_was_a_part():
    pod = {
        "metadata": {
            "name": "job-node-0-0-zzzzz",
            "uid": "p",
            "creationTimestamp": "2026-11-21T06:00:00Z",
            "labels": {
                "jobset.sigs.k8s.io/replicatedjob-name": "node",
                "jobset.sigs.k8s.io/restart-attempt": "1",
                "jobset.sigs.k8s.io/jobset-uid": "a",
                "batch.kubernetes.io/job-completion-index": "0",
            },
        },
        "spec": {"containers": [{"name": "node"}]},
        "status": {"phase": "Running"},
    }

    (found,) = read_replicas(KINDS["trainjob"], main(), [pod], [], {"worker": 1}, True)

    assert (found.job_set, found.attempt) == ("a", 1)


def test_it_is_written_again_where_it_happens_again():
    written = patched(main(), [replica(attempt=0)])

    again = patched(written, [replica(attempt=1, end=_AT + timedelta(seconds=9))])

    assert json.loads(again["metadata"]["annotations"][labels.DISRUPTED])["worker-0"]["attempt"] == 1


@pytest.mark.parametrize(("seconds", "holds"), [(59, True), (60, False)])
def test_a_controller_that_replaces_pods_has_ended_with_this_one_or_has_made_another(seconds, holds):
    written = patched(main(), [replica()])
    ended = ControllerStatus(JobPhase.SUCCEEDED, finished_at=_AT + timedelta(seconds=seconds))

    assert (read(written, [blank()], ended, KINDS["pytorchjob"]) != [blank()]) == holds
    assert read(written, [blank()], ended) != [blank()]
    failed = ControllerStatus(JobPhase.FAILED)
    assert read(written, [blank()], failed, KINDS["pytorchjob"]) != [blank()]


def test_a_job_that_goes_on_is_read_from_its_pods_alone():
    written = patched(main(), [replica()])

    assert read(written, [blank()], ControllerStatus()) == [blank()]


@pytest.mark.parametrize(
    ("lost", "controller", "is_lost"),
    [
        (replica(), _KEPT, True),
        (replica(attempt=1, job_set="a"), _KEPT, True),
        # It starts again, or has.
        (replica(), replace(_KEPT, keeps_complete=False), False),
        (replica(succeeded=False), _KEPT, False),
        (replica(attempt=0, job_set="a"), _KEPT, False),
        (replica(attempt=1, job_set="b"), _KEPT, False),
        # It has done its work.
        (replica(disrupted=False), _KEPT, False),
        (blank(), _KEPT, False),
    ],
)
def test_a_replica_that_is_complete_for_its_controller_is_lost_for_good(lost, controller, is_lost):
    others = [replica(1, disrupted=False, end=None), blank(2)]

    assert found(main(), controller, [lost, *others]) is (lost if is_lost else None)
    # A process that has not seen the pod knows it as well.
    patch = to_write(job(main(), [lost, *others], controller), None)
    written = main(patch["metadata"]["annotations"][labels.DISRUPTED]) if patch else main()
    assert (found(written, controller, [blank(), *others]) is not None) is is_lost


def found(main, controller, replicas, resumed_at=None):
    return lost_for_good(job(main, replicas, controller), resumed_at)


@pytest.mark.parametrize(
    ("annotations", "is_lost"),
    [({}, True), ({labels.OPTIONAL: '["worker"]'}, False), ({labels.ELASTIC: "true"}, False)],
)
def test_only_who_is_needed_is_lost_for_good(annotations, is_lost):
    assert (found(main(**annotations), _KEPT, [blank(0), replica(1)]) is not None) is is_lost


@pytest.mark.parametrize("ended", [blank(0), replica(0, disrupted=False, end=_AT + timedelta(seconds=6))])
def test_a_replica_is_lost_for_good_unless_the_leader_was_done(ended):
    assert found(main(), _KEPT, [ended, replica(1)]) == replica(1)
    assert found(main(), _KEPT, [replica(0, disrupted=False), replica(1)]) is None


@pytest.mark.parametrize("seconds", [-1, 0, 1])
def test_what_a_suspension_ended_is_not_lost_for_good(seconds):
    resumed_at = _AT + timedelta(seconds=seconds)

    assert (found(main(), _KEPT, [replica()], resumed_at) is None) is (seconds >= 0)


def test_a_job_that_ends_for_another_reason_has_lost_nothing():
    asked = main()
    asked["metadata"]["deletionTimestamp"] = "2026-11-21T07:00:00Z"

    assert found(asked, _KEPT, [replica()]) is None
    assert found(main(**{labels.CANCELLED: "x"}), _KEPT, [replica()]) is None
    failed = replica(1, code=1, disrupted=False)
    assert (
        found(main(), _KEPT, [replica(), replace(failed, status=failed.status.model_copy(update={"reason": "Error"}))])
        is None
    )


def test_that_a_replica_is_complete_is_written_as_soon_as_it_is_known():
    at_first = patched(main(), [replica(succeeded=False)], _KEPT)
    assert found(at_first, _KEPT, [blank()]) is None

    later = patched(at_first, [replica()], _KEPT)

    assert found(later, _KEPT, [blank()]) is not None
    assert to_write(job(later, [replica(succeeded=False)], _KEPT), None) is None


def test_a_pod_that_was_gone_before_its_end_was_seen_was_cut_short_and_does_not_unsay_what_is_written():
    unseen = replica(code=None)

    assert cut_short(job(main(), [unseen])) is unseen
    written = patched(main(), [replica()])
    assert to_write(job(written, [replica(code=None, end=_AT + timedelta(seconds=30))]), None) is None


def test_a_replica_that_went_on_to_the_leaders_end_has_done_its_work():
    # Both end by themselves, within the grace period of one that is to go.
    later = ControllerStatus(JobPhase.SUCCEEDED, finished_at=_AT + timedelta(seconds=20))
    leader = replica(0, disrupted=False, end=_AT + timedelta(seconds=19))

    assert cut_short(job(main(), [leader, replica(1, end=_AT + timedelta(seconds=14))], later)) is None
    lost = replica(1, end=_AT + timedelta(seconds=13))
    assert cut_short(job(main(), [leader, lost], later)) is lost


@pytest.mark.parametrize(("seconds", "is_lost"), [(5, False), (6, True)])
def test_a_replica_that_goes_as_its_job_ends_is_cleaned_up(seconds, is_lost):
    ended = ControllerStatus(JobPhase.SUCCEEDED, finished_at=_AT + timedelta(seconds=seconds))

    assert (cut_short(job(main(), [blank(), replica(1)], ended)) is not None) == is_lost


@pytest.mark.parametrize(("ours", "at", "is_lost"), [(False, 0, False), (True, 0, True), (True, 1, False)])
def test_a_leader_that_is_cleaned_up_after_its_jobs_end_is_not_lost(ours, at, is_lost):
    controller = ControllerStatus(JobPhase.SUCCEEDED, finished_at=_AT - timedelta(seconds=at))

    found = cut_short(job(main(ours=ours), [replica()], controller))

    assert (found is not None) == is_lost


def test_of_a_job_that_was_suspended_and_is_complete_a_pod_that_is_gone_had_not_completed():
    suspended = {labels.CANCELLED: "the task was killed", labels.ON_KILL: "suspend"}

    assert cut_short(job(main(**suspended), [blank()])) == blank()
    assert cut_short(job(main(**suspended), [replica(disrupted=False)])) is None
    assert cut_short(job(main(**{labels.CANCELLED: "x"}), [blank()])) is None


def test_of_a_job_that_has_failed_who_failed_first_is_written():
    failed = ControllerStatus(JobPhase.FAILED, finished_at=_AT)

    patch = to_write(job(main(), [replica(0), replica(1)], failed), "worker-1")

    assert list(json.loads(patch["metadata"]["annotations"][labels.DISRUPTED])) == ["worker-1"]
    assert to_write(job(main(), [replica(0), replica(1)], failed), None) is None


def test_what_a_job_can_do_without_is_not_written():
    optional = main(**{labels.OPTIONAL: '["worker"]'})

    written = patched(optional, [replica(0), replica(1)], ControllerStatus())

    assert list(json.loads(written["metadata"]["annotations"][labels.DISRUPTED])) == ["worker-0"]


_ENTRY = '{"worker-0": {"at": "%s", "end": {"group": "worker", "index": 0%s}}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        '{"worker-0": {}}',
        _ENTRY % ("2026-11-21T07:00:00Z", ""),
        _ENTRY % ("2026-11-21T07:00:00", ', "finished_at": "2026-11-21T07:00:00Z"'),
    ],
)
def test_what_cannot_be_read_says_nothing(text):
    assert read(main(text), [blank()]) == [blank()]


def test_annotations_stay_small():
    written = patched(main(), [replica(index) for index in range(1000)], ControllerStatus())

    text = written["metadata"]["annotations"][labels.DISRUPTED]
    assert len(json.loads(text)) == 20
    assert len(text) < 10_000
