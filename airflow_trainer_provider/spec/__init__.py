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
from airflow_trainer_provider.spec.validation import parse_spec

__all__ = [
    "Amount",
    "ElasticPolicy",
    "ReplicaGroup",
    "ReplicaOverride",
    "Resources",
    "RunPolicy",
    "TrainJobSpec",
    "parse_spec",
]
