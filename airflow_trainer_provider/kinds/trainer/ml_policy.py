"""Applies the ML policy of the runtime that ``runtime_ref`` names to a job.

Fields that the task sets take precedence. For the others, this module interprets the policy as Trainer does. Trainer's
plugins for PyTorch, JAX and XGBoost do not see the policy: the runtime that is created for a job has no such policy.
https://www.kubeflow.org/docs/components/trainer/operator-guides/ml-policy/
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.job.plan.layout import is_sized, lay_out
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Facts, Manifest
from airflow_trainer_provider.kinds.objects.pod import containers_of, training_container
from airflow_trainer_provider.kinds.objects.scheduling.compute import lay_resources
from airflow_trainer_provider.kinds.strategic_merge import merged_template
from airflow_trainer_provider.kinds.trainer.training_runtime import BACKEND, NODE, renamed, step_template, steps_of
from airflow_trainer_provider.spec import ElasticPolicy
from airflow_trainer_provider.spec.compute import parse_quantity
from airflow_trainer_provider.spec.values.limits import MOST_REPLICAS

#: Source of an ML policy -> the framework that it is for.
_FRAMEWORKS = {"torch": "pytorch", "mpi": "mpi", "jax": "jax", "xgboost": "xgboost", "flux": None}
#: The only implementation of MPI for which Trainer makes a hostfile.
_OPEN_MPI = "OpenMPI"


def with_runtime(job: JobPlan, facts: Facts) -> JobPlan:
    """The job with its runtime's number of nodes, number of processes and elastic policy, where the task sets none.

    :param job: laid out without the runtime.
    :param facts: with the runtime; without one the job is not changed.
    :raises SpecError: the policy is for another framework, or the job cannot have its values.
    """
    if facts.runtime is None:
        return job
    policy = (facts.runtime.get("spec") or {}).get("mlPolicy") or {}
    _check(job, policy)
    values = {**_size(job, policy), **_processes(job, policy, steps_of(facts))}
    framework = job.framework
    if (policy.get("mpi") or {}).get("runLauncherAsNode") and "is_node" not in job.spec.mpi.model_fields_set:
        framework = replace(framework, automatic_trains=True)
    if not values and framework is job.framework:
        return job
    spec = job.spec.model_copy(update=values)
    try:
        # As in Trainer, the number of processes is in a variable, which a command need not read.
        return lay_out(spec, framework, job.node_pool_label, processes_are_read=False)
    except SpecError as error:
        hint = f"The task leaves {', '.join(values) or 'the size'} to runtime_ref {job.spec.runtime_name}."
        raise SpecError([replace(each, fix=f"{each.fix} {hint}") for each in error.problems]) from error


def _check(job: JobPlan, policy: Mapping[str, Any]) -> None:
    """Refuse a policy that is not for the job's framework, or that Trainer does not support either."""
    source = next((name for name in _FRAMEWORKS if policy.get(name) is not None), None)
    if source is not None and _FRAMEWORKS[source] != job.framework.name:
        fix = "Name another runtime, or give the job with manifest=."
        if _FRAMEWORKS[source]:
            fix = f"Set framework={_FRAMEWORKS[source]!r}, or name another runtime."
        raise _refused(job, f"a runtime for {job.framework.title}; the policy of this one is for {source}", fix)
    implementation = (policy.get("mpi") or {}).get("mpiImplementation")
    if implementation not in (None, "", _OPEN_MPI):
        allowed = f"a runtime of {_OPEN_MPI}: Trainer makes no hostfile for {implementation}"
        raise _refused(job, allowed, "Name another runtime, or give an MPIJob of the MPI Operator with manifest=.")


def _refused(job: JobPlan, allowed: str, fix: str) -> UnsupportedField:
    return UnsupportedField(BACKEND, Problem("runtime_ref", job.spec.runtime_name, allowed, fix))


