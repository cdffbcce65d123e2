"""A job waits in a queue of Kueue for as long as the queue wants."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.job.status import JobPhase

_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "LocalQueue",
    "metadata": {"name": "queue"},
    "spec": {"clusterQueue": "trainer-test"},
}
#: Long enough for a pod to start on a busy machine. The job is in its queue for longer.
_STARTUP_TIMEOUT = 40


async def test_time_in_a_queue_is_reported_and_does_not_count_as_start_up(contract, cluster, namespace):
    if "kubeflow" not in cluster.profiles:
        pytest.skip("this profile has no Kueue")
    small = {"cpu": "50m", "memory": "64Mi"}
    job = contract.case.job("pass", nodes=1, scheduling={"queue_name": "queue"}, resources_per_node=small)
    handle = await contract.submit(job)
    following = asyncio.ensure_future(contract.end(handle, startup_timeout=_STARTUP_TIMEOUT))
    # It is not admitted before its queue is there.
    await contract.until(lambda: any("queued (SuspendedByKueue: " in line for line in contract.lines))
    await asyncio.sleep(_STARTUP_TIMEOUT + 2)
    assert not following.done()
    assert contract.case.pods(handle) == []

    cluster.kubectl.apply([_QUEUE], f"--namespace={namespace}")

    assert (await following).phase is JobPhase.SUCCEEDED


async def test_a_job_from_a_queue_ends_at_its_deadline(contract, cluster, namespace):
    if "kubeflow" not in cluster.profiles:
        pytest.skip("this profile has no Kueue")
    cluster.kubectl.apply([_QUEUE], f"--namespace={namespace}")
    small = {"cpu": "50m", "memory": "64Mi"}
    job = contract.case.job(
        'wait_for("never")',
        nodes=1,
        scheduling={"queue_name": "queue"},
        resources_per_node=small,
        run_policy={"active_deadline_seconds": 10},
    )

    _, status = await contract.run(job)

    assert status.phase is JobPhase.FAILED, contract.lines
    assert status.reason == "DeadlineExceeded"
