"""Two jobs that do not fit beside each other: a gang scheduler runs one whole, and then the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.components import COSCHEDULER
from tests.cluster.contract.jobs import offer
from tests.contract.conftest import Contract

#: Pods of each job, and how many of them the node has room for.
_PODS, _ROOM = 3, 4
#: Each pod holds its device until all of its job have begun.
_SCRIPT = """
    name = os.environ["TRAINER_JOB_NAME"]
    note(name, f"began {time.time()}")
    while (shared / name).read_text().count("began") < 3:
        time.sleep(0.05)
    time.sleep(0.3)
    note(name, f"ended {time.time()}")
"""


@pytest.fixture(autouse=True)
def gangs(contract, cluster):
    if contract.backend.name not in ("trainer", "native"):
        pytest.skip("the operators of this cluster are started without gang scheduling")
    if cluster.own is None or not cluster.own.node.alive(COSCHEDULER):
        pytest.skip("the cluster has no gang scheduler that the tests know")


def _times(contract: Contract, name: str, word: str) -> Sequence[float]:
    lines = contract.noted(name)
    return [float(time) for each, time in zip(lines[::2], lines[1::2], strict=True) if each == word]


@pytest.mark.parametrize("round_", [1, 2])
async def test_one_job_runs_whole_and_then_the_other(contract, cluster, namespace, round_):
    resource = f"trainer.test/gang-{contract.backend.name}"
    offer(cluster, resource, _ROOM)
    needs = {"cpu": "10m", "extended": {resource: 1}}
    job = contract.case.job(_SCRIPT, nodes=_PODS, resources_per_node=needs, scheduling={"gang": "coscheduling"})
    # The controller of PodGroups counts the pods of all namespaces that name a group, those of earlier rounds too.
    both = [Contract(contract.case, f"{task}-{namespace}") for task in ("one", "other")]

    handles = await asyncio.gather(*(each.submit(job) for each in both))
    ends = await asyncio.gather(*(each.end(handle) for each, handle in zip(both, handles, strict=True)))

    assert [status.phase for status in ends] == [JobPhase.SUCCEEDED] * 2
    times = [(_times(contract, each.name, "began"), _times(contract, each.name, "ended")) for each in handles]
    assert [(len(began), len(ended)) for began, ended in times] == [(_PODS, _PODS)] * 2
    (_, first_ended), (second_began, _) = sorted(times)
    assert max(first_ended) < min(second_began)
    for each, handle in zip(both, handles, strict=True):
        await each.backend.acknowledge(handle)
