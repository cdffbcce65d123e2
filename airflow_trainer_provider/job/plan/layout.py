"""Lays a spec out into replicas: how many of each role, and what each of them runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.plan.framework import Framework, Role
from airflow_trainer_provider.job.plan.launchers import begins_with_launcher, other_launcher
from airflow_trainer_provider.job.plan.limits import check_roster, check_total
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.plan.programs import programs_of
from airflow_trainer_provider.spec import PodSettings, ReplicaGroup, ReplicaOverride, Scheduling, TrainJobSpec, Volume
from airflow_trainer_provider.spec.running.launcher import Launcher
from airflow_trainer_provider.spec.validation import choice
from airflow_trainer_provider.spec.values.base import laid_over
from airflow_trainer_provider.spec.volumes import merged_volumes

T = TypeVar("T")
#: The role that every framework has.
_WORKER = "worker"


def lay_out(
    spec: TrainJobSpec,
    framework: Framework,
    node_pool_label: str | None = None,
    *,
    processes_are_read: bool = True,
) -> JobPlan:
    """Lay out a job's replicas, with the defaults of its framework.

    :param spec: what the user asked for.
    :param framework: the framework that the spec names.
    :param node_pool_label: the label that names the pool of a node, where the spec does not set it.
    :param processes_are_read: whether to refuse a number of processes that no launcher reads.
    :return: the job, replica by replica.
    :raises SpecError: the framework does not have a role, or does not support a setting (no setting is ignored
        silently), or there would be too many replicas.
    """
    problems = [*_unknown_roles(spec, framework), *_unsupported(spec, framework)]
    if problems:
        raise SpecError(problems)
    if spec.mpi.is_node:
        framework = replace(framework, automatic_trains=True)
    counts = _counts(spec, framework)
    check_total(spec, counts)
    problems = [*_wrong_counts(spec, framework, counts), *_wrong_overrides(spec, counts)]
    if problems:
        raise SpecError(problems)
    replicas: list[Replica] = []
    bare = JobPlan(spec, framework, (), node_pool_label)
    for role in framework.roles:
        shared = _shared_settings(spec, role, node_pool_label)
        for index in range(counts.get(role.name, 0)):
            replicas.append(_replica(bare, role, index, shared, rank=len(replicas)))
    job = replace(bare, replicas=tuple(replicas))
    problems = [problem for replica in replicas for problem in _wrong_elastic(job, replica)]
    if processes_are_read:
        problems += [problem for replica in replicas for problem in _unread_processes(job, replica)]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    check_roster(job)
    return job


def is_sized(spec: TrainJobSpec) -> bool:
    """Whether the user gave the number of nodes, in any of the fields for it.

    :param spec: of the job.
    """
    worker = spec.replicas.get(_WORKER, ReplicaGroup())
    return any(size is not None for size in (spec.num_nodes, spec.num_workers, spec.elastic, worker.replicas))


def _unread_processes(job: JobPlan, replica: Replica) -> Iterator[Problem]:
    """The problem of a number of processes that is not read, because the command begins with another launcher, or runs
    without one.
    """
    field, _ = job.source(replica, "command")
    other, variable = other_launcher(replica.command, job.framework.launchers), job.framework.processes_variable
    processes = job.spec.num_proc_per_node
    is_lost = processes != 1 and not _reads_processes(job, replica)
    if is_lost and job.spec.mpi.name == "none":
        fix = f"Drop launcher or num_proc_per_node, or give $({variable}) to a launcher in the command."
        yield Problem("launcher", "none", "auto, where num_proc_per_node is not 1 and no launcher is given it", fix)
    elif is_lost and other:
        allowed = f"1 where {field} begins with {other}, which does not read it"
        fix = f"Give {other} the number by its own option, as $({variable}), or drop num_proc_per_node."
        yield Problem("num_proc_per_node", processes, allowed, fix)


def _wrong_elastic(job: JobPlan, replica: Replica) -> Iterator[Problem]:
    """The problem of a command that begins with another launcher, although the number of nodes may vary."""
    other = other_launcher(replica.command, job.framework.launchers)
    if job.spec.elastic and other:
        field, _ = job.source(replica, "command")
        fix = f"Elastic training needs torchrun: drop elastic, or the launcher {other}."
        yield Problem(field, other, "a command for torchrun, where elastic is set", fix)


def _reads_processes(job: JobPlan, replica: Replica) -> bool:
    """Whether a command that runs without the framework's launcher can read the number of processes."""
    variable = job.framework.processes_variable
    if variable is None or not job.framework.launchers.isdisjoint(programs_of(replica.command)):
        return True
    return any(variable in word for word in (*replica.command, *replica.args, *replica.texts.values()))


