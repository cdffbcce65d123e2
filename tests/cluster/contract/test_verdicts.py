"""What makes a job fail on a cluster is named, and whether a retry can help. The docs' table is made of these."""

from __future__ import annotations

import asyncio
import time

import pytest

from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster import cgroups
from tests.cluster.contract.jobs import running, verdict
from tests.contract.conftest import Contract

_LARGE = "9999"
#: What runs until something ends it, however long a busy machine takes to do so.
_RUNS_ON = "time.sleep(3600)"


@pytest.fixture
def failed(contract, record_verdict):
    """Function (title, job, before) -> the verdict on a job that something fails, noted for the docs.

    A job that fails beside another is of another task.
    """

    async def failed(title, job, then=None, startup_timeout=None, task=None):
        of = Contract(contract.case, task) if task else contract
        diagnosis = await verdict(of, job, then, startup_timeout)
        record_verdict(title, contract.backend.name, diagnosis)
        return diagnosis

    return failed


async def test_a_rank_that_raises(contract, failed):
    job = contract.case.job(f'if me.endswith("1"): raise ValueError("labels are missing")\n{_RUNS_ON}')

    diagnosis = await failed("rank raises", job)

    assert (diagnosis.rank, diagnosis.exit_code, diagnosis.retry_can_help) == (1, 1, "unknown")
    assert diagnosis.traceback[-1] == "ValueError: labels are missing"


async def test_a_module_that_is_missing(contract, failed):
    diagnosis = await failed("module missing", contract.case.job("import no_such_module", nodes=1))

    assert diagnosis.retry_can_help == "no"
    assert "no_such_module" in diagnosis.message


async def test_out_of_memory(contract, record_verdict):
    job = contract.case.job(
        f"block = bytearray(300 << 20); {_RUNS_ON}", nodes=1, resources_per_node={"memory": "100Mi"}
    )

    diagnosis = await verdict(contract, job)

    if cgroups.version() == 1 and diagnosis.reason == "Error":
        # There the container runtime learns of the end and of its cause separately, now and then of the end first.
        assert "it was ended by SIGKILL" in diagnosis.message
        pytest.skip("on cgroup v1 the container runtime has not said that memory was the cause")
    record_verdict("out of memory", contract.backend.name, diagnosis)
    assert (diagnosis.reason, diagnosis.retry_can_help) == ("OOMKilled", "no")


async def test_an_image_or_a_secret_that_is_missing(contract, failed):
    # A registry that recovers within a minute does no harm, nor does a Secret that comes late: the two wait together.
    without_image = contract.case.job("pass", nodes=1, image="registry.invalid/none:1")
    variable = {"name": "KEY", "secretKeyRef": {"name": "none", "key": "key"}}
    without_secret = contract.case.job("pass", nodes=1, variable=variable)
    begun = time.monotonic()

    image, secret = await asyncio.gather(
        failed("image missing", without_image), failed("Secret missing", without_secret, task="another")
    )

    # Not sooner. Later than the timeout of the case, the verdict would be another one.
    assert time.monotonic() - begun >= 60
    assert image.reason in ("ImagePullBackOff", "ErrImagePull")
    assert image.retry_can_help == "no"
    assert "registry.invalid/none:1" in image.message
    assert (secret.reason, secret.retry_can_help) == ("CreateContainerConfigError", "no")
    assert '"none"' in secret.message


async def test_an_image_name_that_is_none(contract, failed):
    begun = time.monotonic()

    diagnosis = await failed("image name invalid", contract.case.job("pass", nodes=1, image="Not/An:Image!"))

    assert time.monotonic() - begun >= 10
    assert (diagnosis.reason, diagnosis.retry_can_help) == ("InvalidImageName", "no")


async def test_a_job_that_can_never_start_is_not_resumed_by_the_next_try(contract):
    job = contract.case.job("pass", nodes=1, image="Not/An:Image!", on_kill_action="suspend", on_finish_action="keep")
    handle, status = await contract.run(job)
    assert (status.phase, status.reason) == (JobPhase.FAILED, "InvalidImageName")
    await contract.backend.acknowledge(handle)

    again = await contract.backend.submit(job, contract.identity(2))

    assert again.adopted is None
    assert [each.name for each in await contract.backend.overviews()] == [again.handle.name]


