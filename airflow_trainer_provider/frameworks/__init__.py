"""What differs between frameworks: one file each, found by name."""

from __future__ import annotations

import importlib

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks.base import Framework
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
