"""The contract's part of this name, on the real cluster; and a function on all ranks of mpirun, in several pods."""

from __future__ import annotations

import uuid

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.functions.code import code_of
from airflow_trainer_provider.functions.frames import is_frame
from airflow_trainer_provider.job.result import VALUE_LIMIT_BYTES, summarize
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.spec.running.function import FUNCTION_COMMAND
from tests.cluster.contract.conftest import ClusterCase
from tests.cluster.proxy import FaultProxy
from tests.contract.test_function import *  # noqa: F403


def add_up(start):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    total = world.allreduce(start + world.rank)
    print("added up", flush=True)
    return {"rank": world.rank, "sum": total, "rows": "é" * 100_000}


async def test_mpirun_calls_the_function_on_each_rank_and_rank_0_alone_returns(contract):
    case = contract.case
    # Not the small job of the suite, in which the launcher trains.
    case = ClusterCase(case.backend, case.shared, case.access, case.namespace)
    files = code_of(add_up, None, ()).call([10], {}, VALUE_LIMIT_BYTES)
    function = {"name": "add_up", "files": files}
    job = case.job("", framework="mpi", num_proc_per_node=2, command=list(FUNCTION_COMMAND), function=function)

    handle, status = await contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    written = await contract.backend.result(handle)
    assert written == await _result_over_broken_connections(contract, handle)
    summary = summarize(handle, status, written)
    assert (summary["function"], summary["result"]) == ("add_up", {"rank": 0, "sum": 46, "rows": "é" * 100_000})
    assert not any(is_frame(line) for line in contract.lines)


async def _result_over_broken_connections(contract, handle):
    """The result, as a process reads it that has followed no log."""
    with FaultProxy(contract.case.access.kubectl.kubeconfig) as proxy:
        cuts = [proxy.cut(path="/log\\?", times=1, after=size) for size in (1, 100_000)]
        cluster = await Cluster.of(ClusterConnection(id=f"cut-{uuid.uuid4().hex[:6]}", kube_config=proxy.kubeconfig))
        backend = ClusterBackend(contract.backend.name, cluster, contract.case.namespace)
        try:
            return await backend.result(handle)
        finally:
            await cluster.close()
            assert all(cut.hits for cut in cuts)
