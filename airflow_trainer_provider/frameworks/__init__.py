"""What differs between frameworks: one file each, found by name."""

from __future__ import annotations

import importlib

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.job.plan.framework import Framework
from airflow_trainer_provider.job.plan.layout import lay_out
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.spec import TrainJobSpec
from airflow_trainer_provider.spec.validation import choice

#: Framework name -> the module that holds its ``FRAMEWORK``; those that a spec may name.
MODULES = {
    "pytorch": "airflow_trainer_provider.frameworks.pytorch",
    "tensorflow": "airflow_trainer_provider.frameworks.tensorflow",
    "mpi": "airflow_trainer_provider.frameworks.mpi",
    "xgboost": "airflow_trainer_provider.frameworks.xgboost",
    "paddle": "airflow_trainer_provider.frameworks.paddle",
    "jax": "airflow_trainer_provider.frameworks.jax",
}


def get_framework(name: str) -> Framework:
    """Look a framework up.

    :param name: e.g. ``pytorch``; empty for that of a job of which it is not known.
    :raises SpecError: there is none of that name; names the nearest.
    """
    if name and name not in MODULES:
        raise SpecError([choice("framework", name, MODULES, "Use one of these.")])
    module = MODULES[name] if name else "airflow_trainer_provider.frameworks.unknown"
    framework: Framework = importlib.import_module(module).FRAMEWORK
    return framework


def plan_job(spec: TrainJobSpec, node_pool_label: str | None = None) -> JobPlan:
    """Lay a spec out with what its framework brings.

    :param spec: what the user asked for.
    :param node_pool_label: the label of node pools where the spec does not say.
    :raises SpecError: as :func:`~airflow_trainer_provider.job.plan.layout.lay_out`.
    """
    return lay_out(spec, get_framework(spec.framework), node_pool_label)
