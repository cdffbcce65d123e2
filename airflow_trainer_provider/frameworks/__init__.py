"""What differs between frameworks: one file each, found by name."""

from __future__ import annotations

import importlib

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks.base import Framework
from airflow_trainer_provider.spec.validation import choice

#: Framework name -> the module that holds its ``FRAMEWORK``.
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

    :param name: e.g. ``pytorch``.
    :raises SpecError: there is none of that name; names the nearest.
    """
    if name not in MODULES:
        raise SpecError([choice("framework", name, MODULES, "Use one of these.")])
    framework: Framework = importlib.import_module(MODULES[name]).FRAMEWORK
    return framework
