"""Lays a spec out into replicas: how many of each role, and what each of them runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, TypeVar

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.frameworks.base import Framework, Role
from airflow_trainer_provider.spec import ReplicaGroup, ReplicaOverride, Resources, TrainJobSpec
from airflow_trainer_provider.spec.validation import choice

T = TypeVar("T")


@dataclass(frozen=True)
class Replica:
    """One replica, with everything that the spec says of it in one place.

    :param group: its role.
    :param index: its index within the group.
    :param rank: its rank among all replicas, in the order of the framework's roles.
    :param launcher: what stands before the command; empty where the command runs as it is.
    :param command: what its processes run; empty: the image's entry point.
    :param args: words after the command.
    """

    group: str
    index: int
    rank: int
    launcher: tuple[str, ...]
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]
    image: str | None
    working_dir: str | None
    resources: Resources | None

    @property
    def name(self) -> str:
        """E.g. ``worker-1``."""
        return f"{self.group}-{self.index}"

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command line."""
        return (*self.launcher, *self.command, *self.args)


@dataclass(frozen=True)
class Job:
    """A spec, its framework, and the replicas they make.

    :param spec: what the user asked for.
    :param framework: what the framework brings.
    :param replicas: in the order of their ranks.
    """

    spec: TrainJobSpec
    framework: Framework
    replicas: tuple[Replica, ...]

    @property
    def leader(self) -> Replica:
        """The replica that holds rank 0, whose result is the job's."""
        return self.replicas[0]

    @property
    def one_rank_each(self) -> bool:
        """Whether each replica is one process, whose rank is the replica's."""
        # The rendezvous of an elastic job gives the ranks out anew, and a launcher that trains nothing has none.
        return self.spec.num_proc_per_node == 1 and not self.spec.elastic and self.framework.automatic_trains

    def group(self, name: str) -> tuple[Replica, ...]:
        """The replicas of one role."""
        return tuple(replica for replica in self.replicas if replica.group == name)

    def source(self, replica: Replica, field: str) -> tuple[str, Any]:
        """Where the user wrote what a replica has.

        :param replica: one of these.
        :param field: a field of :class:`~airflow_trainer_provider.spec.job.ReplicaSettings`.
        :return: the field's path in the spec, and its value there; the job's own where no group says otherwise.
        """
        group = self.spec.replicas.get(replica.group, ReplicaGroup())
        for at, override in enumerate(group.overrides):
            if override.index == replica.index and getattr(override, field) is not None:
                return f"replicas.{replica.group}.overrides[{at}].{field}", getattr(override, field)
        if getattr(group, field) is not None:
            return f"replicas.{replica.group}.{field}", getattr(group, field)
        name = "resources_per_node" if field == "resources" else field
        return name, getattr(self.spec, name)

    @cached_property
    def nodes(self) -> tuple[Replica, ...]:
        """The replicas that train."""
        launcher = None if self.framework.automatic_trains else self.framework.automatic
        return tuple(replica for replica in self.replicas if replica.group != launcher)


def lay_out(spec: TrainJobSpec) -> Job:
    """Fill in what the framework knows.

    :param spec: what the user asked for.
    :return: the job, replica by replica.
    :raises SpecError: the framework has no such role, or cannot do what was asked; nothing is dropped.
    """
    framework = get_framework(spec.framework)
    problems = [*_unknown_roles(spec, framework), *_unsupported(spec, framework)]
    if problems:
        raise SpecError(problems)
    counts = _counts(spec, framework)
    problems = [*_wrong_counts(spec, framework, counts), *_wrong_overrides(spec, counts)]
    if problems:
        raise SpecError(problems)
    replicas: list[Replica] = []
    bare = Job(spec, framework, ())
    for role in framework.roles:
        for index in range(counts.get(role.name, 0)):
            replicas.append(_replica(bare, role, index, rank=len(replicas)))
    return Job(spec, framework, tuple(replicas))


def _unknown_roles(spec: TrainJobSpec, framework: Framework) -> list[Problem]:
    roles = [role.name for role in framework.roles]
    return [
        choice("replicas", name, roles, f"{framework.title} has these roles only.")
        for name in spec.replicas
        if name not in roles
    ]


