"""Refuses jobs with more replicas than a backend can start, or whose addresses do not fit into a variable."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.plan.framework import Address, Addresses
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.spec import TrainJobSpec
from airflow_trainer_provider.spec.values.limits import MOST_REPLICAS, MOST_WORD_BYTES

#: No replica on any backend has a shorter address.
_SHORTEST = Address("127.0.0.1", 10000)


def size_field(spec: TrainJobSpec) -> tuple[str, int | None]:
    """The field that determines the size of a job, and its value.

    :param spec: of the job.
    """
    groups = {f"replicas.{name}.replicas": group.replicas for name, group in spec.replicas.items()}
    sizes = {
        "num_nodes": spec.num_nodes,
        "num_workers": spec.num_workers,
        "elastic.max_nodes": spec.elastic.max_nodes if spec.elastic else None,
        **groups,
    }
    return max(sizes.items(), key=lambda size: size[1] or 0)


def check_total(spec: TrainJobSpec, counts: Mapping[str, int]) -> None:
    """Refuse more replicas than a cluster can have, before any of them is laid out.

    :param spec: of the job.
    :param counts: how many replicas of each role.
    :raises SpecError: naming the field that asks for most of them.
    """
    total = sum(counts.values())
    if total > MOST_REPLICAS:
        field, value = size_field(spec)
        allowed = f"at most {MOST_REPLICAS} replicas in all; these are {total}"
        raise SpecError([Problem(field, value, allowed, "Start fewer replicas, and more processes on each.")])


def check_roster(job: JobPlan, addresses: Addresses | None = None) -> None:
    """Refuse a job whose list of replica addresses does not fit into a variable.

    :param job: the job.
    :param addresses: the addresses of the replicas; None for the shortest possible addresses.
    :raises SpecError: a variable would be longer than Linux takes.
    """
    known = addresses or {replica.name: _SHORTEST for replica in job.replicas}
    for name, value in job.framework.environment(job, job.leader, known).items():
        size = len(f"{name}={value}".encode())
        if size > MOST_WORD_BYTES:
            raise SpecError([roster_problem(job, name, size)])


def roster_problem(job: JobPlan, variable: str, size: int) -> Problem:
    """The problem of a variable that lists more replicas than it can hold.

    :param job: the job.
    :param variable: its name.
    :param size: how long it would be, in bytes.
    """
    field, _ = size_field(job.spec)
    allowed = (
        f"so few replicas that {variable}, which lists their addresses, has at most {MOST_WORD_BYTES} bytes, which is "
        f"the most that Linux takes; it has {size}"
    )
    return Problem(field, len(job.replicas), allowed, "Start fewer replicas.")
