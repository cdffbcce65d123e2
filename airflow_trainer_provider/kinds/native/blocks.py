"""Which replicas share an Indexed Job: a block is a run of them, in the order of their ranks."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from airflow_trainer_provider.frameworks.remember import remember_last
from airflow_trainer_provider.job.plan.framework import Address, Addresses
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica

#: What a container finds its completion index by; Kubernetes puts the index in its place.
INDEX_REFERENCE = "$(TRAINER_INDEX)"
#: All replicas have an address of their own, so they can use the same port.
PORT = 29500
#: An index that no replica has. Where it shows up in a variable, the completion index goes there.
_ANY = 1_000_000_007


@dataclass(frozen=True)
class Block:
    """Replicas whose pods come from one template.

    :param name: what is added to the job's name; empty where the block spans several groups.
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
    """Divide the replicas into runs that can be given their ranks; as long as can be, from the first rank on.

    :param job: the job.
    """
    # Any hosts will do: what the replicas' own indices do to the variables is the same for all.
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
    """Where the replicas reach each other: the host names that Indexed Jobs give, below the headless Service.

    The leader's is its host name alone: the others reach it by a Service of that name, and itself knows the name
    before any DNS server does. A rendezvous that looks by its name whether it is to be held here needs that.

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
    """The variables by which the replicas of a block find the others, in one text for all of them.

    :param job: the job.
    :param block: one of its blocks.
    :param addresses: where the replicas reach each other.
    """
    if len(block.replicas) == 1:
        return job.framework.environment(job, block.first, addresses)
    return _template(job, block.first, addresses)


def _template(job: JobPlan, first: Replica, addresses: Addresses) -> dict[str, str]:
    stand_in = replace(first, index=_ANY, rank=_ANY)
    # Not a copy: there may be as many runs as replicas. It is read only.
    known = ChainMap({stand_in.name: addresses[first.name]}, cast("dict[str, Address]", addresses))
    environment = job.framework.environment(job, stand_in, known)
    return {name: value.replace(str(_ANY), INDEX_REFERENCE) for name, value in environment.items()}


def _joins(
    job: JobPlan, run: list[Replica], template: Mapping[str, str], replica: Replica, addresses: Addresses
) -> bool:
    """Whether a replica can share the template of those before it."""
    first, role, position = run[0], job.framework.role(replica.group), len(run)
    if replace(replica, group=first.group, index=first.index, rank=first.rank) != first:
        return False
    if role.waited_for != job.framework.role(first.group).waited_for:
        return False
    # Its completion index has to be its index in its group, or where the run spans groups, its rank.
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
