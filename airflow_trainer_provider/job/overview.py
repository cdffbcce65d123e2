"""A job as users see it: its status, and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobStatus


@dataclass(frozen=True)
class Overview:
    """A job.

    :param name: its name.
    :param kind: short name of its kind; ``local`` for a job of the local backend.
    :param backend: where it runs.
    :param location: its namespace, or the parent of its folder.
    :param framework: its framework; None where no annotation names it.
    :param status: its status.
    :param replicas: how many replicas it has, even if none has started.
    :param identity: the try of the task that submitted it; None where no task submitted it.
    """

    name: str
    kind: str
    backend: str
    location: str
    framework: str | None
    status: JobStatus
    replicas: int
    identity: Identity | None = None

    @property
    def running(self) -> int:
        """How many of its replicas run."""
        return sum(replica.started_at is not None and replica.finished_at is None for replica in self.status.replicas)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "backend": self.backend,
            "location": self.location,
            "framework": self.framework,
            "task": self.identity.model_dump(mode="json") if self.identity else None,
            "ready": {"running": self.running, "of": self.replicas},
            "status": self.status.model_dump(mode="json"),
        }


@dataclass(frozen=True)
class Description:
    """A job, and what explains its status.

    :param overview: the job.
    :param conditions: of its main object, as Kubernetes reports them.
    :param warnings: time and text of the events about its objects, the oldest first.
    :param diagnosis: of a job that has ended without success.
    """

    overview: Overview
    conditions: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    diagnosis: Diagnosis | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **self.overview.to_json(),
            "conditions": [dict(condition) for condition in self.conditions],
            "warnings": [{"at": at, "message": message} for at, message in self.warnings],
            "diagnosis": self.diagnosis.to_xcom() if self.diagnosis else None,
        }
