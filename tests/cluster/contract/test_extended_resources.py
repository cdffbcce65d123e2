"""GPUs, and what else a node can offer: they are granted, waited for, and taken away.

The node only says that it has them: Kubernetes counts them as it counts those of a real device plugin.
"""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.jobs import HIGH, offer, running, verdict

GPU = "nvidia.com/gpu"


@pytest.fixture(autouse=True)
def own_cluster(cluster):
    if cluster.own is None:
        pytest.skip("changes the node: only on the project's own")


async def test_a_replica_has_its_gpus_or_waits_for_them_and_says_so(contract, cluster):
    offer(cluster, GPU, 64)
    job = contract.case.job('note("began", me); wait_for("go")', nodes=1, resources_per_node={"gpu": 2})
    handle = await contract.submit(job)
    await contract.until(lambda: contract.noted("began"))
    granted = contract.case.limits(handle)
    contract.release("go")

    assert (await contract.end(handle)).phase is JobPhase.SUCCEEDED
    assert [each[GPU] for each in granted if GPU in each] == ["2"]
    await contract.backend.acknowledge(handle)
    await contract.until(lambda: not contract.case.main(handle))

    diagnosis = await verdict(
        contract, contract.case.job("pass", nodes=1, resources_per_node={"gpu": 65}), startup_timeout=30
    )
    assert diagnosis.reason == "Unschedulable"
    assert f"Insufficient {GPU}" in diagnosis.message
    assert any("queued (Unschedulable: " in line and f"Insufficient {GPU}" in line for line in contract.lines)


async def test_a_pod_that_another_of_higher_priority_displaces_is_no_failure_of_the_script(
    contract, cluster, namespace
):
    if contract.backend.name not in ("trainer", "native"):
        pytest.skip("there the controller decides what becomes of a pod that is taken away")
    # Also a resource that has no field of its own: it stands in the template's container.
    resource = f"trainer.test/{contract.backend.name}"
    offer(cluster, resource, 1)
    limits = {"limits": {resource: "1"}}
    cluster.kubectl.apply([HIGH])
    more_important = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "more-important"},
        "spec": {
            "priorityClassName": "trainer-test-high",
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "trainer.test/tiny:test", "command": ["true"], "resources": limits}
            ],
        },
    }
    job = contract.case.job('note("began"); time.sleep(3600)', nodes=1, container={"resources": limits})

    async def displace(handle):
        await running(contract, handle)
        cluster.kubectl.apply([more_important], f"--namespace={namespace}")

    diagnosis = await verdict(contract, job, displace)

    assert (diagnosis.reason, diagnosis.retry_can_help) == ("PreemptionByScheduler", "yes")
    assert diagnosis.infrastructure
