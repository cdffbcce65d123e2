"""Lays a spec out as Airflow is configured."""

from __future__ import annotations

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.hooks.images import with_images
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.spec import TrainJobSpec


def configured_job(spec: TrainJobSpec) -> JobPlan:
    """Lay a spec out, with what ``[trainer]`` says of what it leaves open.

    :param spec: what the user asked for.
    :raises SpecError: as :func:`~airflow_trainer_provider.frameworks.plan_job`; or an option has a value that is not
        allowed.
    """
    spec = with_images(spec)
    if not any(part.scheduling and part.scheduling.node_pools for _, part in spec.parts):
        return plan_job(spec)
    # Not at the module's top: the command line needs none of Airflow for the other jobs.
    from airflow_trainer_provider.hooks.settings import load_settings

    return plan_job(spec, load_settings().node_pool_label)
