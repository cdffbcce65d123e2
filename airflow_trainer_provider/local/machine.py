"""What this machine has, and how a replica is limited to its share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING

import psutil

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.job.plan.limits import size_field
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.spec.compute import parse_quantity

#: The most processes of one job. Each needs a port, files and memory of its own.
_MOST_PROCESSES = 256


def check_processes(backend: str, job: JobPlan) -> None:
    """Refuse a job with more processes than one machine runs.

    :param backend: the backend's name, for the error.
    :param job: the job.
    :raises UnsupportedField: naming the field that asks for most of them.
    """
    each = job.spec.num_proc_per_node if isinstance(job.spec.num_proc_per_node, int) else 1
    total = each * len(job.nodes)
    if total > _MOST_PROCESSES:
        size, count = size_field(job.spec)
        field, value = (size, count) if (count or 1) >= each else ("num_proc_per_node", each)
        allowed = f"at most {_MOST_PROCESSES} processes on one machine; these are {total}"
        raise UnsupportedField(backend, Problem(field, value, allowed, "Start fewer, or run on a cluster."))


def check_fits(backend: str, job: JobPlan) -> None:
    """Refuse a job whose requests this machine can never meet.

    :param backend: the backend's name, for the error.
    :param job: the job.
    :raises UnsupportedField: its replicas ask for more CPUs or memory than there are.
    """
    has = {"cpu": _cpus(), "memory": psutil.virtual_memory().total}
    unit = {"cpu": "CPUs", "memory": "bytes"}
    for resource, total in has.items():
        asked = sum(_requested(replica.resources, resource) for replica in job.replicas)
        if asked > total:
            allowed = f"at most {total} {unit[resource]} for all {len(job.replicas)} replicas together"
            fix = "Ask for less, start fewer replicas, or run on a cluster."
            largest = max(job.replicas, key=lambda replica: _requested(replica.resources, resource))
            field = f"{job.source(largest, 'resources')[0]}.{resource}"
            raise UnsupportedField(backend, Problem(field, float(asked), allowed, fix))


@contextmanager
def limited_to_cpus(limit: str | None, rank: int) -> Iterator[None]:
    """Limit the CPUs of the processes that are started inside. Other replicas of the same job use other CPUs.

    Without control groups a process can only be bound to whole CPUs, so a part of a CPU counts as one.

    :param limit: CPUs, as Kubernetes writes them; None for no limit.
    :param rank: of the replica.
    """
    if limit is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    available = sorted(os.sched_getaffinity(0))
    count = min(int(parse_quantity(limit).to_integral_value(ROUND_CEILING)), len(available))
    first = rank * count
    try:
        os.sched_setaffinity(0, {available[(first + offset) % len(available)] for offset in range(count)})
        yield
    finally:
        os.sched_setaffinity(0, available)


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _requested(resources: object, resource: str) -> float:
    amount = getattr(resources, resource, None)
    asked = amount and (amount.requests or amount.limits)
    return float(parse_quantity(asked)) if asked else 0
