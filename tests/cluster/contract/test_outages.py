"""Outages between us and the cluster are not the job's: it trains once, and is followed to its end."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.jobs import running
from tests.cluster.profiles import MPI_OPERATOR, TRAINER, TRAINING_OPERATOR
from tests.cluster.proxy import FaultProxy
from tests.contract.conftest import Contract

pytestmark = pytest.mark.no_second_chance

_TRAIN = 'note("trained", me); note("began"); wait_for("go"); print("the end of", me)'
#: Seconds in which a job's replicas have started where nothing is in their way.
_STARTED_WITHIN = 15
_CONTROLLERS = {"trainer": TRAINER, "training-operator": TRAINING_OPERATOR, "mpi-operator": MPI_OPERATOR}


def job_of(contract):
    """A job of as many replicas as run the snippet."""
    return contract.case.job(_TRAIN, nodes=len(contract.case.speakers))


def assert_trained_once(contract, status):
    assert status.phase is JobPhase.SUCCEEDED, status
    assert sorted(contract.noted("trained")) == contract.case.speakers
    for name in contract.case.speakers:
        assert contract.lines.count(f"[{name}] the end of {name}") == 1


@pytest.fixture
async def proxy(contract, tmp_path):
    """A proxy between the backend and the API server."""
    with FaultProxy(contract.case.access.kubectl.kubeconfig) as proxy:
        file = tmp_path / "proxied"
        file.write_text(proxy.kubeconfig)
        connection = ClusterConnection(id=f"proxied-{uuid.uuid4().hex[:6]}", kube_config_path=str(file))
        cluster = await Cluster.of(connection)
        contract.case.backend = ClusterBackend(contract.backend.name, cluster, contract.case.namespace)
        yield proxy
        await cluster.close()


@pytest.fixture
def one_of_all(contract):
    """Takes the test for one backend: the code is the same for all, and the outage lasts."""
    if contract.backend.name != "trainer":
        pytest.skip("tested on the backend trainer")


@pytest.mark.usefixtures("one_of_all")
async def test_the_api_server_is_down_while_a_job_runs_and_while_another_is_submitted(contract, faults):
    contract.case.timeout = 540
    handle = await contract.submit(job_of(contract))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)
    other = of_another_task(contract)

    with faults.api_server_stopped():
        submitting = asyncio.ensure_future(other.submit(job_of(other)))
        contract.release("go")
        await asyncio.sleep(60)
        assert not following.done()
        assert not submitting.done()

    other.release("go")
    assert_trained_once(contract, await following)
    assert_trained_once(other, await other.end(await submitting))


def of_another_task(contract):
    """The same, with a folder of its own."""
    shared = contract.case.shared / "another"
    shared.mkdir()
    shared.chmod(0o777)
    return Contract(replace(contract.case, shared=shared), task="another")


async def test_watches_expire_and_requests_are_refused_for_a_while(contract, proxy):
    handle = await contract.submit(job_of(contract))
    expired = proxy.expire_watch(times=3)
    cut = proxy.cut(path="watch=(true|1|True)", times=2)
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    storm = proxy.answer(429, reason="TooManyRequests", times=12, retry_after=1)
    contract.release("go")

    assert_trained_once(contract, await following)
    assert (expired.hits, cut.hits) == (3, 2)
    assert storm.hits


async def test_the_answer_to_the_submit_is_lost(contract, proxy):
    rule = proxy.lose_answer(method="POST", times=3)
    handle = await contract.submit(job_of(contract))
    contract.release("go")

    assert_trained_once(contract, await contract.end(handle))
    assert rule.hits >= 1


async def test_the_controller_is_away_at_submit(contract, faults):
    controller = _CONTROLLERS.get(contract.backend.name)
    if controller is None:
        pytest.skip("it has no controller of its own")
    contract.case.timeout = 540
    job = job_of(contract)
    with faults.controller_stopped(controller):
        submitting = asyncio.ensure_future(contract.submit(job))
        await asyncio.sleep(_STARTED_WITHIN)
        # Its webhook does not answer, or no controller acts on the job; neither is an error of the submit.
        assert contract.noted("trained") == []
        assert not (submitting.done() and submitting.exception())
    handle = await submitting
    contract.release("go")

    assert_trained_once(contract, await contract.end(handle))


async def test_the_controller_is_replaced_while_the_job_runs(contract, faults):
    controller = _CONTROLLERS.get(contract.backend.name)
    if controller is None:
        pytest.skip("it has no controller of its own")
    contract.case.timeout = 540
    handle = await contract.submit(job_of(contract))
    following = asyncio.ensure_future(contract.end(handle))
    await running(contract, handle)

    faults.kill_controller(controller)
    contract.release("go")

    assert_trained_once(contract, await following)


@pytest.mark.usefixtures("one_of_all")
async def test_no_line_waits_for_the_cursor_that_is_saved(contract, proxy, monkeypatch):
    monkeypatch.setattr("airflow_trainer_provider.cluster.logs.follow._SAVE_SECONDS", 1)
    handle = await contract.submit(contract.case.job('for i in range(100): print("line", i); time.sleep(0.1)', nodes=1))
    slow = proxy.delay(120, method="PATCH", path=handle.name)

    status = await contract.end(handle)

    assert status.phase is JobPhase.SUCCEEDED, status
    assert [line for line in contract.lines if " line " in line] == [f"[worker-0] line {i}" for i in range(100)]
    assert slow.hits


async def test_who_takes_over_after_the_end_has_the_last_attempts_log_though_the_first_ones_node_is_silent(
    contract, proxy
):
    if contract.backend.name != "native":
        pytest.skip("tested on the backend native, which keeps the pods of both attempts")
    script = """
        print("attempt", os.environ["TRAINER_ATTEMPT"])
        for number in range(50):
            print("frame", number)
        raise ValueError("nan")
    """
    handle = await contract.submit(contract.case.job(script, nodes=1, run_policy={"backoff_limit": 1}))
    await contract.until(lambda: len(contract.case.pods(handle)) == 2 and contract.case.processes(handle) == 0)
    kubectl, namespace = contract.case.access.kubectl, contract.case.namespace
    pods = [kubectl.get("pod", name, namespace) for name in contract.case.pods(handle)]
    first = min(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])["metadata"]["name"]
    silent = proxy.delay(600, path=f"/pods/{first}/log")

    status = await contract.end(handle)

    assert (status.phase, status.restarts) == (JobPhase.FAILED, 1), status
    assert silent.hits
    assert [line for line in contract.lines if f"in pod {first} is missing here" in line], contract.lines
    shown = [line.removeprefix("[worker-0] ") for line in contract.lines if line.startswith("[worker-0] ")]
    begin = shown.index("attempt 1")
    assert shown[begin + 1 : begin + 51] == [f"frame {number}" for number in range(50)]
    assert shown[-1] == "ValueError: nan"