def _size(job: JobPlan, policy: Mapping[str, Any]) -> dict[str, Any]:
    """The number of nodes, where the task gives none in any of the fields for it."""
    if is_sized(job.spec):
        return {}
    elastic = (policy.get("torch") or {}).get("elasticPolicy")
    if elastic:
        return {"elastic": _elastic(job, elastic, policy.get("numNodes"))}
    nodes = policy.get("numNodes")
    return {} if nodes is None else {"num_nodes": nodes}


def _elastic(job: JobPlan, given: Mapping[str, Any], nodes: int | None) -> ElasticPolicy:
    if given.get("metrics"):
        allowed = "a runtime without torch.elasticPolicy.metrics: nothing scales the job by them"
        raise _refused(job, allowed, "Set elastic or num_nodes of the job, or name another runtime.")
    least = given.get("minNodes") or 1
    most = given.get("maxNodes") or max(least, nodes or 1)
    if least > most:
        allowed = f"a runtime whose minNodes ({least}) is at most its maxNodes ({most})"
        raise _refused(job, allowed, "Set elastic of the job, or correct the runtime.")
    restarts = given.get("maxRestarts")
    bound = {} if restarts is None else {"max_restarts": restarts}
    try:
        return ElasticPolicy(min_nodes=least, max_nodes=most, **bound)
    except ValidationError:
        allowed = (
            f"a runtime whose torch.elasticPolicy has minNodes and maxNodes of 1 to {MOST_REPLICAS}, "
            f"and maxRestarts of 0 to {MOST_REPLICAS}"
        )
        raise _refused(job, allowed, "Set elastic or num_nodes of the job, or correct the runtime.") from None


def _processes(job: JobPlan, policy: Mapping[str, Any], steps: Mapping[str, Manifest]) -> dict[str, Any]:
    """The number of processes on each node, where the task gives none."""
    if "num_proc_per_node" in job.spec.model_fields_set:
        return {}
    if policy.get("torch") is not None:
        # Trainer 2.3 has no such field, and behaves as with "auto".
        return {"num_proc_per_node": _of_torch(job, policy["torch"].get("numProcPerNode", "auto"), steps)}
    if policy.get("mpi") is not None:
        number = policy["mpi"].get("numProcPerNode") or 1
        # The API server sets 1 where the runtime sets nothing, so Trainer interprets 1 as the number of GPUs.
        return {"num_proc_per_node": number if number != 1 else max(1, _devices(job, steps))}
    return {}


def _of_torch(job: JobPlan, number: int | str, steps: Mapping[str, Manifest]) -> int | str:
    """What ``auto`` and ``cpu`` mean to Trainer; to torchrun they mean all CPUs of the machine."""
    if number == "auto":
        return _devices(job, steps) or _cpus(job, steps)
    return _cpus(job, steps) if number == "cpu" else number


def _devices(job: JobPlan, steps: Mapping[str, Manifest]) -> int:
    """How many accelerators each node has."""
    own = job.nodes[0].resources
    if own and own.share:
        return 1
    asked = own.devices if own else {}
    for amounts in _resources(job, steps):
        for name, amount in amounts.items():
            if "gpu" in name.lower() or name in asked:
                return _whole(amount)
    return 0


def _cpus(job: JobPlan, steps: Mapping[str, Manifest]) -> int:
    return next((_whole(amounts["cpu"]) for amounts in _resources(job, steps) if "cpu" in amounts), 1)


def _resources(job: JobPlan, steps: Mapping[str, Manifest]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The resource requests and limits of a node's container: those of the runtime, overridden by those of the job."""
    template = merged_template(step_template(steps.get(NODE)), renamed(job.spec.pod_template or {}))
    container = deepcopy(training_container(containers_of(template), NODE))
    lay_resources({}, container, job.nodes[0].resources)
    resources = container.get("resources") or {}
    return resources.get("requests") or {}, resources.get("limits") or {}


def _whole(quantity: Any) -> int:
    """A quantity, rounded up; 1 where its notation is not supported."""
    try:
        return max(1, math.ceil(parse_quantity(str(quantity))))
    except ValueError:
        return 1
