"""What the conditions of kubeflow.org's jobs say, most of them as an operator really left them."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.kubeflow.training_operator import JAXJOB, PADDLEJOB, PYTORCHJOB, TFJOB, XGBOOSTJOB
from airflow_trainer_provider.kinds.mpi_operator.mpijob import MPIJOB_V1, MPIJOB_V2BETA1

OBJECTS = Path(__file__).parent / "objects"
TIME = "2026-01-01T00:00:00Z"


def real(name: str) -> tuple[Manifest, list[Manifest]]:
    """An object as the operator left it, and its pods."""
    found = json.loads((OBJECTS / f"{name}.json").read_text())
    return found["main"], found["pods"]


def held(**conditions: str) -> Manifest:
    """An object with these conditions; the text is the message."""
    entries = [
        {"type": name, "status": "True", "reason": f"TFJob{name}", "message": message, "lastTransitionTime": TIME}
        for name, message in conditions.items()
    ]
    return {"spec": {"tfReplicaSpecs": {}}, "status": {"conditions": entries}}


def job_with(reason: str, *, message: str = "", completed: bool = True, launchers_failed: int = 0) -> Manifest:
    """An MPIJob v2beta1 that holds Failed."""
    failed = {"type": "Failed", "status": "True", "reason": reason, "message": message, "lastTransitionTime": TIME}
    status: Manifest = {"conditions": [failed], "replicaStatuses": {"Launcher": {"failed": launchers_failed}}}
    return {"spec": {"mpiReplicaSpecs": {}}, "status": {**status, **({"completionTime": TIME} if completed else {})}}


@pytest.mark.parametrize(
    ("name", "kind", "phase", "reason", "groups", "replicas"),
    [
        (
            "pytorchjob-failed",
            PYTORCHJOB,
            JobPhase.FAILED,
            "PyTorchJobFailed",
            {"master": 1, "worker": 1},
            ["master-0", "worker-0"],
        ),
        (
            "pytorchjob-resumed",
            PYTORCHJOB,
            JobPhase.SUCCEEDED,
            "PyTorchJobSucceeded",
            {"master": 1, "worker": 1},
            ["master-0", "worker-0"],
        ),
        (
            "pytorchjob-workers-succeeded",
            PYTORCHJOB,
            JobPhase.SUCCEEDED,
            "PyTorchJobSucceeded",
            {"worker": 2},
            ["worker-0", "worker-1"],
        ),
        ("tfjob-succeeded", TFJOB, JobPhase.SUCCEEDED, "TFJobSucceeded", {"chief": 1, "worker": 1}, ["chief-0"]),
        (
            "xgboostjob-failed",
            XGBOOSTJOB,
            JobPhase.FAILED,
            "XGBoostJobFailed",
            {"master": 1, "worker": 1},
            ["master-0", "worker-0"],
        ),
        (
            "paddlejob-succeeded",
            PADDLEJOB,
            JobPhase.SUCCEEDED,
            "PaddleJobSucceeded",
            {"worker": 2},
            ["worker-0", "worker-1"],
        ),
        ("jaxjob-deadline", JAXJOB, JobPhase.FAILED, "DeadlineExceeded", {"worker": 1}, ["worker-0"]),
        ("jaxjob-backoff", JAXJOB, JobPhase.FAILED, "BackoffLimitExceeded", {"worker": 1}, ["worker-0"]),
        (
            "mpijob-v1-succeeded",
            MPIJOB_V1,
            JobPhase.SUCCEEDED,
            "MPIJobSucceeded",
            {"launcher": 1, "worker": 2},
            ["launcher-0", "worker-0", "worker-1"],
        ),
        (
            "mpijob-v1-failed",
            MPIJOB_V1,
            JobPhase.FAILED,
            "MPIJobMPIJobFailed",
            {"launcher": 1, "worker": 2},
            ["launcher-0", "worker-0", "worker-1"],
        ),
    ],
)
def test_what_the_operator_left_is_read(name, kind, phase, reason, groups, replicas):
    main, pods = real(name)

    controller = kind.read(main, ())

    assert (controller.phase, controller.reason) == (phase, reason)
    assert controller.restarts == 0
    assert controller.started_at is not None
    assert controller.finished_at is not None
    assert controller.started_at <= controller.finished_at
    assert list(kind.groups(main).items()) == list(groups.items())
    assert [kind.replica_ref(pod, main).name for pod in pods] == replicas


@pytest.mark.parametrize(
    ("main", "phase"),
    [
        ({"spec": {}}, None),
        (held(Created="made"), None),
        (held(Created="made", Running="runs"), None),
        (held(Created="made", Restarting="again"), JobPhase.RESTARTING),
        (held(Created="made", Suspended="stopped"), JobPhase.SUSPENDED),
        # The chief ended as a worker failed.
        (held(Succeeded="the chief has", Failed="a worker has"), JobPhase.FAILED),
        (held(Failed="a worker has", Succeeded="the chief has"), JobPhase.FAILED),
    ],
)
def test_the_phase_is_that_of_the_weightiest_condition(main, phase):
    assert TFJOB.read(main, ()).phase is phase


def test_a_condition_that_is_false_says_nothing():
    main = held(Failed="a worker has", Suspended="stopped")
    for condition in main["status"]["conditions"]:
        condition["status"] = "False"

    assert TFJOB.read(main, ()).phase is None


def test_a_failure_without_a_completion_time_has_an_end():
    controller = TFJOB.read(held(Failed="a worker has"), ())

    assert controller.finished_at == datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("main", "phase", "reason", "restarts"),
    [
        (job_with("BackoffLimitExceeded/", launchers_failed=1), JobPhase.FAILED, "BackoffLimitExceeded", 0),
        (job_with("BackoffLimitExceeded/", launchers_failed=3), JobPhase.FAILED, "BackoffLimitExceeded", 2),
        (job_with("DeadlineExceeded"), JobPhase.FAILED, "DeadlineExceeded", 0),
        (job_with("MPIJobEvicted"), JobPhase.FAILED, "MPIJobEvicted", 0),
        # mpirun may do without the worker, and succeed.
        (job_with("MPIJobEvicted", completed=False), None, "MPIJobEvicted", 0),
    ],
)
def test_failures_of_v2beta1(main, phase, reason, restarts):
    controller = MPIJOB_V2BETA1.read(main, ())

    assert (controller.phase, controller.reason, controller.restarts) == (phase, reason, restarts)


def test_a_job_that_lost_a_worker_may_succeed():
    main = job_with("MPIJobEvicted", completed=False)
    main["status"]["conditions"].append({"type": "Succeeded", "status": "True", "reason": "MPIJobSucceeded"})

    assert MPIJOB_V2BETA1.read(main, ()).phase is JobPhase.SUCCEEDED


def test_the_message_of_a_condition_is_handed_on():
    assert TFJOB.read(held(Failed="a worker has"), ()).message == "a worker has"
    assert TFJOB.read(held(Created="made", Suspended="stopped"), ()).message == "stopped"


@pytest.mark.parametrize("condition", ["Running", "Suspended", "Restarting"])
def test_a_job_that_has_not_ended_has_its_start(condition):
    main = held(**{condition: "it is"})
    main["status"]["startTime"] = TIME

    assert TFJOB.read(main, ()).started_at == datetime(2026, 1, 1, tzinfo=timezone.utc)