def _unknown_roles(spec: TrainJobSpec, framework: Framework) -> list[Problem]:
    roles = [role.name for role in framework.roles]
    return [
        choice("replicas", name, roles, framework.refused_roles.get(name, f"{framework.title} has these roles only."))
        for name in spec.replicas
        if name not in roles
    ]


def _unsupported(spec: TrainJobSpec, framework: Framework) -> Iterator[Problem]:
    yield from _unsupported_processes(spec, framework)
    yield from _unsupported_elastic(spec, framework)
    if isinstance(spec.launcher, Launcher) and all(role.runs_command for role in framework.roles):
        fix = f"Write the name alone: {framework.title} has no launcher with settings."
        yield Problem("launcher", "a mapping", "auto, none", fix)
    for role in framework.roles:
        if not role.runs_command and role.name in spec.replicas:
            yield from _commands_without_effect(spec.replicas[role.name], role, framework)
    if spec.elastic and spec.mpi.name == "none":
        fix = "Elastic training needs the launcher, torchrun; drop one of the two."
        yield Problem("launcher", "none", "auto, where elastic is set", fix)


def _unsupported_processes(spec: TrainJobSpec, framework: Framework) -> Iterator[Problem]:
    processes = spec.num_proc_per_node
    if isinstance(processes, str) and not framework.processes_by_keyword:
        fix = f"{framework.title} takes a number only."
        yield Problem("num_proc_per_node", processes, "a whole number of at least 1", fix)
    elif processes != 1 and not framework.processes_per_node:
        fix = f"{framework.title} runs one process on a node; raise num_nodes instead."
        yield Problem("num_proc_per_node", processes, "1", fix)


def _unsupported_elastic(spec: TrainJobSpec, framework: Framework) -> Iterator[Problem]:
    if spec.elastic is None:
        return
    if not framework.elastic:
        fix = f"{framework.title} runs on a fixed number of nodes; use num_nodes."
        yield Problem("elastic", spec.elastic.model_dump(exclude_unset=True), "no value", fix)
    for name in spec.replicas:
        if name != _WORKER:
            fix = "Nodes of an elastic job are alike, and all are workers."
            yield Problem(f"replicas.{name}", name, "worker, where elastic is set", fix)


def _commands_without_effect(group: ReplicaGroup, role: Role, framework: Framework) -> Iterator[Problem]:
    """Commands for a role whose replicas only wait for a launcher."""
    for field in ("command", "args"):
        if any(getattr(part, field) for part in (group, *group.overrides)):
            fix = f"The {framework.automatic} starts the processes on each {role.name}; set {field} of the job."
            yield Problem(f"replicas.{role.name}.{field}", "a value", "no value", fix)


def _counts(spec: TrainJobSpec, framework: Framework) -> dict[str, int]:
    """The number of replicas of each role. The settings of a group do not give its size, except that the group
    exists.
    """
    counts = {name: group.replicas or 1 for name, group in spec.replicas.items() if name != _WORKER}
    if framework.automatic and not spec.elastic and not _sized_by_groups(spec):
        counts.setdefault(framework.automatic, 1)
    counts[_WORKER] = _workers(spec, framework)
    return {name: count for name, count in counts.items() if count > 0}


def _sized_by_groups(spec: TrainJobSpec) -> bool:
    """Whether only ``replicas`` gives the number of nodes: then no master is added."""
    # Groups such as ps train nothing, and do not count.
    sized = _WORKER in spec.replicas and spec.replicas[_WORKER].replicas is not None
    return sized and spec.num_nodes is None and spec.num_workers is None


def _workers(spec: TrainJobSpec, framework: Framework) -> int:
    if spec.elastic:
        return spec.elastic.max_nodes
    if spec.num_workers is not None:
        return spec.num_workers
    group = spec.replicas.get(_WORKER)
    if spec.num_nodes is None and group and group.replicas:
        return group.replicas
    # Without any number there is one node.
    masters = 1 if framework.automatic and framework.automatic_trains else 0
    return (spec.num_nodes or 1) - masters


