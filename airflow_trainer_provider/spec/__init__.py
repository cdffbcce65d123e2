"""What a user asks for: a validated, frozen description of one training job.

Knows nothing of Airflow, of a backend, or of what a framework fills in.
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
from airflow_trainer_provider.spec.validation import parse_manifest_spec, parse_spec

__all__ = [
    "Amount",
    "ElasticPolicy",
    "ManifestSpec",
    "ReplicaGroup",
    "ReplicaOverride",
    "Resources",
    "RunPolicy",
    "TrainJobSpec",
    "parse_manifest_spec",
    "parse_spec",
]