async def test_no_node_has_room(contract, failed):
    job = contract.case.job("pass", nodes=1, resources_per_node={"cpu": {"requests": _LARGE}})

    diagnosis = await failed("unschedulable", job, startup_timeout=30)

    assert diagnosis.reason == "Unschedulable"
    assert "Insufficient cpu" in diagnosis.message


async def test_a_quota_is_used_up(contract, failed, cluster, namespace):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": "0"}}}
    cluster.kubectl.apply([quota], f"--namespace={namespace}")
    # The API server admits nothing by a quota that has not been counted.
    counted = "--for=jsonpath={.status.hard.pods}=0"
    cluster.kubectl("wait", counted, "quota/pods", f"--namespace={namespace}", "--timeout=170s")

    diagnosis = await failed("quota used up", contract.case.job("pass", nodes=1), startup_timeout=45)

    assert "exceeded quota: pods" in diagnosis.message


async def test_a_pod_is_evicted(contract, failed, cluster, namespace):
    if contract.backend.name == "training-operator":
        pytest.skip("what the Training Operator sees first is chance: that has a test of its own")
    job = contract.case.job(f'note("began"); {_RUNS_ON}', nodes=1)

    async def evict(handle):
        await running(contract, handle)
        cluster.kubectl.evict(contract.case.pods(handle)[0], namespace)

    diagnosis = await failed("evicted", job, evict)

    assert (diagnosis.reason, diagnosis.retry_can_help) == ("EvictionByEvictionAPI", "yes")


async def test_a_pod_is_deleted(contract, failed, cluster, namespace):
    job = contract.case.job(f'note("began"); {_RUNS_ON}', nodes=1)

    async def delete(handle):
        await running(contract, handle)
        cluster.kubectl.delete_pod(contract.case.pods(handle)[0], namespace)

    if contract.backend.name == "training-operator":
        pytest.skip("the Training Operator makes a deleted pod again: that has a test of its own")
    diagnosis = await failed("pod deleted", job, delete)

    assert (diagnosis.reason, diagnosis.retry_can_help, diagnosis.infrastructure) == ("Deleted", "yes", True)
    assert "its pod was deleted" in diagnosis.message


async def test_a_deleted_pod_that_the_operator_makes_again_is_no_failure(contract, cluster, namespace):
    if contract.backend.name != "training-operator":
        pytest.skip("only the Training Operator makes a deleted pod again")
    handle = await contract.submit(contract.case.job('note("began", me); wait_for("go")', nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    cluster.kubectl.delete_pod(contract.case.pods(handle)[0], namespace)
    await contract.until(lambda: contract.noted("began") == ["worker-0", "worker-0"])
    contract.release("go")

    assert (await following).phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize(("taken_away", "reason"), [("evict", "EvictionByEvictionAPI"), ("delete_pod", "Deleted")])
async def test_the_operator_lets_the_job_fail_or_replaces_the_pod(contract, cluster, namespace, taken_away, reason):
    if contract.backend.name != "training-operator":
        pytest.skip("only the Training Operator replaces a pod of a job whose pods are not to run again")
    handle = await contract.submit(contract.case.job('note("began", me); wait_for("go")', nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    getattr(cluster.kubectl, taken_away)(contract.case.pods(handle)[0], namespace)
    await contract.until(lambda: following.done() or len(contract.noted("began")) == 2)
    contract.release("go")

    status = await following
    end = status.replicas[0].reason
    assert (status.phase, end) in [(JobPhase.SUCCEEDED, "Completed"), (JobPhase.FAILED, reason)], status


async def test_the_deadline_passes(contract, failed):
    job = contract.case.job(_RUNS_ON, nodes=1, run_policy={"active_deadline_seconds": 3})

    assert (await failed("deadline passed", job)).reason == "DeadlineExceeded"


async def test_the_job_is_deleted(contract):
    handle = await contract.submit(contract.case.job(f'note("began"); {_RUNS_ON}', nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    contract.case.delete(handle)

    with pytest.raises(JobLost, match=f"{handle.name} is gone: its .* was deleted"):
        await following
    await contract.until(lambda: contract.case.processes(handle) == 0)


async def test_the_namespace_is_deleted(contract, cluster, namespace):
    handle = await contract.submit(contract.case.job(f'note("began"); {_RUNS_ON}', nodes=1))
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
