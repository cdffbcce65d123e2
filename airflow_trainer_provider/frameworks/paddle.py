"""Paddle: paddle.distributed.launch on every node, with the rendezvous in PADDLE_* variables.

https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/launch_en.html
"""

from __future__ import annotations

import re

from airflow_trainer_provider.job.plan.framework import Addresses, Framework, Role
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.plan.programs import Command


def _environment(job: JobPlan, replica: Replica, addresses: Addresses) -> dict[str, str]:
    leader = addresses[job.leader.name]
    # The launcher compares the master's host with its own IP address, by text, and listens only where they are equal.
    host = "127.0.0.1" if replica.rank == 0 else leader.host
    return {
        "PADDLE_MASTER": f"{host}:{leader.port}",
        "PADDLE_NNODES": str(len(job.replicas)),
        "PADDLE_JOB_ID": "train",
        "PADDLE_RANK": str(replica.rank),
        "PADDLE_NPROC_PER_NODE": str(job.spec.num_proc_per_node),
        # The launcher also prints what its processes log to files in this folder; several nodes may start in the same
        # folder.
        "PADDLE_LOG_DIR": f"log/{replica.name}",
    }


def _launch(command: Command, job: JobPlan) -> tuple[Command, Command]:
    # The launcher itself puts python before a .py file, and accepts the interpreter in no other way.
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
    processes_variable="PADDLE_NPROC_PER_NODE",
    rank_variable="PADDLE_TRAINER_ID",
    # With a master, the Training Operator sets PADDLE_SERVER_NUM and PADDLE_TRAINER_NUM, which start no collective
    # training: https://github.com/kubeflow/training-operator/blob/v1.9.3/pkg/controller.v1/paddlepaddle/envvar.go
    refused_roles={
        "master": "Drop it: worker-0 holds the rendezvous. A PaddleJob's Master is a parameter server, and no rank of "
        "a collective training; give such a job with manifest=."
    },
    failed_rank=re.compile(r"process rank (?P<rank>\d+) with exit code"),
)