def _unsupported(spec: TrainJobSpec, framework: Framework) -> list[Problem]:
    problems = []
    processes = spec.num_proc_per_node
    if isinstance(processes, str) and not framework.processes_by_keyword:
        fix = f"{framework.title} takes a number only."
        problems.append(Problem("num_proc_per_node", processes, "a whole number of at least 1", fix))
    elif processes != 1 and not framework.processes_per_node:
        fix = f"{framework.title} runs one process on a node; raise num_nodes instead."
        problems.append(Problem("num_proc_per_node", processes, "1", fix))
    elif processes != 1 and spec.launcher == "none":
        fix = "Without a launcher each node runs the command once; drop launcher or num_proc_per_node."
        problems.append(Problem("launcher", "none", "auto, where num_proc_per_node is not 1", fix))
    if spec.elastic and not framework.elastic:
        fix = f"{framework.title} runs on a fixed number of nodes; use num_nodes."
        problems.append(Problem("elastic", spec.elastic.model_dump(), "no value", fix))
    for name in spec.replicas if spec.elastic else ():
        if name != "worker":
            fix = "Nodes of an elastic job are alike, and all are workers."
            problems.append(Problem(f"replicas.{name}", name, "worker, where elastic is set", fix))
    for role in framework.roles:
        for field in ("command", "args") if not role.runs_command and role.name in spec.replicas else ():
            if any(getattr(part, field) for part in (spec.replicas[role.name], *spec.replicas[role.name].overrides)):
                fix = f"The {framework.automatic} starts the processes on each {role.name}; set {field} of the job."
                problems.append(Problem(f"replicas.{role.name}.{field}", "a value", "no value", fix))
    if spec.elastic and spec.launcher == "none":
        fix = "Elastic training needs the launcher, torchrun; drop one of the two."
        problems.append(Problem("launcher", "none", "auto, where elastic is set", fix))
    return problems


def _counts(spec: TrainJobSpec, framework: Framework) -> dict[str, int]:
    """How many replicas of each role. An explicit count wins over the shorthand for its role."""
    counts = {name: group.replicas or 1 for name, group in spec.replicas.items()}
    if spec.elastic:
        return {**counts, "worker": spec.elastic.max_nodes}
    sized = spec.num_nodes is not None or spec.num_workers is not None
    has_automatic = framework.automatic is not None
    # Groups that name workers, and no master, are the workers-only layout. Others, such as ps, train nothing alone.
    workers_only = "worker" in spec.replicas and not sized and framework.automatic_required is None
    if has_automatic and framework.automatic and not workers_only:
        counts.setdefault(framework.automatic, 1)
    if spec.num_workers is not None:
        counts["worker"] = spec.num_workers
    elif spec.num_nodes is not None:
        masters = 1 if has_automatic and framework.automatic_trains else 0
        counts["worker"] = spec.num_nodes - masters
    elif not has_automatic or not framework.automatic_trains:
        counts.setdefault("worker", 1)
    return {name: count for name, count in counts.items() if count > 0}


def _wrong_counts(spec: TrainJobSpec, framework: Framework, counts: dict[str, int]) -> list[Problem]:
    problems = []
    for role in framework.roles:
        count = counts.get(role.name, 0)
        if role.most is not None and count > role.most:
            fix = f"{framework.title} has at most {role.most} of {role.name}; put the others into worker."
            problems.append(Problem(f"replicas.{role.name}.replicas", count, f"at most {role.most}", fix))
        group = spec.replicas.get(role.name)
        if group and group.replicas and group.replicas != count:
            size = "elastic" if spec.elastic else "num_nodes" if spec.num_nodes is not None else "num_workers"
            fix = f"It contradicts {size}; drop one of the two."
            problems.append(Problem(f"replicas.{role.name}.replicas", group.replicas, str(count), fix))
    if framework.automatic_required and framework.automatic not in counts:
        fix = f"Add {framework.automatic}: {framework.automatic_required}"
        problems.append(Problem("replicas", list(spec.replicas), f"{framework.automatic} and worker", fix))
    return problems


def _wrong_overrides(spec: TrainJobSpec, counts: dict[str, int]) -> list[Problem]:
    problems = []
    for name, group in spec.replicas.items():
        count = counts.get(name, 0)
        for at, override in enumerate(group.overrides):
            if override.index >= count:
                allowed = f"0 to {count - 1}" if count else f"none: there is no {name}"
                fix = f"Group {name} has {count} in all, counted from 0."
                problems.append(Problem(f"replicas.{name}.overrides[{at}].index", override.index, allowed, fix))
    return problems


def _replica(job: Job, role: Role, index: int, rank: int) -> Replica:
    spec = job.spec
    group = spec.replicas.get(role.name, ReplicaGroup())
    override = next((entry for entry in group.overrides if entry.index == index), ReplicaOverride(index=index))
    command = _first(override.command, group.command, spec.command)
    args = _first(override.args, group.args, spec.args)
    launcher, words = _launched(job, command) if command and role.runs_command else ((), ())
    return Replica(
        group=role.name,
        index=index,
        rank=rank,
        launcher=launcher,
        command=words,
        args=args if args and role.runs_command else (),
        env=dict(override.env) if override.env is not None else {**spec.env, **(group.env or {})},
        image=_first(override.image, group.image, spec.image),
        working_dir=_first(override.working_dir, group.working_dir, spec.working_dir),
        resources=_first(override.resources, group.resources, spec.resources_per_node),
    )


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _launched(job: Job, command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The launcher's words, and the command as that launcher wants it."""
    program = PurePath(command[0]).name
    module = command[2] if program.startswith("python") and command[1:2] == ("-m",) and command[2:] else None
    if job.spec.launcher == "none" or job.framework.launchers & {program, module}:
        return (), command
    return job.framework.launch(command, job)
