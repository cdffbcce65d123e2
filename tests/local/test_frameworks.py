"""Each framework's own rendezvous, in real processes: who meets whom, and what a failing rank leaves."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import psutil
import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.local.jobs import EndedJob, Jobs, until

pytestmark = pytest.mark.local
heavy = pytest.mark.heavy

#: What all scripts below begin with: ``met()`` notes whom this process met, and lets the failing rank fail.
PRELUDE = """\
import json, os, pathlib, time

def met(rank, ranks, total):
    replica = os.environ["TRAINER_REPLICA"]
    # In one write: the processes of a replica share its output, and print() may write the line's end apart.
    os.write(1, f"rank {rank} of {ranks}, total {total}\\n".encode())
    pathlib.Path(f"met-{rank}.json").write_text(json.dumps([replica, rank, ranks, total]))
    if rank == int(os.environ.get("FAILING_RANK", "-1")):
        raise ValueError(f"boom {rank}")
    if rank == 0:
        pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps({"metrics": {"total": total}}))
"""

XGBOOST = """
import time, numpy
from xgboost import collective
from xgboost.tracker import RabitTracker
host, port, rank = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"]), os.environ["DMLC_TASK_ID"]
listens = pathlib.Path("tracker-listens")
if rank == "0":
    tracker = RabitTracker(n_workers=int(os.environ["DMLC_NUM_WORKER"]), host_ip=host, port=port, sortby="task")
    tracker.start()
    listens.touch()
while not listens.exists():
    time.sleep(0.05)
collective.init(dmlc_tracker_uri=host, dmlc_tracker_port=port, dmlc_task_id=rank)
total = collective.allreduce(numpy.array([collective.get_rank()]), collective.Op.SUM)
met(collective.get_rank(), collective.get_world_size(), int(total[0]))
collective.finalize()
"""

MPI = """
from mpi4py import MPI
world = MPI.COMM_WORLD
met(world.Get_rank(), world.Get_size(), world.allreduce(world.Get_rank()))
world.Barrier()
"""

TORCH = """
import torch
from torch import distributed
distributed.init_process_group("gloo")
total = torch.tensor([distributed.get_rank()])
distributed.all_reduce(total)
met(distributed.get_rank(), distributed.get_world_size(), int(total))
distributed.barrier()
distributed.destroy_process_group()
"""

TENSORFLOW = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver
rank = 0 if resolver.task_type == "chief" else 1 + resolver.task_id

@tf.function
def total():
    return strategy.reduce("SUM", strategy.run(lambda: tf.constant(rank)), axis=None)

met(rank, strategy.num_replicas_in_sync, int(total()))
total()
"""

JAX = """
import traceback
import jax, numpy
from jax.experimental import multihost_utils
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(
    os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"])
)
try:
    total = multihost_utils.process_allgather(numpy.array([jax.process_index()])).sum()
    met(jax.process_index(), jax.process_count(), int(total))
    multihost_utils.sync_global_devices("end")
except Exception:
    traceback.print_exc()
    os._exit(1)  # the ordinary exit would wait for the other processes
jax.distributed.shutdown()
"""

PADDLE = """
import paddle
from paddle import distributed
paddle.set_device("cpu")
distributed.init_parallel_env()
total = paddle.to_tensor([distributed.get_rank()])
distributed.all_reduce(total)
met(distributed.get_rank(), distributed.get_world_size(), int(total[0]))
distributed.barrier()
"""

#: Name -> script, words before it, fields of the spec, replica -> ranks of its processes.
LAYOUTS = {
    "xgboost": (
        XGBOOST,
        [],
        {"framework": "xgboost", "num_workers": 2},
        {"master-0": [0], "worker-0": [1], "worker-1": [2]},
    ),
    "mpi": (
        MPI,
        ["-m", "mpi4py"],
        {"framework": "mpi", "num_nodes": 2, "num_proc_per_node": 2},
        {"worker-0": [0, 1], "worker-1": [2, 3]},
    ),
    "pytorch": (
        TORCH,
        [],
        {"framework": "pytorch", "num_nodes": 2, "num_proc_per_node": 2},
        {"master-0": [0, 1], "worker-0": [2, 3]},
    ),
    "tensorflow": (TENSORFLOW, [], {"framework": "tensorflow", "num_nodes": 2}, {"chief-0": [0], "worker-0": [1]}),
    "jax": (JAX, [], {"framework": "jax", "num_nodes": 2}, {"worker-0": [0], "worker-1": [1]}),
    "paddle": (
        PADDLE,
        [],
        {"framework": "paddle", "num_nodes": 2, "num_proc_per_node": 2},
        {"worker-0": [0, 1], "worker-1": [2, 3]},
    ),
}
LIGHT = ("xgboost", "mpi")
#: Seconds, for ranks that are ended.
GRACE = 120
frameworks = pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=() if name in LIGHT else heavy) for name in LAYOUTS]
)


def spec_of(framework: str, script: Callable[[str], str], **env: str) -> dict[str, object]:
    text, before, fields, _ = LAYOUTS[framework]
    return {**fields, "command": ["python", *before, script(PRELUDE + text)], "env": env}


