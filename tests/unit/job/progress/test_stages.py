"""Segments of replicas over a job's statuses. The clock is made up."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.job.progress.stages import Stages
from airflow_trainer_provider.job.queue.place import QueuePlace
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
START = BEGIN.timestamp()


def at(seconds):
    return BEGIN + timedelta(seconds=seconds)


def status(phase, *replicas, **fields):
    return JobStatus(phase=phase, queued_at=BEGIN, replicas=replicas, **fields)


def replica(**fields):
    return ReplicaStatus(group="worker", index=0, **fields)


def segments(stages):
    found = stages.snapshot(BEGIN)["replicas"][0]["segments"]
    return [[state, begin - START, None if end is None else end - START] for state, begin, end in found]


def test_a_replica_from_its_queue_to_its_end():
    stages = Stages()
    for now, each in (
        (2, status(JobPhase.QUEUED, replica())),
        (20, status(JobPhase.STARTING, replica(reason="ContainerCreating"))),
        (22, status(JobPhase.STARTING, replica(reason="PodInitializing"))),
        (31, status(JobPhase.RUNNING, replica(started_at=at(30)))),
        (61, status(JobPhase.RESTARTING, replica(reason="CrashLoopBackOff", restarts=1))),
        (71, status(JobPhase.RUNNING, replica(started_at=at(70), restarts=1))),
        (91, status(JobPhase.SUCCEEDED, replica(started_at=at(70), finished_at=at(90)), finished_at=at(91))),
    ):
        stages.observe(each, START + now)

    assert segments(stages) == [
        ["queued", 0, 20],
        ["starting", 20, 30],
        ["running", 30, 61],
        ["starting", 61, 70],
        ["running", 70, 90],
    ]
    assert stages.version == 7


def test_a_replica_whose_part_of_the_job_is_gone_is_in_no_stage():
    stages = Stages()
    stages.observe(status(JobPhase.STARTING, replica()), START + 1)
    stages.observe(status(JobPhase.RUNNING, replica(reason="Deleted")), START + 5)

    assert segments(stages) == [["starting", 1, 5]]


def test_a_run_that_was_not_seen_has_a_segment():
    stages = Stages()
    stages.observe(status(JobPhase.STARTING, replica()), START + 1)
    done = status(JobPhase.SUCCEEDED, replica(started_at=at(3), finished_at=at(4)), finished_at=at(4))
    stages.observe(done, START + 9)
    stages.observe(done, START + 10)

    assert segments(stages) == [["starting", 1, 3], ["running", 3, 4]]


@pytest.mark.parametrize("behind", [0.5, 40])
def test_a_run_is_one_segment_where_the_clock_of_its_node_is_behind(behind):
    """A container's start is in whole seconds, by that clock."""
    stages = Stages()
    stages.observe(status(JobPhase.STARTING, replica()), START + 50 + behind)
    for now in (51, 55):
        running = status(JobPhase.RUNNING, replica(started_at=at(50)), message=str(now))
        stages.observe(running, START + now + behind)
    done = replica(started_at=at(50), finished_at=at(99))
    stages.observe(status(JobPhase.SUCCEEDED, done, finished_at=at(99)), START + 99 + behind)

    assert segments(stages) == [["starting", 50 + behind, 50 + behind], ["running", 50 + behind, 99]]


def test_a_run_that_was_not_seen_does_not_begin_before_what_was_known():
    stages = Stages()
    stages.observe(status(JobPhase.STARTING, replica()), START + 50.5)
    done = replica(started_at=at(50), finished_at=at(50))
    for now in (51, 52):
        stages.observe(status(JobPhase.RUNNING, done, message=str(now)), START + now)

    assert segments(stages) == [["starting", 50.5, 50.5], ["running", 50.5, 50.5]]


def test_a_restart_between_two_statuses_is_seen():
    stages = Stages()
    stages.observe(status(JobPhase.RUNNING, replica(started_at=at(1))), START + 1)
    stages.observe(status(JobPhase.RUNNING, replica(started_at=at(8), restarts=1)), START + 9)

    assert segments(stages) == [["running", 1, 8], ["running", 8, None]]


def test_a_snapshot_has_the_place_in_a_queue():
    stages, place = Stages(), QueuePlace(name="q", position=3, length=7)
    stages.observe(status(JobPhase.QUEUED, replica(), queue=place), START)
    assert QueuePlace.model_validate(stages.snapshot(BEGIN)["queue"]) == place

    stages.observe(status(JobPhase.QUEUED, replica(), queue=place.model_copy(update={"position": 2})), START)
    assert (stages.version, stages.snapshot(BEGIN)["queue"]["position"]) == (2, 2)

    stages.observe(status(JobPhase.STARTING, replica()), START)
    assert stages.snapshot(BEGIN)["queue"] is None


def test_a_snapshot_has_the_jobs_state_and_continues_elsewhere():
    stages = Stages()
    stages.observe(status(JobPhase.RUNNING, replica(started_at=at(1), node="node-7"), restarts=2), START + 1)
    snapshot = json.loads(json.dumps(stages.snapshot(at(5))))

    assert snapshot["as_of"] == at(5).isoformat()
    assert (snapshot["phase"], snapshot["restarts"], snapshot["first_failed"]) == ("running", 2, None)
    assert snapshot["replicas"][0]["node"] == "node-7"
    assert snapshot["replicas"][0]["name"] == "worker-0"
    other = Stages(snapshot)
    other.observe(status(JobPhase.RUNNING, replica(started_at=at(1))), START + 60)
    assert segments(other) == [["running", 1, None]]


def test_what_is_no_snapshot_is_ignored_and_segments_are_bounded():
    assert Stages({"replicas": [{"name": "w", "segments": [["running", 10**400, None]]}]}).snapshot(BEGIN) is None
    stages = Stages({"replicas": [{"name": "worker-0"}]})
    assert stages.snapshot(BEGIN) is None
    for run in range(120):
        stages.observe(status(JobPhase.RUNNING, replica(started_at=at(run))), START + run)

    assert len(segments(stages)) == 50
    assert segments(stages)[-1] == ["running", 119, None]
