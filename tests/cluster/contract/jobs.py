"""What the tests of cluster backends do with jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.access import Access
from tests.cluster.network import NODE_NAME
from tests.contract.conftest import Contract

#: A PriorityClass above the default.
HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "trainer-test-high"},
    "value": 1_000_000,
}


def offer(cluster: Access, name: str, count: int) -> None:
    """Let the node say that it has so many devices. They stay: other tests may use them meanwhile."""
    # The kubelet would derive the second from the first, some seconds later.
    amounts = {side: {name: str(count)} for side in ("capacity", "allocatable")}
    patch = json.dumps({"status": amounts})
    cluster.kubectl("patch", "node", NODE_NAME, "--subresource=status", "--type=merge", f"--patch={patch}")


async def running(contract: Contract, handle: JobHandle) -> None:
    """Wait until a follower of the job has seen it run, and its script has begun."""
    await contract.until((contract.case.shared / "began").exists)
    await contract.until(lambda: f"Training job {handle.name}: running." in contract.lines)


def pod_of(contract: Contract, handle: JobHandle, replica: str) -> str:
    """The name of a replica's pod."""
    group, index = replica.rsplit("-", 1)
    # The pods of a TrainJob are those of its step "node", and the launcher's has no index.
    names = ["-launcher-"] if group == "launcher" else [f"-{group}-{index}", f"-node-0-{index}-"]
    return next(pod for pod in contract.case.pods(handle) if any(name in pod for name in names))


async def verdict(
    contract: Contract,
    job: JobPlan,
    then: Callable[[JobHandle], Awaitable[None]] | None = None,
    startup_timeout: float | None = None,
) -> Diagnosis:
    """Run a job that fails, and say why it did, as a task would.

    :param then: what happens to the job meanwhile.
    """
    handle = await contract.submit(job)
    following = asyncio.ensure_future(contract.end(handle, startup_timeout=startup_timeout))
    if then:
        await then(handle)
    status = await following
    assert status.phase is JobPhase.FAILED, status
    replica = status.first_failed
    log = await contract.backend.log_tail(handle, replica, 400) if replica else []
    diagnosis = diagnose(handle.name, get_framework("jax"), status, log)
    # Trainer says that a job has failed before it deletes the pods.
    await contract.until(lambda: contract.case.processes(handle) == 0)
    return diagnosis
