"""Training jobs in Airflow: operators and sensors for distributed training.

The names below are loaded on first use, so that a DAG file can import the package at no cost.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from airflow_trainer_provider.version import __version__ as __version__

if TYPE_CHECKING:
    from airflow_trainer_provider.operators.clean_up import CleanUpTrainJobsOperator
    from airflow_trainer_provider.operators.form import training_params
    from airflow_trainer_provider.operators.frameworks import (
        JAXJobOperator,
        MPIJobOperator,
        PaddleJobOperator,
        PyTorchJobOperator,
        TFJobOperator,
        XGBoostJobOperator,
    )
    from airflow_trainer_provider.operators.lifecycle import (
        DeleteTrainJobOperator,
        ResumeTrainJobOperator,
        SuspendTrainJobOperator,
    )
    from airflow_trainer_provider.operators.train_job import TrainJobOperator
    from airflow_trainer_provider.sensors.train_job import TrainJobSensor

__all__ = [
    "CleanUpTrainJobsOperator",
    "DeleteTrainJobOperator",
    "JAXJobOperator",
    "MPIJobOperator",
    "PaddleJobOperator",
    "PyTorchJobOperator",
    "ResumeTrainJobOperator",
    "SuspendTrainJobOperator",
    "TFJobOperator",
    "TrainJobOperator",
    "TrainJobSensor",
    "XGBoostJobOperator",
    "training_params",
]

_MODULES = {
    "CleanUpTrainJobsOperator": "operators.clean_up",
    "TrainJobOperator": "operators.train_job",
    "TrainJobSensor": "sensors.train_job",
    "training_params": "operators.form",
    **dict.fromkeys(
        (
            "JAXJobOperator",
            "MPIJobOperator",
            "PaddleJobOperator",
            "PyTorchJobOperator",
            "TFJobOperator",
            "XGBoostJobOperator",
        ),
        "operators.frameworks",
    ),
    **dict.fromkeys(
        ("DeleteTrainJobOperator", "ResumeTrainJobOperator", "SuspendTrainJobOperator"), "operators.lifecycle"
    ),
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
