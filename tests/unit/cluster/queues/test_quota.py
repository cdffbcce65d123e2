"""What a queue has not enough of, from Kueue's words and from its numbers."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.queues.quota import can_never_start, quotas_of, shortages
from airflow_trainer_provider.job.queue.place import Shortage

#: As Kueue 0.14 writes them.
POD_SET = "couldn't assign flavors to pod set worker"
SHORT = f"{POD_SET}: insufficient unused quota for nvidia.com/gpu in flavor a100, 2 more needed"
TWO = f"{SHORT}, insufficient unused quota for memory in flavor a100, 1Gi more needed"
NEVER = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, "
    "request > maximum capacity (3 > 500m)"
)


def workload(message, **requests):
    condition = {"type": "QuotaReserved", "status": "False", "message": message}
    return {"status": {"conditions": [condition], "resourceRequests": [{"name": "worker", "resources": requests}]}}


def cluster_queue(nominal, used, flavor="a100", resource="nvidia.com/gpu", **spec):
    quota = {"name": flavor, "resources": [{"name": resource, "nominalQuota": nominal}]}
    reserved = {"name": flavor, "resources": [{"name": resource, "total": used, "borrowed": "0"}]}
    return {
        "spec": {"resourceGroups": [{"coveredResources": [resource], "flavors": [quota]}], **spec},
        "status": {"flavorsReservation": [reserved]},
    }


GPU = {"nvidia.com/gpu": "4"}
ROW = Shortage(resource="nvidia.com/gpu", flavor="a100", needed=4, free=2)


@pytest.mark.parametrize(
    ("message", "requests", "queue", "found"),
    [
        (SHORT, GPU, None, [ROW]),
        (SHORT, {}, None, [ROW.model_copy(update={"needed": 2, "free": None})]),
        (SHORT, GPU, cluster_queue("32", "30"), [ROW.model_copy(update={"total": 32, "used": 30})]),
        # The numbers are newer than the message.
        (SHORT, GPU, cluster_queue("32", "31"), [ROW.model_copy(update={"total": 32, "used": 31, "free": 1})]),
        (SHORT, GPU, cluster_queue("32", "20"), []),
        # Of a cohort only Kueue knows what is free.
        (
            SHORT,
            GPU,
            cluster_queue("32", "20", cohort="all"),
            [ROW.model_copy(update={"total": 32, "used": 20})],
        ),
        (
            TWO,
            {**GPU, "memory": "3Gi"},
            None,
            [ROW, Shortage(resource="memory", flavor="a100", needed=3 * 2**30, free=2 * 2**30)],
        ),
        (NEVER, {"cpu": "3"}, None, [Shortage(resource="cpu", flavor="default", needed=3, total=0.5)]),
        ("", GPU, None, []),
        ("", GPU, cluster_queue("32", "30"), [ROW.model_copy(update={"total": 32, "used": 30})]),
        ("", GPU, cluster_queue("32", "28"), []),
        ("", GPU, cluster_queue("32", "30", cohort="all"), []),
        ("", GPU, cluster_queue("32", "30", cohortName="all"), []),
        ("", {"cpu": "4"}, cluster_queue("32", "30"), []),
    ],
)
def test_what_is_missing(message, requests, queue, found):
    assert list(shortages(workload(message, **requests), quotas_of(queue))) == found


def test_a_flavor_that_has_enough_is_enough():
    queue = cluster_queue("8", "8")
    queue["spec"]["resourceGroups"][0]["flavors"].append(
        {"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "3"}]}
    )
    quotas = quotas_of(queue)

    assert [each.flavor for each in shortages(workload("", **GPU), quotas)] == ["h100"]
    assert shortages(workload("", **{"nvidia.com/gpu": "3"}), quotas) == ()


@pytest.mark.parametrize(
    ("message", "never"), [(NEVER, True), (SHORT, False), (f"{NEVER}, {SHORT}", False), ("", False)]
)
def test_a_job_that_is_larger_than_all_quota_never_starts(message, never):
    assert can_never_start(workload(message)) is never


def test_all_pod_sets_of_a_job_need_something_together():
    waiting = workload("", **GPU)
    waiting["status"]["resourceRequests"].append({"name": "launcher", "resources": {"nvidia.com/gpu": "1"}})

    (found,) = shortages(waiting, quotas_of(cluster_queue("32", "28")))

    assert (found.needed, found.free) == (5, 4)
