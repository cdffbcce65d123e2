"""The variables that the frameworks promise to scripts, and that the Training Operator does not set.

Each function takes the job, a group, and the job's name; see the modules in ``frameworks``.
https://github.com/kubeflow/training-operator/tree/v1.9.3/pkg/controller.v1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_trainer_provider.job.plan.framework import Address
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica

#: Name of a variable -> its value, or the source of its value.
Values = Mapping[str, str | Mapping[str, Any]]
#: The ports that the operator gives to the training's container.
_PYTORCH_PORT, _TENSORFLOW_PORT, _XGBOOST_PORT, _JAX_PORT = "23456", "2222", "9999", "6666"
_OWN_ADDRESS = {"fieldRef": {"fieldPath": "status.podIP"}}
_INDEX = "$(TRAINER_INDEX)"


def pytorch(job: JobPlan, group: str, name: str) -> Values:
    """Without a master, the operator sets no rendezvous variables."""
    if job.spec.elastic:
        # A shared store is announced only in the first round: a node that joins later would wait for it in vain.
        return {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    if job.group("master"):
        return {"LOCAL_RANK": "0"}
    leader, size = f"{name}-{job.leader.name}", str(len(job.replicas))
    return {
        "LOCAL_RANK": "0",
        "MASTER_ADDR": leader,
        "MASTER_PORT": _PYTORCH_PORT,
        "RANK": _INDEX,
        "WORLD_SIZE": size,
        "PET_NODE_RANK": _INDEX,
        "PET_MASTER_ADDR": leader,
        "PET_MASTER_PORT": _PYTORCH_PORT,
    }


def tensorflow(job: JobPlan, group: str, name: str) -> Values:
    """The operator sets no variables for a single replica."""
    if len(job.replicas) > 1:
        return {}
    leader = job.leader
    address = Address(f"{name}-{leader.name}", _TENSORFLOW_PORT)
    return job.framework.environment(job, leader, {leader.name: address})


def xgboost(job: JobPlan, group: str, name: str) -> Values:
    """The operator sets none of the variables that xgboost.collective reads."""
    env: Values = {"DMLC_TRACKER_PORT": _XGBOOST_PORT, "DMLC_NUM_WORKER": str(len(job.replicas))}
    if group == job.leader.group:
        # The tracker binds to this address before the leader's Service routes to this pod.
        return {**env, "DMLC_TRACKER_URI": _OWN_ADDRESS, "DMLC_TASK_ID": "0"}
    return {**env, "DMLC_TRACKER_URI": f"{name}-{job.leader.name}"}


def xgboost_command(replica: Replica) -> tuple[str, ...] | None:
    """The command that sets a worker's rank in the variable that xgboost.collective reads; None where no shell is
    needed.

    An image's own entry point cannot be started through a shell: such a worker has its rank only in ``RANK``.
    """
    if replica.rank == 0 or not replica.command:
        return None
    # A worker's rank is its index plus one. Only the operator's variable RANK has it, and that is defined too late in
    # the list for a reference $(RANK).
    return ("sh", "-c", 'export DMLC_TASK_ID="$RANK"; exec "$@"', "sh", *replica.argv)


def paddle(job: JobPlan, group: str, name: str) -> Values:
    """The operator does not set the rank, nor the variables that concern one node."""
    return {
        "PADDLE_RANK": _INDEX,
        "PADDLE_NPROC_PER_NODE": str(job.spec.num_proc_per_node),
        # The launcher also prints what its processes log to files in this folder; several nodes may start in the same
        # folder.
        "PADDLE_LOG_DIR": "log/$(TRAINER_REPLICA)",
    }


def jax(job: JobPlan, group: str, name: str) -> Values:
    """The operator sets none of the variables that Kubeflow Trainer sets."""
    return {
        "JAX_COORDINATOR_ADDRESS": f"{name}-{job.leader.name}:{_JAX_PORT}",
        "JAX_NUM_PROCESSES": str(len(job.replicas)),
        "JAX_PROCESS_ID": _INDEX,
    }
