"""The variables by which a process finds the function that its job runs."""

from __future__ import annotations

from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.spec.running.function import FUNCTION_VARIABLE
from airflow_trainer_provider.training.progress import RANKS_VARIABLE


def function_environment(job: JobPlan, folder: str) -> dict[str, str]:
    """The variables of the function runner; empty where the job runs a command of the user.

    :param job: the job.
    :param folder: where the replicas find the function's files.
    """
    if job.spec.function is None:
        return {}
    names = filter(None, (job.framework.rank_variable, *job.framework.other_rank_variables))
    return {FUNCTION_VARIABLE: folder, RANKS_VARIABLE: ",".join(names)}
