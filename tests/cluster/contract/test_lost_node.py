"""A node that stops to answer, and keeps pods that no client can end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.jobs import running
from tests.cluster.network import NODE_NAME

pytestmark = pytest.mark.no_second_chance


@pytest.fixture
def one_of_all(contract):
    """Takes the test for one backend: the code is the same for all, and the node is every pod's."""
    if contract.backend.name != "native":
        pytest.skip("tested on the backend native")


@pytest.mark.usefixtures("one_of_all")
async def test_pods_of_a_node_that_does_not_answer_hold_the_next_try_back_for_their_grace_period_only(
    contract, faults, caplog
):
    contract.case.timeout = 540
    job = contract.case.job('note("trained", "x"); note("began"); wait_for("go")', nodes=1)
    first = await contract.submit(job, 1)
    following = asyncio.ensure_future(contract.end(first))
    # Until then the kubelet has not reported that the container runs.
    await running(contract, first)

    with faults.kubelet_frozen():
        await contract.until(lambda: _node_is_unknown(contract))
        await contract.backend.cancel(first, "the task was cleared")
        await contract.backend.end_earlier(contract.identity(2))
        assert contract.case.processes(first) == 1
    await following

    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert [each for each in warnings if "their nodes do not answer" in each], warnings
    second = await contract.submit(job, 2)
    contract.release("go")
    assert second.uid != first.uid
    assert (await contract.end(second)).phase is JobPhase.SUCCEEDED
    assert len(contract.noted("trained")) == 2


def _node_is_unknown(contract):
    conditions = contract.case.access.kubectl.get("node", NODE_NAME)["status"]["conditions"]
    return {"type": "Ready", "status": "Unknown"}.items() <= next(
        each for each in conditions if each["type"] == "Ready"
    ).items()
