"""What a job's conditions say."""

from __future__ import annotations

from tests.cluster.jobs import conditions


def test_condition_that_does_not_hold_means_nothing():
    job = {
        "status": {
            "conditions": [
                {"type": "Running", "status": "False", "reason": "PyTorchJobRunning"},
                {"type": "Succeeded", "status": "True", "reason": "PyTorchJobSucceeded"},
            ]
        }
    }
    assert conditions(job) == {"Succeeded": "PyTorchJobSucceeded"}


def test_a_job_without_a_status_has_none():
    assert conditions({}) == {}
    assert conditions({"status": {"conditions": None}}) == {}
