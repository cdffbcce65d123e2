"""XGBoost: rank 0 runs the tracker of xgboost.collective, to which all ranks connect.

The script starts the tracker itself on rank 0, as it does under Kubeflow:
https://xgboost.readthedocs.io/en/stable/python/python_api.html#xgboost.tracker.RabitTracker
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_trainer_provider.frameworks.remember import remember_last
from airflow_trainer_provider.job.plan.framework import Addresses, Framework, Role
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica


def _environment(job: JobPlan, replica: Replica, addresses: Addresses) -> dict[str, str]:
    leader, size = addresses[job.leader.name], str(len(job.replicas))
    workers = job.group("worker")
    return {
        # Kubeflow Trainer's names, which xgboost.collective reads directly.
        "DMLC_TRACKER_URI": leader.host,
        "DMLC_TRACKER_PORT": str(leader.port),
        "DMLC_TASK_ID": str(replica.rank),
        "DMLC_NUM_WORKER": size,
        # The Training Operator's names.
        "MASTER_ADDR": leader.host,
        "MASTER_PORT": str(leader.port),
        "RANK": str(replica.rank),
        "WORLD_SIZE": size,
        "WORKER_ADDRS": _hosts(workers, addresses),
        "WORKER_PORT": str(addresses[workers[0].name].port) if workers else "",
    }


@remember_last
def _hosts(workers: Sequence[Replica], addresses: Addresses) -> str:
    return ",".join(addresses[worker.name].host for worker in workers)


FRAMEWORK = Framework(
    name="xgboost",
    title="XGBoost",
    roles=(Role("master", most=1), Role("worker")),
    automatic="master",
    automatic_required="the tracker that all ranks connect to runs there",
    environment=_environment,
    other_rank_variables=("DMLC_TASK_ID",),
)
