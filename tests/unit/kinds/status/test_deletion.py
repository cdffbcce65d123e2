"""When the deletion of a pod was asked for, over the versions of the pod."""

from __future__ import annotations

import itertools

import pytest

from airflow_trainer_provider.kinds.status.deletion import FIRST_DELETION, keep_first_deletion, order_of_deletion


def _version(number, phase, by=None, grace=None):
    deletion = {"deletionTimestamp": by, "deletionGracePeriodSeconds": grace} if by else {}
    return {"metadata": {"name": "p", "resourceVersion": str(number), **deletion}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("phase", "first", "order"),
    [
        ("Running", {"deletionTimestamp": "10", "deletionGracePeriodSeconds": 30, "resourceVersion": "2"}, 2),
        ("Succeeded", None, 0),
    ],
)
def test_the_first_deletion_of_a_pod_that_had_not_ended_is_kept(phase, first, order):
    ends = [_version(3, "Succeeded", "12", 0), _version(4, "Failed", "13", 0)]
    versions = [_version(1, "Running"), _version(2, phase, "10", 30), *ends]

    for known, newer in itertools.pairwise(versions):
        keep_first_deletion(newer, known)

    last = versions[-1]
    assert last["metadata"].get(FIRST_DELETION) == first
    assert (last["metadata"]["deletionTimestamp"], order_of_deletion(last)) == ("13", order)


def test_a_version_that_is_no_number_says_nothing_of_the_order():
    assert order_of_deletion({"metadata": {FIRST_DELETION: {"resourceVersion": "a1"}}}) == 0
    assert order_of_deletion({"metadata": {}}) == 0
