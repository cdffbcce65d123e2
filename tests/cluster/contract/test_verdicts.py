"""What makes a job fail on a cluster is named, and whether a retry can help. The docs' table is made of these."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.jobs import running, verdict

_LARGE = "9999"


@pytest.fixture
def failed(contract, record_verdict):
    """Function (title, job, before) -> the verdict on a job that something fails, noted for the docs."""

    async def failed(title, job, then=None, startup_timeout=None):
        diagnosis = await verdict(contract, job, then, startup_timeout)
        record_verdict(title, contract.backend.name, diagnosis)
        return diagnosis

    return failed


async def test_a_rank_that_raises(contract, failed):
    job = contract.case.job('if me.endswith("1"): raise ValueError("labels are missing")\ntime.sleep(60)')

    diagnosis = await failed("rank raises", job)

    assert (diagnosis.rank, diagnosis.exit_code, diagnosis.retry_can_help) == (1, 1, "unknown")
    assert diagnosis.traceback[-1] == "ValueError: labels are missing"


async def test_a_module_that_is_missing(contract, failed):
    diagnosis = await failed("module missing", contract.case.job("import no_such_module", nodes=1))

    assert diagnosis.retry_can_help == "no"
    assert "no_such_module" in diagnosis.message


async def test_out_of_memory(contract, failed):
    job = contract.case.job(
        "block = bytearray(300 << 20); time.sleep(60)", nodes=1, resources_per_node={"memory": "100Mi"}
    )

    diagnosis = await failed("out of memory", job)

    assert (diagnosis.reason, diagnosis.retry_can_help) == ("OOMKilled", "no")


async def test_an_image_that_is_missing(contract, failed):
    job = contract.case.job("pass", nodes=1, image="registry.invalid/none:1")

    diagnosis = await failed("image missing", job)

    assert diagnosis.reason in ("ImagePullBackOff", "ErrImagePull")
    assert diagnosis.retry_can_help == "no"
    assert "registry.invalid/none:1" in diagnosis.message


async def test_an_image_name_that_is_none(contract, failed):
    diagnosis = await failed("image name invalid", contract.case.job("pass", nodes=1, image="Not/An:Image!"))

    assert (diagnosis.reason, diagnosis.retry_can_help) == ("InvalidImageName", "no")


async def test_a_secret_that_is_missing(contract, failed):
    job = contract.case.job("pass", nodes=1, variable={"name": "KEY", "secretKeyRef": {"name": "none", "key": "key"}})

    diagnosis = await failed("Secret missing", job)

    assert (diagnosis.reason, diagnosis.retry_can_help) == ("CreateContainerConfigError", "no")
    assert '"none"' in diagnosis.message


async def test_no_node_has_room(contract, failed):
    job = contract.case.job("pass", nodes=1, resources_per_node={"cpu": {"requests": _LARGE}})

    diagnosis = await failed("unschedulable", job, startup_timeout=5)

    assert diagnosis.reason == "Unschedulable"
    assert "Insufficient cpu" in diagnosis.message


async def test_a_quota_is_used_up(contract, failed, cluster, namespace):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": "0"}}}
    cluster.kubectl.apply([quota], f"--namespace={namespace}")

    diagnosis = await failed("quota used up", contract.case.job("pass", nodes=1), startup_timeout=12)

    assert "exceeded quota: pods" in diagnosis.message


async def test_a_pod_is_evicted(contract, failed, faults, namespace):
    if contract.backend.name == "training-operator":
        pytest.skip("what the Training Operator sees first is chance: the pod's failure, or that there is no pod")
    job = contract.case.job('note("began"); time.sleep(60)', nodes=1)

    async def evict(handle):
        await running(contract, handle)
        faults.evict(contract.case.pods(handle)[0], namespace)

    diagnosis = await failed("evicted", job, evict)

    assert diagnosis.retry_can_help == "yes"
    assert "EvictionByEvictionAPI" in (diagnosis.reason, *diagnosis.message.split()) or "evict" in diagnosis.message


async def test_a_pod_is_deleted(contract, failed, faults, namespace):
    job = contract.case.job('note("began"); time.sleep(60)', nodes=1)

    async def delete(handle):
        await running(contract, handle)
        faults.delete_pod(contract.case.pods(handle)[0], namespace)

    if contract.backend.name == "training-operator":
        pytest.skip("the Training Operator makes a deleted pod again, and the job goes on")
    diagnosis = await failed("pod deleted", job, delete)

    assert diagnosis.retry_can_help in ("yes", "unknown")


async def test_the_deadline_passes(contract, failed):
    job = contract.case.job("time.sleep(60)", nodes=1, run_policy={"active_deadline_seconds": 3})

    assert (await failed("deadline passed", job)).reason == "DeadlineExceeded"


async def test_somebody_deletes_the_job(contract):
    handle = await contract.submit(contract.case.job('note("began"); time.sleep(60)', nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    contract.case.delete(handle)

    with pytest.raises(JobLost, match=f"{handle.name} is gone: somebody deleted"):
        await following
    await contract.until(lambda: contract.case.processes(handle) == 0)


async def test_the_namespace_is_deleted(contract, cluster, namespace):
    handle = await contract.submit(contract.case.job('note("began"); time.sleep(60)', nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    cluster.kubectl("delete", "namespace", namespace, "--wait=false")

    # What goes first is chance: the job, or its pods.
    (end,) = await asyncio.gather(following, return_exceptions=True)
    if isinstance(end, JobLost):
        end = str(end)
    assert "or the namespace itself" in end if isinstance(end, str) else end.reason == "Deleted", end


async def test_a_job_that_its_ttl_deletes_has_succeeded(contract):
    if contract.backend.name != "training-operator":
        pytest.skip("its kinds have no time to live")
    job = contract.case.job("pass", nodes=1)
    handle = await contract.submit(job)
    contract.case.patch(handle, {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 0}}})

    assert (await contract.end(handle)).phase is JobPhase.SUCCEEDED
