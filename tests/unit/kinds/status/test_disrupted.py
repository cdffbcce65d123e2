"""What is written down of replicas that were taken away and exited with 0."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.job.status import JobPhase, ReplicaStatus
from airflow_trainer_provider.kinds.base import ControllerStatus
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.disrupted import cut_short, to_write, with_written
from airflow_trainer_provider.kinds.status.failure import settle
from airflow_trainer_provider.kinds.status.pod_status import PodState
from airflow_trainer_provider.kinds.status.replicas import ReplicaState

_AT = datetime(2026, 11, 21, 7, tzinfo=timezone.utc)
_SUCCEEDED = ControllerStatus(JobPhase.SUCCEEDED, finished_at=_AT)


def replica(index=0, code=0, disrupted=True, end=_AT):
    status = ReplicaStatus(
        group="worker", index=index, rank=index, exit_code=code, reason="Stopped", finished_at=end, node="node"
    )
    state = PodState(status, "ended", True, _AT)
    return ReplicaState(status, "ended", state, disrupted_at=_AT if disrupted else None)


def blank(index=0):
    return ReplicaState(ReplicaStatus(group="worker", index=index, rank=index), "waiting")


def main(text=None):
    return {"metadata": {"name": "job", "annotations": {} if text is None else {labels.DISRUPTED: text}}}


def patched(before, replicas, controller=_SUCCEEDED):
    """The main object after the patch; None where there is none."""
    patch = to_write(before, controller, replicas)
    return patch and main(patch["metadata"]["annotations"][labels.DISRUPTED])


def test_what_is_written_stands_for_a_pod_that_is_gone():
    written = patched(main(), [replica(0), replica(1, disrupted=False)])

    first, second = with_written(written, _SUCCEEDED, [blank(0), blank(1)])

    assert (first.status.name, first.status.exit_code, first.status.reason) == ("worker-0", 0, "Stopped")
    assert (first.stage, first.disrupted_at, second) == ("ended", _AT, blank(1))
    assert cut_short(written, _SUCCEEDED, [first, second]) is first
    assert settle([first, second], failed=True)[0].reason == "Deleted"


def test_what_is_written_stands_for_a_pod_whose_deletion_was_covered_up():
    written = patched(main(), [replica()])
    covered_up = replica(disrupted=False)

    (found,) = with_written(written, _SUCCEEDED, [covered_up])

    assert found.disrupted_at == _AT
    assert to_write(written, _SUCCEEDED, [covered_up]) is None


def test_it_is_written_once():
    written = patched(main(), [replica()])

    assert to_write(written, _SUCCEEDED, [replica()]) is None
    assert to_write(written, _SUCCEEDED, [blank()]) is None


@pytest.mark.parametrize("end", [replica(code=1), replica(disrupted=False)])
def test_what_the_controller_knows_is_not_written(end):
    assert to_write(main(), _SUCCEEDED, [end]) is None


def test_what_was_started_again_is_written_no_longer():
    written = patched(main(), [replica()])
    again = replica(disrupted=False, end=_AT + timedelta(seconds=9))

    assert with_written(written, _SUCCEEDED, [again]) == [again]
    assert to_write(written, _SUCCEEDED, [again]) == {"metadata": {"annotations": {labels.DISRUPTED: None}}}


def test_what_was_written_before_a_restart_of_the_whole_job_says_nothing():
    written = patched(main(), [replica()], ControllerStatus(restarts=1))

    assert with_written(written, ControllerStatus(restarts=2), [blank()]) == [blank()]
    assert with_written(written, ControllerStatus(restarts=1), [blank()]) != [blank()]


@pytest.mark.parametrize("text", ["", "x", "[]", '{"worker-0": {}}'])
def test_what_cannot_be_read_says_nothing(text):
    assert with_written(main(text), _SUCCEEDED, [blank()]) == [blank()]


def test_annotations_stay_small():
    written = patched(main(), [replica(index) for index in range(1000)])

    text = written["metadata"]["annotations"][labels.DISRUPTED]
    assert len(json.loads(text)) == 20
    assert len(text) < 10_000
