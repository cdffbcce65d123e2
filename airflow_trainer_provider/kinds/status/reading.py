"""What was read of a job at one time, and from which its status is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_trainer_provider.kinds.base import ControllerStatus, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.status.replicas import ReplicaState


@dataclass(frozen=True)
class Reading:
    """A job as the cluster shows it.

    :param kind: of the main object.
    :param main: the main object, or its last version.
    :param controller: the status that its controller reports.
    :param replicas: as they were read from the pods, in the order of their ranks.
    :param pods: all pods of the job, including those of its initializers.
    :param children: the child objects that the kind reads, and the job's Kueue Workload.
    :param events: of the main object and its children, newest last.
    :param deleted: whether the main object no longer exists.
    """

    kind: Kind
    main: Manifest
    controller: ControllerStatus
    replicas: Sequence[ReplicaState]
    pods: Sequence[Manifest] = ()
    children: Sequence[Manifest] = ()
    events: Sequence[Manifest] = ()
    deleted: bool = False