def _wrong_counts(spec: TrainJobSpec, framework: Framework, counts: dict[str, int]) -> list[Problem]:
    problems = []
    for role in framework.roles:
        count = counts.get(role.name, 0)
        if role.most is not None and count > role.most:
            fix = f"{framework.title} has at most {role.most} of {role.name}; put the others into worker."
            problems.append(Problem(f"replicas.{role.name}.replicas", count, f"at most {role.most}", fix))
        problems += _wrong_size(spec, framework, role.name, count)
    if framework.automatic_required and framework.automatic not in counts:
        allowed = f"a group {framework.automatic} beside them: {framework.automatic_required}"
        fix = f"Set num_workers={counts[_WORKER]}, which adds it, or add {{'{framework.automatic}': {{}}}}."
        problems.append(Problem("replicas", list(spec.replicas), allowed, fix))
    return problems


def _size_field(spec: TrainJobSpec) -> str:
    """The field that sets the job's size."""
    if spec.elastic:
        return "elastic"
    return "num_workers" if spec.num_nodes is None else "num_nodes"


def _wrong_size(spec: TrainJobSpec, framework: Framework, name: str, count: int) -> Iterator[Problem]:
    """The problem of a group whose number of replicas contradicts the job's size, or of settings for replicas that the
    job does not have.
    """
    group = spec.replicas.get(name)
    if group and group.replicas and group.replicas != count:
        allowed = str(count) if count else f"no value: a job of one node has a {framework.automatic} only"
        fix = f"It contradicts {_size_field(spec)}; drop one of the two."
        yield Problem(f"replicas.{name}.replicas", group.replicas, allowed, fix)
    elif group and not count:
        allowed = f"no settings of {name}: a job of one node has a {framework.automatic} only"
        fix = f"Set num_nodes, num_workers or replicas.{name}.replicas, or drop replicas.{name}."
        yield Problem(f"replicas.{name}", "settings", allowed, fix)


def _wrong_overrides(spec: TrainJobSpec, counts: dict[str, int]) -> list[Problem]:
    problems = []
    for name, group in spec.replicas.items():
        count = counts.get(name, 0)
        for at, override in enumerate(group.overrides if count else ()):
            if override.index >= count:
                allowed = f"0 to {count - 1}"
                fix = f"Group {name} has {count} in all, counted from 0."
                problems.append(Problem(f"replicas.{name}.overrides[{at}].index", override.index, allowed, fix))
    return problems


@dataclass(frozen=True)
class _Shared:
    """Settings of a group, merged from those of the job and of the group. All replicas of the group share the same
    objects, so that comparing them is cheap.
    """

    scheduling: Scheduling | None
    node_pool_label: str | None
    pod: PodSettings | None
    volumes: tuple[Volume, ...]


def _shared_settings(spec: TrainJobSpec, role: Role, node_pool_label: str | None) -> _Shared:
    group = spec.replicas.get(role.name, ReplicaGroup())
    whole = spec.scheduling.of_pods if spec.scheduling else None
    scheduling = laid_over(whole, group.scheduling)
    label = (scheduling and scheduling.node_pool_label) or node_pool_label
    volumes = merged_volumes(spec.volumes, group.volumes or ())
    return _Shared(_labelled(scheduling, label), label, laid_over(spec.pod, group.pod), volumes)


def _labelled(scheduling: Scheduling | None, node_pool_label: str | None) -> Scheduling | None:
    if scheduling is None or not scheduling.node_pools or scheduling.node_pool_label:
        return scheduling
    return scheduling.model_copy(update={"node_pool_label": node_pool_label})


def _replica(job: JobPlan, role: Role, index: int, shared: _Shared, rank: int) -> Replica:
    spec = job.spec
    group = spec.replicas.get(role.name, ReplicaGroup())
    override = next((entry for entry in group.overrides if entry.index == index), ReplicaOverride(index=index))
    command = _first(override.command, group.command, spec.command)
    args = _first(override.args, group.args, spec.args)
    launcher, words = _launched(job, command) if command and role.runs_command else ((), ())
    # A launcher that does not train is not a node, and does not get the resources of a node.
    per_node = spec.resources_per_node if job.framework.trains(role.name) else None
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
        resources=_first(override.resources, group.resources, per_node),
        scheduling=_first(_labelled(override.scheduling, shared.node_pool_label), shared.scheduling),
        pod=_first(override.pod, shared.pod),
        volumes=shared.volumes if override.volumes is None else override.volumes,
    )


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _launched(job: JobPlan, command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The launcher's words, and the command in the form that the launcher expects."""
    if job.spec.mpi.name == "none" or begins_with_launcher(command, job.framework.launchers):
        return (), command
    return job.framework.launch(command, job)
