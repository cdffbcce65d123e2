"""Suspend, resume and delete jobs on the real controllers, with and without Kueue."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.operators.lifecycle import (
    DeleteTrainJobOperator,
    ResumeTrainJobOperator,
    SuspendTrainJobOperator,
)
from tests.cluster.contract.conftest import backend_case, contract, shared  # noqa: F401

_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "LocalQueue",
    "metadata": {"name": "queue"},
    "spec": {"clusterQueue": "trainer-test"},
}
#: What does not end when it is asked to, so that its pods are there until they are killed.
_DEAF = """
signal.signal(signal.SIGTERM, lambda *_: note("asked", me))
note("began", me)
wait_for("go")
"""


@pytest.fixture(params=[False, True], ids=["alone", "kueue"])
def fields(request, cluster, namespace):
    """Fields of a job that a queue of Kueue admits, or that needs no admission."""
    small = {"resources_per_node": {"cpu": "50m", "memory": "64Mi"}}
    if not request.param:
        return small
    if "kubeflow" not in cluster.profiles:
        pytest.skip("this profile has no Kueue")
    cluster.kubectl.apply([_QUEUE], f"--namespace={namespace}")
    return {**small, "scheduling": {"queue_name": "queue"}}


@pytest.fixture
def run(cluster, monkeypatch, tmp_path):
    """Coroutine function (operator's class, handle, fields) that runs a task."""
    extra = {"kube_config_path": str(cluster.kubectl.kubeconfig)}
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps({"conn_type": "kubernetes", "extra": extra}))
    context = {"ti": SimpleNamespace(task_id="manage", dag_id="tests")}

    async def run(operator, handle, **fields):
        kind, namespace, _ = handle.location.split("/")
        job = handle.model_copy(update={"location": f"{kind}/{namespace}/kubernetes_default"})
        await asyncio.to_thread(operator(task_id="manage", job=job.to_xcom(), **fields).execute, context)

    return run


async def _submit(contract, grace=5, **fields):  # noqa: F811
    """A job of as many replicas as run the snippet.

    :param grace: seconds between SIGTERM and the kill; pods that are not there any more have noted nothing of it.
    """
    policy = {"grace_period_seconds": grace}
    job = contract.case.job(_DEAF, nodes=len(contract.case.speakers), run_policy=policy, **fields)
    return await contract.submit(job)


async def _all_noted(contract, name, times=1):  # noqa: F811
    """Wait until all replicas that run the snippet have noted it, so often."""
    count = times * len(contract.case.speakers)
    await contract.until(lambda: len(contract.noted(name)) == count)


async def _begun(contract, handle):  # noqa: F811
    """Follow the job until all of it runs."""
    following = asyncio.ensure_future(contract.end(handle))
    await contract.until(lambda: f"Training job {handle.name}: running." in contract.lines)
    await _all_noted(contract, "began")
    return following


async def test_a_suspended_job_goes_on_and_who_waits_for_it_sees_both(contract, run, fields):  # noqa: F811
    handle = await _submit(contract, **fields)
    following = await _begun(contract, handle)

    await run(SuspendTrainJobOperator, handle)

    assert contract.case.pods(handle) == []
    assert sorted(contract.noted("asked")) == contract.case.speakers
    await contract.until(lambda: any(": suspended (" in line for line in contract.lines))
    assert not following.done()

    await run(ResumeTrainJobOperator, handle, wait_until_running=True)

    await _all_noted(contract, "began", times=2)
    contract.release("go")
    status = await following
    assert (status.phase, status.restarts) == (JobPhase.SUCCEEDED, 0)
    ended = {replica.name: replica.exit_code for replica in status.replicas}
    assert [ended[name] for name in contract.case.speakers] == [0] * len(contract.case.speakers)


async def test_a_job_that_is_resumed_while_its_pods_are_on_their_way_out_does_not_fail(contract, run, fields):  # noqa: F811
    # Time for the task that suspends, and for a look at the pods that are on their way out.
    handle = await _submit(contract, grace=20, **fields)
    following = await _begun(contract, handle)

    await run(SuspendTrainJobOperator, handle, wait_until_stopped=False)
    assert len(contract.case.pods(handle)) >= len(contract.case.speakers)
    await run(ResumeTrainJobOperator, handle)

    await _all_noted(contract, "began", times=2)
    contract.release("go")
    assert (await following).phase is JobPhase.SUCCEEDED


@pytest.mark.no_second_chance
async def test_a_killed_tasks_job_that_was_suspended_is_adopted_at_once(contract, fields):  # noqa: F811
    job = contract.case.job(_DEAF, nodes=len(contract.case.speakers), on_kill_action="suspend", **fields)
    handle = await contract.submit(job)
    following = await _begun(contract, handle)

    assert await contract.backend.cancel(handle, "the test wants it")
    adopted = await contract.submit(job, 2)

    assert adopted.uid == handle.uid
    await _all_noted(contract, "began", times=2)
    contract.release("go")
    assert (await contract.end(adopted)).phase is JobPhase.SUCCEEDED
    assert (await following).phase in (JobPhase.SUCCEEDED, JobPhase.CANCELLED)


async def test_a_killed_tasks_job_that_was_suspended_has_ended_for_who_waits(contract, fields):  # noqa: F811
    handle = await _submit(contract, on_kill_action="suspend", **fields)
    following = await _begun(contract, handle)

    assert await contract.backend.cancel(handle, "the test wants it")

    assert (await following).text() == "cancelled (Cancelled: the test wants it)"
    assert contract.case.processes(handle) == 0
    assert await contract.was_cancelled(handle)


@pytest.mark.parametrize("fields", [False], indirect=True, ids=["alone"])
async def test_a_deleted_jobs_waiters_learn_who_did_it(contract, run, fields):  # noqa: F811
    handle = await _submit(contract, **fields)
    following = await _begun(contract, handle)

    await run(DeleteTrainJobOperator, handle)

    assert contract.case.pods(handle) == []
    assert (await following).text() == "cancelled (Cancelled: deleted by task manage of DAG tests)"
    await run(DeleteTrainJobOperator, handle)
