"""Paddle: paddle.distributed.launch on every node, told the rendezvous by PADDLE_* variables.

https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/launch_en.html
"""

from __future__ import annotations

import re

from airflow_trainer_provider.frameworks.base import Addresses, Command, Framework, Role
from airflow_trainer_provider.frameworks.layout import Job, Replica


def _environment(job: Job, replica: Replica, addresses: Addresses) -> dict[str, str]:
    leader = addresses[job.leader.name]
    # The launcher compares the master's host with its own IP address, by text, and listens only where they are equal.
    host = "127.0.0.1" if replica.rank == 0 else leader.host
    return {
        "PADDLE_MASTER": f"{host}:{leader.port}",
        "PADDLE_NNODES": str(len(job.replicas)),
        "PADDLE_JOB_ID": "train",
        "PADDLE_RANK": str(replica.rank),
        "PADDLE_NPROC_PER_NODE": str(job.spec.num_proc_per_node),
        # The launcher repeats what its processes write to files there; nodes may start in one and the same folder.
        "PADDLE_LOG_DIR": f"log/{replica.name}",
    }


def _launch(command: Command, job: Job) -> tuple[Command, Command]:
    # The launcher puts python before a .py file by itself, and knows no other way to be given one.
    script = command[1:] if command[0].startswith("python") else command
    return ("python", "-m", "paddle.distributed.launch"), script


FRAMEWORK = Framework(
    name="paddle",
    title="Paddle",
    roles=(Role("worker"),),
    environment=_environment,
    launch=_launch,
    launchers=frozenset({"paddle.distributed.launch", "fleetrun"}),
    processes_per_node=True,
    rank_variable="PADDLE_TRAINER_ID",
    failed_rank=re.compile(r"process rank (?P<rank>\d+) with exit code"),
)
