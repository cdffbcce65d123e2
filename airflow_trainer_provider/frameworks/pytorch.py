"""PyTorch: torchrun on every node, with the rendezvous in PET_* variables.

https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import re

from airflow_trainer_provider.job.plan.framework import Addresses, Framework, Role
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.plan.programs import Command


def _environment(job: JobPlan, replica: Replica, addresses: Addresses) -> dict[str, str]:
    leader, spec = addresses[job.leader.name], job.spec
    env = {"PET_NPROC_PER_NODE": str(spec.num_proc_per_node)}
    if spec.elastic:
        options = ",".join(f"{name}={value}" for name, value in spec.elastic.rdzv_conf.items())
        return env | {
            **({"PET_RDZV_CONF": options} if options else {}),
            "PET_NNODES": f"{spec.elastic.min_nodes}:{spec.elastic.max_nodes}",
            "PET_MAX_RESTARTS": str(spec.elastic.max_restarts),
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": str(leader),
            "PET_RDZV_ID": "train",
            # A shared store is announced only in the first round: a node that joins later would wait for it in vain.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
    return env | {
        # For a script that runs without torchrun, and calls init_process_group() itself; torchrun overwrites these
        # variables.
        "MASTER_ADDR": leader.host,
        "MASTER_PORT": str(leader.port),
        "RANK": str(replica.rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(len(job.replicas)),
        "PET_NNODES": str(len(job.replicas)),
        "PET_NODE_RANK": str(replica.rank),
        "PET_MASTER_ADDR": leader.host,
        "PET_MASTER_PORT": str(leader.port),
    }


def _launch(command: Command, job: JobPlan) -> tuple[Command, Command]:
    return ("torchrun", "--no_python"), command


FRAMEWORK = Framework(
    name="pytorch",
    title="PyTorch",
    roles=(Role("master", most=1), Role("worker")),
    automatic="master",
    environment=_environment,
    launch=_launch,
    launchers=frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"}),
    processes_per_node=True,
    processes_by_keyword=True,
    processes_variable="PET_NPROC_PER_NODE",
    elastic=True,
    # A node that a failed rank brought down may end before the node on which the rank failed.
    rank_variable="RANK",
    # A rank's own traceback comes first; torchrun's summary may name another rank that it brought down.
    failed_rank=re.compile(
        r"^(?:\[rank|\s*rank\s*:\s*|process rank )(?P<rank>\d+)(?:\]: Traceback| \(local_rank: \d+\)| with exit code)"
    ),
    launcher_traceback=re.compile(r"torch\.distributed\.elastic\.|SignalException"),
)
