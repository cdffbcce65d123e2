"""JAX: jax.distributed.initialize() finds the coordinator and its own process id in the environment.

https://docs.jax.dev/en/latest/multi_process.html
"""

from __future__ import annotations

from airflow_trainer_provider.job.plan.framework import Addresses, Framework, Role
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica


def _environment(job: JobPlan, replica: Replica, addresses: Addresses) -> dict[str, str]:
    leader = addresses[job.leader.name]
    processes, process = str(len(job.replicas)), str(replica.rank)
    return {
        # Kubeflow Trainer's names; jax reads the address by itself.
        "JAX_COORDINATOR_ADDRESS": str(leader),
        "JAX_NUM_PROCESSES": processes,
        "JAX_PROCESS_ID": process,
        # The Training Operator's names.
        "COORDINATOR_ADDRESS": leader.host,
        "COORDINATOR_PORT": str(leader.port),
        "NUM_PROCESSES": processes,
        "PROCESS_ID": process,
    }


FRAMEWORK = Framework(
    name="jax",
    title="JAX",
    roles=(Role("worker"),),
    environment=_environment,
    other_rank_variables=("JAX_PROCESS_ID",),
)
