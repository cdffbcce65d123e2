"""A training that is taken away, and ends politely: it saves its state and exits with 0, as good scripts do.

Its controller takes that for success. It has not succeeded, and the next try may.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis.diagnosis import diagnose
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.jobs import pod_of, running
from tests.cluster.network import NODE_NAME

pytestmark = pytest.mark.no_second_chance

#: Runs until it is asked to end. Where a controller starts it again, that run is whole.
_POLITE = """
SAVES = 0

def leave(*_):
    time.sleep(SAVES)
    note("saved", me)
    sys.exit(0)

if (shared / f"{me}-began").exists():
    note("whole", me)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
note(f"{me}-began")
note("began")
time.sleep(3600)
"""


@pytest.fixture
def take_away(contract, cluster, namespace):
    """Function (how, pod) that takes a pod away, with its own grace period."""

    def take_away(how, pod):
        if how == "evict":
            cluster.kubectl.evict(pod, namespace, grace=None)
        elif how == "delete":
            cluster.kubectl("delete", "pod", pod, f"--namespace={namespace}", "--wait=false")
        else:
            # The node has more than this job, such as the controllers.
            name = cluster.kubectl.get("pods", pod, namespace)["metadata"]["labels"]["only"]
            try:
                cluster.kubectl("drain", NODE_NAME, f"--pod-selector=only={name}", "--ignore-daemonsets", "--force")
            finally:
                cluster.kubectl("uncordon", NODE_NAME)

    return take_away


@pytest.fixture
def polite(contract):
    """Function (snippet, nodes) -> a job whose pods a drain can select."""

    def polite(snippet, nodes=1):
        labels = {"only": contract.case.namespace}
        policy = {"grace_period_seconds": 10}
        return contract.case.job(snippet, nodes=nodes, pod={"labels": labels}, run_policy=policy)

    return polite


# Nothing else finds room on a node that is drained.
@pytest.mark.parametrize("how", ["evict", "delete", pytest.param("drain", marks=pytest.mark.exclusive)])
async def test_a_training_that_is_taken_away_and_exits_with_0_has_not_succeeded(contract, take_away, polite, how):
    handle = await contract.submit(polite(_POLITE))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    await asyncio.to_thread(take_away, how, pod_of(contract, handle, contract.case.leader))
    status = await following

    assert contract.noted("saved")
    if status.phase is JobPhase.SUCCEEDED:
        # Its controller has started it again, as the Training Operator may.
        assert contract.noted("whole") == [contract.case.leader]
        return
    _failed_of_its_disruption(status, handle, how, contract.case.leader)
    assert (await _read_later(contract, handle)).phase is JobPhase.FAILED


@pytest.mark.parametrize("how", ["evict", "delete"])
async def test_a_job_that_has_lost_a_worker_has_not_succeeded(contract, take_away, polite, how):
    snippet = 'if me.endswith("0"):\n    wait_for("go")\n    sys.exit(0)\n' + _POLITE
    handle = await contract.submit(polite(snippet, nodes=2))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    await asyncio.to_thread(take_away, how, pod_of(contract, handle, "worker-1"))
    await contract.until(lambda: contract.noted("saved"))
    # Longer than the clocks of nodes and controllers may differ.
    await asyncio.sleep(8)
    contract.release("go")
    status = await following

    if status.phase is JobPhase.SUCCEEDED:
        assert contract.noted("whole") == ["worker-1"]
        return
    _failed_of_its_disruption(status, handle, how, "worker-1")
    assert (await _read_later(contract, handle)).first_failed == "worker-1"


@pytest.mark.parametrize("how", ["evict", "delete"])
async def test_who_loses_a_worker_that_was_taken_away_is_not_to_blame(contract, take_away, polite, how):
    if contract.backend.name == "training-operator":
        pytest.skip("it makes the pod again, and what fails next is chance")
    peer = 'wait_for("saved")\n    time.sleep(3)\n    raise ConnectionError("Connection reset by peer")'
    handle = await contract.submit(polite(f'if me.endswith("0"):\n    {peer}\n' + _POLITE, nodes=2))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    await asyncio.to_thread(take_away, how, pod_of(contract, handle, "worker-1"))

    _failed_of_its_disruption(await following, handle, how, "worker-1")


@pytest.mark.parametrize("who", ["leader", "worker-1"])
@pytest.mark.parametrize("saves", [0, 5])
async def test_a_replica_that_is_lost_for_good_holds_its_peers_for_a_minute(contract, take_away, polite, who, saves):
    if contract.case.leader == "launcher-0":
        pytest.skip("a job has ended with its launcher")
    lost = contract.case.leader if who == "leader" else who
    handle = await contract.submit(polite(_POLITE.replace("SAVES = 0", f"SAVES = {saves}"), nodes=2))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)
    await contract.until(lambda: len(list(contract.case.shared.glob("*-began"))) == 2)

    await asyncio.to_thread(take_away, "evict", pod_of(contract, handle, lost))
    await contract.until(lambda: contract.noted("saved"))
    began = time.monotonic()
    status = await following

    assert time.monotonic() - began < 120
    if status.phase is JobPhase.SUCCEEDED:
        # Its controller has started it again.
        assert contract.backend.name == "training-operator"
        assert contract.noted("whole") == [lost]
        return
    _failed_of_its_disruption(status, handle, "evict", lost)


@pytest.mark.parametrize("lost", ["worker-0", "worker-1"])
async def test_who_takes_a_job_over_that_has_lost_a_replica_for_good_ends_it_too(contract, take_away, polite, lost):
    if contract.backend.name != "native":
        pytest.skip("its controllers end the job, or start the replica again")
    handle = await contract.submit(polite(_POLITE, nodes=2))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)
    await contract.until(lambda: len(list(contract.case.shared.glob("*-began"))) == 2)
    pod = pod_of(contract, handle, lost)

    await asyncio.to_thread(take_away, "delete", pod)
    await contract.until(lambda: pod not in contract.case.pods(handle))
    # Time for what was seen to be written down.
    await asyncio.sleep(8)
    assert following.cancel()
    deadline = datetime.now(timezone.utc) + timedelta(minutes=3)
    status = await follow(_another(contract), handle, emit=contract.lines.append, reader=None, deadline=deadline)

    _failed_of_its_disruption(status, handle, "delete", lost)


async def test_a_job_that_has_ended_by_itself_stays_a_success(contract, cluster, namespace, polite):
    handle, status = await contract.run(polite('note("whole", me)', nodes=1))
    assert status.phase is JobPhase.SUCCEEDED

    for pod in contract.case.pods(handle):
        cluster.kubectl("delete", "pod", pod, f"--namespace={namespace}")

    assert (await _read_later(contract, handle)).phase is JobPhase.SUCCEEDED


def _failed_of_its_disruption(status, handle, how, replica):
    diagnosis = diagnose(handle.name, get_framework("jax"), status, [])
    expected = "Deleted" if how == "delete" else "EvictionByEvictionAPI"
    assert (status.phase, status.first_failed) == (JobPhase.FAILED, replica), status
    assert (diagnosis.reason, diagnosis.infrastructure, diagnosis.retry_can_help) == (expected, True, "yes")


async def _read_later(contract, handle):
    """The job's status, read without having seen its pods before."""
    return await _another(contract).status(handle)


def _another(contract):
    """The backend of another process."""
    backend = contract.backend
    return ClusterBackend(backend.name, backend._cluster, backend.namespace)
