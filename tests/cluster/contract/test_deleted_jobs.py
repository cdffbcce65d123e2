"""Parts of a training that are deleted by hand, or by a time to live that a policy of the cluster gives them."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.jobs import running, verdict
from tests.cluster.jobs import resource_name

_TWO_JOBS = {"framework": "tensorflow", "num_nodes": None, "replicas": {"chief": {}, "worker": {"replicas": 1}}}
_HOLDS = 'note("began"); time.sleep(3600)'


@pytest.fixture
def _native(contract):
    if contract.backend.name != "native":
        pytest.skip("the operators create again what is deleted of a job")


@pytest.mark.usefixtures("_native")
@pytest.mark.parametrize("fields", [{"nodes": 1}, _TWO_JOBS], ids=["one", "of two"])
async def test_a_job_that_is_deleted_by_hand_ends_the_training(contract, cluster, namespace, fields):
    async def delete(handle):
        await running(contract, handle)
        cluster.kubectl("delete", "job", f"{handle.name}-worker", f"--namespace={namespace}", "--wait=false")

    diagnosis = await verdict(contract, contract.case.job(_HOLDS, **fields), delete)

    assert (diagnosis.reason, diagnosis.infrastructure, diagnosis.retry_can_help) == ("Deleted", True, "yes")


@pytest.mark.usefixtures("_native")
async def test_a_complete_job_may_go_while_another_one_trains(contract, cluster, namespace):
    script = 'note("began"); me.startswith("chief") or wait_for("go")'
    handle = await contract.submit(contract.case.job(script, **_TWO_JOBS))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)
    chief = f"{handle.name}-chief"
    patch = '--patch={"spec": {"ttlSecondsAfterFinished": 0}}'
    cluster.kubectl("patch", "job", chief, "--type=merge", patch, f"--namespace={namespace}")

    cluster.kubectl("wait", "--for=delete", f"job/{chief}", f"--namespace={namespace}", "--timeout=60s")
    # As a task sees it that takes the job over now: nothing that startup_timeout_seconds bounds.
    seen = await contract.backend.status(handle)
    assert (seen.phase, seen.waiting_since) == (JobPhase.RUNNING, None)
    contract.release("go")

    assert (await following).phase is JobPhase.SUCCEEDED


@pytest.mark.usefixtures("_native")
async def test_the_only_job_may_go_once_it_is_complete(contract, cluster, namespace):
    result = 'open(os.environ["TRAINER_RESULT_PATH"], "w").write(\'{"loss": 1}\')'
    handle = await contract.submit(contract.case.job(f'note("began"); wait_for("go"); {result}', nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)
    only = f"{handle.name}-worker"
    patch = '--patch={"spec": {"ttlSecondsAfterFinished": 0}}'
    cluster.kubectl("patch", "job", only, "--type=merge", patch, f"--namespace={namespace}")
    contract.release("go")

    assert (await following).phase is JobPhase.SUCCEEDED
    cluster.kubectl("wait", "--for=delete", f"job/{only}", f"--namespace={namespace}", "--timeout=60s")
    assert await contract.backend.result(handle) == b'{"loss": 1}'


@pytest.mark.parametrize(("code", "phase"), [(0, JobPhase.SUCCEEDED), (3, JobPhase.FAILED)])
async def test_a_job_whose_deletion_a_finalizer_holds_up_ends_with_its_leader(
    contract, cluster, namespace, code, phase
):
    script = f'note("began"); wait_for("go"); raise SystemExit({code})'
    handle = await contract.submit(contract.case.job(script, nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)
    contract.case.patch(handle, {"metadata": {"finalizers": ["example.com/audit"]}})

    cluster.kubectl("delete", resource_name(handle), handle.name, f"--namespace={namespace}", "--wait=false")
    assert not (await contract.backend.status(handle)).phase.ended
    contract.release("go")
    try:
        assert (await following).phase is phase
    finally:
        contract.case.patch(handle, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("kind", ["jobset", "job"])
async def test_what_its_controller_creates_again_is_a_restart(contract, cluster, namespace, kind):
    if contract.backend.name != "trainer":
        pytest.skip("only Trainer creates them again")
    handle = await contract.submit(contract.case.job('note("began"); wait_for("go")'))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)
    where = f"--namespace={namespace}"
    name = cluster.kubectl(
        "get", kind, where, f"--selector=jobset.sigs.k8s.io/jobset-name={handle.name}", "--output=name"
    )

    cluster.kubectl("delete", name.strip() or f"{kind}/{handle.name}", where, "--wait=false")
    again = "was deleted, and its controller has created it again)."
    await contract.until(lambda: any(line.endswith(again) for line in contract.lines))
    contract.release("go")
    status = await following

    assert (status.phase, status.restarts) == (JobPhase.SUCCEEDED, 1)
    assert {replica.restarts for replica in status.replicas} == {1}
