"""Decides which replicas share an Indexed Job: a block is a run of replicas with consecutive ranks."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from airflow_trainer_provider.frameworks.remember import remember_last
from airflow_trainer_provider.job.plan.framework import Address, Addresses
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica

#: The reference to a variable with the completion index; Kubernetes replaces it with the index.
INDEX_REFERENCE = "$(TRAINER_INDEX)"
#: Each replica has its own address, so all replicas can use the same port.
PORT = 29500
#: An index that no replica has. Where it appears in the value of a variable, it is replaced with ``INDEX_REFERENCE``.
_ANY = 1_000_000_007


@dataclass(frozen=True)
class Block:
    """Replicas whose pods come from one template.

    :param name: the suffix of the job's name; empty where the block spans several groups.
    :param replicas: in the order of their completion indices.
    """

    name: str
    replicas: tuple[Replica, ...]

    @property
    def first(self) -> Replica:
        """The replica with completion index 0."""
        return self.replicas[0]

    @property
    def one_group(self) -> bool:
        """Whether all are of the same group."""
        return self.first.group == self.replicas[-1].group

    def job_name(self, name: str) -> str:
        """The name of the block's Job.

        :param name: of the training job.
        """
        return f"{name}-{self.name}" if self.name else name


@remember_last
def blocks(job: JobPlan) -> tuple[Block, ...]:
    """Divide the replicas, from the first rank on, into the longest runs whose Pods can share a template.

    :param job: the job.
    """
    # Any host names will do: how an index changes the variables does not depend on them.
    addresses = {replica.name: Address(replica.name, PORT) for replica in job.replicas}
    runs: list[list[Replica]] = []
    template: Mapping[str, str] = {}
    for replica in job.replicas:
        if runs and _joins(job, runs[-1], template, replica, addresses):
            runs[-1].append(replica)
        else:
            runs.append([replica])
            template = _template(job, replica, addresses)
    return tuple(Block(_name(job, run), tuple(run)) for run in runs)


def addresses_of(name: str, parts: Iterable[Block]) -> Addresses:
    """The addresses at which the replicas reach each other: the host names that Indexed Jobs set, in the domain of the
    headless Service.

    The leader's address is its host name alone: the others reach it through a Service of that name, and the leader can
    resolve it before any DNS server does. This is needed by a rendezvous that decides by the name whether it is hosted
    on this machine.

    :param name: of the job, and of its Service.
    :param parts: all blocks of the job.
    """
    addresses = {}
    for block in parts:
        for position, replica in enumerate(block.replicas):
            host = f"{block.job_name(name)}-{position}"
            addresses[replica.name] = Address(host if replica.rank == 0 else f"{host}.{name}", PORT)
    return addresses


def environment_of(job: JobPlan, block: Block, addresses: Addresses) -> dict[str, str]:
    """The variables by which the replicas of a block find the others, as one template for the whole block.

    :param job: the job.
    :param block: one of its blocks.
    :param addresses: where the replicas reach each other.
    """
    if len(block.replicas) == 1:
        return job.framework.environment(job, block.first, addresses)
    return _template(job, block.first, addresses)


def _template(job: JobPlan, first: Replica, addresses: Addresses) -> dict[str, str]:
    stand_in = replace(first, index=_ANY, rank=_ANY)
    # Not a copy, because there may be as many runs as replicas. It is only read.
    known = ChainMap({stand_in.name: addresses[first.name]}, cast("dict[str, Address]", addresses))
    environment = job.framework.environment(job, stand_in, known)
    return {name: value.replace(str(_ANY), INDEX_REFERENCE) for name, value in environment.items()}


def _joins(
    job: JobPlan, run: list[Replica], template: Mapping[str, str], replica: Replica, addresses: Addresses
) -> bool:
    """Whether a replica can share the template of the run before it."""
    first, role, position = run[0], job.framework.role(replica.group), len(run)
    if replace(replica, group=first.group, index=first.index, rank=first.rank) != first:
        return False
    if role.waited_for != job.framework.role(first.group).waited_for:
        return False
    # The completion index has to be the replica's index in its group, or its rank where the run spans groups.
    if position != (replica.index if replica.group == first.group and first.index == 0 else replica.rank):
        return False
    if position == 1 and _filled(template, 0) != job.framework.environment(job, first, addresses):
        return False
    return _filled(template, position) == job.framework.environment(job, replica, addresses)


def _filled(template: Mapping[str, str], index: int) -> dict[str, str]:
    """The variables as the Pod with that completion index has them."""
    return {name: value.replace(INDEX_REFERENCE, str(index)) for name, value in template.items()}


def _name(job: JobPlan, run: list[Replica]) -> str:
    first = run[0]
    if first.group != run[-1].group:
        return ""
    return first.group if len(run) == len(job.group(first.group)) else first.name
