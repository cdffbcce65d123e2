"""A job whose framework is not given: its logs are not searched for known errors."""

from __future__ import annotations

from airflow_trainer_provider.job.plan.framework import Addresses, Framework
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica


def _no_environment(job: JobPlan, replica: Replica, addresses: Addresses) -> dict[str, str]:
    return {}


#: The framework of jobs that a manifest describes, or that were created outside Airflow. No spec can name it.
FRAMEWORK = Framework(name="", title="an unknown framework", roles=(), environment=_no_environment)