@frameworks
async def test_all_ranks_meet(framework: str, jobs: Jobs, script: Callable[[str], str]) -> None:
    running = await jobs.start(spec_of(framework, script))
    ended = await jobs.ended(running)

    assert ended.status.phase is JobPhase.SUCCEEDED, "\n".join(ended.lines)
    layout = LAYOUTS[framework][3]
    ranks = sum(len(of_replica) for of_replica in layout.values())
    total = sum(range(ranks))
    assert set(ended.exit_codes.values()) == {0}
    assert ended.summary["metrics"] == {"total": total}
    notes = [json.loads(note.read_text()) for note in running.work.glob("met-*.json")]
    assert sorted(note[1:] for note in notes) == [[rank, ranks, total] for rank in range(ranks)]
    # Those of MPI are the launcher's children.
    expected = {rank: replica for replica, of_replica in layout.items() for rank in of_replica}
    if framework == "mpi":
        expected = dict.fromkeys(expected, "launcher-0")
    assert {rank: replica for replica, rank, *_ in notes} == expected
    for replica, of_replica in layout.items():
        for rank in of_replica:
            assert ended.lines.count(f"[{replica}] rank {rank} of {ranks}, total {total}") == 1


@frameworks
async def test_a_rank_that_raises_is_named_and_the_others_are_ended(
    framework: str, jobs: Jobs, script: Callable[[str], str]
) -> None:
    layout = LAYOUTS[framework][3]
    failing, of_replica = list(layout.items())[-1]
    rank = of_replica[-1]
    policy = {"run_policy": {"grace_period_seconds": GRACE}}
    ended = await jobs.run(spec_of(framework, script, FAILING_RANK=str(rank)) | policy)

    assert ended.status.phase is JobPhase.FAILED
    assert ended.status.first_failed == failing, "\n".join(ended.lines)
    assert ended.diagnosis.replica == failing
    assert ended.diagnosis.rank == rank
    assert ended.diagnosis.traceback[0] == "Traceback (most recent call last):"
    assert ended.diagnosis.traceback[-1] == f"ValueError: boom {rank}"
    assert "result" in ended.summary
    assert ended.survivors == []
    assert_ended_soon(ended)


def assert_ended_soon(ended: EndedJob) -> None:
    """The job did not sit out its grace period."""
    failed = next(replica for replica in ended.status.replicas if replica.name == ended.status.first_failed)
    assert failed.finished_at
    assert ended.status.finished_at
    assert (ended.status.finished_at - failed.finished_at).total_seconds() < GRACE - 10


ELASTIC = """
import json, os, pathlib, time
import torch
from torch import distributed
distributed.init_process_group("gloo")
rank, ranks = distributed.get_rank(), distributed.get_world_size()
pathlib.Path(f"round-{os.getpid()}.json").write_text(json.dumps([os.environ["TRAINER_REPLICA"], ranks]))
stop = torch.zeros(1)
while not stop.item():
    stop[0] = float(pathlib.Path("go").exists())
    distributed.all_reduce(stop, distributed.ReduceOp.MIN)
    time.sleep(0.05)
if rank == 0:
    pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps({"ranks": ranks}))
distributed.destroy_process_group()
"""


@heavy
async def test_an_elastic_job_goes_on_when_a_node_is_killed(jobs: Jobs, script: Callable[[str], str]) -> None:
    elastic = {"min_nodes": 1, "max_nodes": 2, "max_restarts": 3}
    running = await jobs.start({"framework": "pytorch", "elastic": elastic, "command": ["python", script(ELASTIC)]})

    def rounds() -> list[list[object]]:
        return [json.loads(note.read_text() or "[]") for note in running.work.glob("round-*.json")]

    await until(lambda: sorted(rounds()) == [["worker-0", 2], ["worker-1", 2]], "both nodes have met")
    agent = agent_of("worker-1", running.processes())
    os.kill(agent.pid, signal.SIGKILL)
    await until(lambda: len(rounds()) >= 4, "both nodes have met again", 270)
    (running.work / "go").touch()
    ended = await jobs.ended(running)

    assert ended.status.phase is JobPhase.SUCCEEDED, "\n".join(ended.lines)
    assert ended.summary["result"] == {"ranks": 2}
    restarts = {replica.name: replica.restarts for replica in ended.status.replicas}
    # Either node may hold the rendezvous' store here. Where it was the killed one, the other starts again too.
    assert restarts in ({"worker-0": 0, "worker-1": 1}, {"worker-0": 1, "worker-1": 1})
    assert ended.survivors == []


def agent_of(replica: str, processes: list[psutil.Process]) -> psutil.Process:
    """The replica's own process, torchrun: the one whose parent is not one of the job's."""
    pids = {process.pid for process in processes}
    agents = [
        process
        for process in processes
        if process.environ().get("TRAINER_REPLICA") == replica and process.ppid() not in pids
    ]
    assert len(agents) == 1
    return agents[0]
