"""Raises the memory of a job that ran out of memory, according to ``run_policy.on_oom``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from airflow_trainer_provider.job.plan.plan import JobPlan, Plan, Replica
from airflow_trainer_provider.spec import Resources, TrainJobSpec
from airflow_trainer_provider.spec.compute import MemoryAmount, parse_quantity

_MI = 2**20


@dataclass(frozen=True)
class MoreMemory:
    """The next job of a task whose last one ran out of memory.

    :param replica: the replica that had too little memory.
    :param field: the field of the spec that sets its memory.
    :param before: its limit until now.
    :param after: its limit from now on.
    :param spec: the spec with the new limit.
    """

    replica: str
    field: str
    before: str
    after: str
    spec: TrainJobSpec

    def to_xcom(self) -> dict[str, Any]:
        """As JSON values, without the spec."""
        return {name: getattr(self, name) for name in ("replica", "field", "before", "after")}


def more_memory(job: Plan, name: str) -> MoreMemory | None:
    """Raise the memory of a replica that ran out of it, and of the replicas whose memory the same field sets.

    :param job: the job that failed.
    :param name: of the replica.
    :return: None where ``run_policy.on_oom`` allows no more.
    """
    if not isinstance(job, JobPlan) or job.spec.run_policy.on_oom is None:
        return None
    on_oom = job.spec.run_policy.on_oom
    # A runtime may have more nodes than the task names; all nodes are alike.
    replica = next((each for each in job.replicas if each.name == name), job.nodes[0])
    field, resources = job.source(replica, "resources")
    before = resources.memory.limits if resources and resources.memory else None
    if before is None or parse_quantity(before) >= parse_quantity(on_oom.max):
        return None
    after = _times(before, on_oom.factor, on_oom.max)
    requests = resources.memory.requests
    memory = MemoryAmount(requests=requests and _times(requests, on_oom.factor, after), limits=after)
    raised = resources.model_copy(update={"memory": memory})
    return MoreMemory(name, f"{field}.memory", before, after, _with_resources(job.spec, replica, field, raised))


def grown(job: Plan, more: MoreMemory, lay_out: Callable[[TrainJobSpec], JobPlan]) -> JobPlan:
    """The job with more memory. Another try that asks for the original job recognizes it as its own.

    :param job: the job that ran out of memory.
    :param more: the new memory.
    :param lay_out: lays a spec out.
    """
    assert isinstance(job, JobPlan), "a manifest has no on_oom"
    return replace(lay_out(more.spec), asked=job.asked or job.spec)


def _times(amount: str, factor: float, most: str) -> str:
    """An amount of memory multiplied by a factor, in whole MiB, up to a maximum."""
    wanted = math.ceil(parse_quantity(amount) * Decimal(str(factor)) / _MI)
    return most if wanted * _MI >= parse_quantity(most) else f"{wanted}Mi"


def _with_resources(spec: TrainJobSpec, replica: Replica, field: str, resources: Resources) -> TrainJobSpec:
    """The spec with other resources.

    :param field: as :meth:`~airflow_trainer_provider.job.plan.plan.JobPlan.source` names it for the replica.
    """
    if field == "resources_per_node":
        return spec.model_copy(update={"resources_per_node": resources})
    group = spec.replicas[replica.group]
    update: dict[str, Any] = {"resources": resources}
    if ".overrides[" in field:
        own = tuple(each.model_copy(update=update) if each.index == replica.index else each for each in group.overrides)
        update = {"overrides": own}
    groups = {**spec.replicas, replica.group: group.model_copy(update=update)}
    return spec.model_copy(update={"replicas": groups})
