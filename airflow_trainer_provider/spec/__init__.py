"""The spec: a validated, immutable description of the training job that a user requests.

It imports neither Airflow, nor a backend, nor a framework.
"""

from __future__ import annotations

from airflow_trainer_provider.spec.compute import Amount, Resources
from airflow_trainer_provider.spec.job import (
    ElasticPolicy,
    ReplicaGroup,
    ReplicaOverride,
    RunPolicy,
    TrainJobSpec,
)
from airflow_trainer_provider.spec.manifest import ManifestSpec
from airflow_trainer_provider.spec.parse import check_part, given_fields, parse_field, parse_manifest_spec, parse_spec
from airflow_trainer_provider.spec.pod import PodSettings
from airflow_trainer_provider.spec.running.tools import Tool
from airflow_trainer_provider.spec.scheduling import Scheduling
from airflow_trainer_provider.spec.values.variables import Variable, VariableSource
from airflow_trainer_provider.spec.volumes import Volume

__all__ = [
    "Amount",
    "ElasticPolicy",
    "ManifestSpec",
    "PodSettings",
    "ReplicaGroup",
    "ReplicaOverride",
    "Resources",
    "RunPolicy",
    "Scheduling",
    "Tool",
    "TrainJobSpec",
    "Variable",
    "VariableSource",
    "Volume",
    "check_part",
    "given_fields",
    "parse_field",
    "parse_manifest_spec",
    "parse_spec",
]
