"""The differences between frameworks: one module per framework, found by its name."""

from __future__ import annotations

import importlib

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.job.plan.framework import Framework
from airflow_trainer_provider.job.plan.layout import lay_out
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.spec import TrainJobSpec
from airflow_trainer_provider.spec.validation import choice

#: Name of a framework that a spec may name -> the module with its ``FRAMEWORK``.
MODULES = {
    "pytorch": "airflow_trainer_provider.frameworks.pytorch",
    "tensorflow": "airflow_trainer_provider.frameworks.tensorflow",
    "mpi": "airflow_trainer_provider.frameworks.mpi",
    "xgboost": "airflow_trainer_provider.frameworks.xgboost",
    "paddle": "airflow_trainer_provider.frameworks.paddle",
    "jax": "airflow_trainer_provider.frameworks.jax",
}


def get_framework(name: str) -> Framework:
    """Look up a framework.

    :param name: e.g. ``pytorch``; empty for the framework of a job whose framework is unknown.
    :raises SpecError: there is no framework of that name; the error names the nearest one.
    """
    if name and name not in MODULES:
        raise SpecError([choice("framework", name, MODULES, "Use one of these.")])
    module = MODULES[name] if name else "airflow_trainer_provider.frameworks.unknown"
    framework: Framework = importlib.import_module(module).FRAMEWORK
    return framework


def plan_job(spec: TrainJobSpec, node_pool_label: str | None = None) -> JobPlan:
    """Lay out a spec with its framework.

    :param spec: what the user asked for.
    :param node_pool_label: the label that names the pool of a node, where the spec does not set it.
    :raises SpecError: as in :func:`~airflow_trainer_provider.job.plan.layout.lay_out`.
    """
    return lay_out(spec, get_framework(spec.framework), node_pool_label)
