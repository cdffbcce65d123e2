"""Lays a spec out, with the defaults from Airflow's configuration."""

from __future__ import annotations

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.hooks.images import with_images
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.spec import TrainJobSpec


def configured_job(spec: TrainJobSpec) -> JobPlan:
    """Lay a spec out, with the ``[trainer]`` options for the fields that it leaves unset.

    :param spec: the user's spec.
    :raises SpecError: as :func:`~airflow_trainer_provider.frameworks.plan_job`; or an option has an invalid value.
    """
    spec = with_images(spec)
    if not any(part.scheduling and part.scheduling.node_pools for _, part in spec.parts):
        return plan_job(spec)
    # Imported here: for other jobs the command line does not import Airflow.
    from airflow_trainer_provider.hooks.settings import load_settings

    return plan_job(spec, load_settings().node_pool_label)
