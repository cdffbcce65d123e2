"""A job laid out: the spec, its framework, and the replicas they make; or a user's own manifest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

from airflow_trainer_provider.job.plan.framework import Framework
from airflow_trainer_provider.job.plan.launchers import other_launcher
from airflow_trainer_provider.spec import (
    ManifestSpec,
    PodSettings,
    ReplicaGroup,
    Resources,
    Scheduling,
    TrainJobSpec,
    Variable,
    Volume,
)


@dataclass(frozen=True)
class Replica:
    """One replica, with all settings of the spec that apply to it.

    :param group: its role.
    :param index: its index within the group.
    :param rank: its rank among all replicas, in the order of the framework's roles.
    :param launcher: the words before the command; empty where the command runs as it is.
    :param command: what its processes run; empty: the image's entry point.
    :param args: words after the command.
    :param scheduling: where its pod may run, with the label of the node pools.
    :param pod: settings of its pod.
    :param volumes: the volumes that are mounted into it: those of the job and of its group in one list.
    """

    group: str
    index: int
    rank: int
    launcher: tuple[str, ...]
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, Variable]
    image: str | None
    working_dir: str | None
    resources: Resources | None
    scheduling: Scheduling | None
    pod: PodSettings | None
    volumes: tuple[Volume, ...] = ()

    @property
    def name(self) -> str:
        """E.g. ``worker-1``."""
        return f"{self.group}-{self.index}"

    @property
    def texts(self) -> dict[str, str]:
        """The variables whose values are in the spec; the values of the others are known only in the cluster."""
        return {name: value for name, value in self.env.items() if isinstance(value, str)}

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command line."""
        return (*self.launcher, *self.command, *self.args)


@dataclass(frozen=True)
class JobPlan:
    """A spec, its framework, and the replicas they make.

    :param spec: what the user asked for.
    :param framework: its framework.
    :param replicas: in the order of their ranks.
    :param node_pool_label: the label that names the pool of a node, where the spec does not set it.
    :param asked: the spec before the task gave the job more memory; None where it has not. Another try recognizes the
        job as its own by this spec.
    """

    spec: TrainJobSpec
    framework: Framework
    replicas: tuple[Replica, ...]
    node_pool_label: str | None = None
    asked: TrainJobSpec | None = None

    @property
    def leader(self) -> Replica:
        """The replica that holds rank 0, whose result is the job's."""
        return self.replicas[0]

    @property
    def one_rank_each(self) -> bool:
        """Whether each replica is one process, whose rank is the replica's."""
        # The rendezvous of an elastic job reassigns the ranks, and mpirun assigns its own ranks.
        if self.spec.num_proc_per_node != 1 or self.spec.elastic or self.is_launched:
            return False
        return not any(other_launcher(replica.command, self.framework.launchers) for replica in self.replicas)

    def group(self, name: str) -> tuple[Replica, ...]:
        """The replicas of one role."""
        return self._groups.get(name, ())

    @cached_property
    def _groups(self) -> dict[str, tuple[Replica, ...]]:
        return {name: tuple(replicas) for name, replicas in groupby(self.replicas, attrgetter("group"))}

    def source(self, replica: Replica, field: str) -> tuple[str, Any]:
        """Where the user wrote a setting of a replica.

        :param replica: one of the job's replicas.
        :param field: a field of :class:`~airflow_trainer_provider.spec.job.ReplicaSettings`.
        :return: the field's path in the spec, and its value there; the job's own field where no group sets it, and None
            for the resources of a launcher, to which ``resources_per_node`` does not apply.
        """
        group = self.spec.replicas.get(replica.group, ReplicaGroup())
        for at, override in enumerate(group.overrides):
            if override.index == replica.index and getattr(override, field) is not None:
                return f"replicas.{replica.group}.overrides[{at}].{field}", getattr(override, field)
        if getattr(group, field) is not None:
            return f"replicas.{replica.group}.{field}", getattr(group, field)
        if field != "resources":
            return field, getattr(self.spec, field)
        if not self.framework.trains(replica.group):
            return f"replicas.{replica.group}.resources", None
        return "resources_per_node", self.spec.resources_per_node

    @property
    def is_launched(self) -> bool:
        """Whether one replica starts the processes on the others."""
        return any(not role.runs_command for role in self.framework.roles)

    @cached_property
    def nodes(self) -> tuple[Replica, ...]:
        """The replicas that train."""
        return tuple(replica for replica in self.replicas if self.framework.trains(replica.group))


@dataclass(frozen=True)
class ManifestPlan:
    """A job that a user's own manifest describes; the counterpart of :class:`JobPlan` for a spec.

    :param spec: what the user asked for.
    :param backend: the backend of the manifest's kind.
    :param kind: key of the manifest's kind, e.g. ``pytorchjob``.
    :param framework: its framework; the unknown one where neither the manifest's kind nor the user names one.
    :param deadline: seconds after which the cluster ends the job; None for the manifest's own deadline.
    """

    spec: ManifestSpec
    backend: str
    kind: str
    framework: Framework
    deadline: float | None = None


#: What a backend can run.
Plan = JobPlan | ManifestPlan
