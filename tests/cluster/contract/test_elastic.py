"""An elastic job of PyTorch goes on when it loses a node, with torchrun's own rendezvous."""

from __future__ import annotations

import json

import pytest

from airflow_trainer_provider.job.status import JobPhase

_MEETS = """
import torch
from torch import distributed
distributed.init_process_group("gloo")
rank, ranks = distributed.get_rank(), distributed.get_world_size()
note("met-" + me, str(ranks))
# worker-0 holds the store of the rendezvous. The other node is lost, with its torchrun.
if me == "worker-1" and not (shared / "lost").exists():
    note("lost")
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(1)
stop = torch.zeros(1)
while not stop.item():
    stop[0] = float((shared / "go").exists())
    distributed.all_reduce(stop, distributed.ReduceOp.MIN)
    time.sleep(0.05)
if rank == 0:
    pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps({"ranks": ranks}))
distributed.destroy_process_group()
"""


async def test_a_node_that_is_lost_is_started_again_and_meets_the_others(contract):
    if contract.backend.name == "mpi-operator":
        pytest.skip("it runs no PyTorch")
    # torchrun notices a lost node after its heartbeat, and waits for another at the next rendezvous.
    contract.case.timeout = 600
    elastic = {"min_nodes": 1, "max_nodes": 2, "max_restarts": 3, "rdzv_conf": {"last_call_timeout": 5}}
    job = contract.case.job(_MEETS, framework="pytorch", num_nodes=None, elastic=elastic)
    handle = await contract.submit(job)

    await contract.until((contract.case.shared / "lost").exists)
    await contract.until(lambda: contract.noted("met-worker-1").count("2") >= 2)
    contract.release("go")

    status = await contract.end(handle)
    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    assert json.loads(await contract.backend.result(handle)) == {"ranks": 2}
