"""Gang scheduling: the pods of a job are placed together, or not at all.

Each pod names its group, and a scheduler that supports groups. Where the group does not exist, e.g. because the
operator was started without its flag for gang scheduling, that scheduler keeps the pods pending and reports it.

- https://github.com/kubernetes-sigs/scheduler-plugins/blob/v0.34.1-devel/pkg/coscheduling/README.md
- https://volcano.sh/en/docs/podgroup/
- https://github.com/NVIDIA/KAI-Scheduler/tree/main/pkg/podgrouper: it creates the groups itself, from the owners of the
  pods
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Manifest, Meta, Resource
from airflow_trainer_provider.kinds.objects.scheduling.placement import scheduler_of
from airflow_trainer_provider.spec.compute import parse_quantity
from airflow_trainer_provider.spec.scheduling import Gang, NetworkTopology

COSCHEDULING, VOLCANO, KAI = "coscheduling", "volcano", "kai"
#: The name that each scheduler's Helm chart gives it.
_SCHEDULER_NAMES = {COSCHEDULING: "scheduler-plugins-scheduler", VOLCANO: "volcano", KAI: "kai-scheduler"}
#: Scheduler -> the resource of its PodGroups. KAI creates its own groups.
POD_GROUPS: Mapping[str, Resource] = {
    COSCHEDULING: Resource("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups"),
    VOLCANO: Resource("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups"),
}
_COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
_VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"
#: The annotation of a JobSet from which Trainer takes the queue of the PodGroup that it creates.
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
_KAI_QUEUE_LABEL = "kai.scheduler/queue"


def lay_gang(template: Manifest, job: JobPlan, name: str) -> None:
    """Add to a pod template the group that its pods belong to, and the scheduler, unless the template names one.

    :param template: the pods' template, with its metadata and spec.
    :param job: the whole job.
    :param name: of the job, and of the group.
    """
    gang = job.spec.gang
    if gang is None:
        return
    template["spec"].setdefault("schedulerName", _SCHEDULER_NAMES[gang.scheduler])
    for container in template["spec"]["containers"]:
        _request_what_is_limited(container)
    if gang.scheduler == COSCHEDULING:
        _add(template, "labels", _COSCHEDULING_LABEL, name)
    elif gang.scheduler == VOLCANO:
        _add(template, "annotations", _VOLCANO_ANNOTATION, name)
    elif gang.queue:
        _add(template, "labels", _KAI_QUEUE_LABEL, gang.queue)


def _request_what_is_limited(container: Manifest) -> None:
    """Add the requests that Kubernetes would derive from the limits: Trainer sums up only explicit requests for the
    PodGroup, and would leave out GPUs otherwise.
    """
    resources = container.get("resources") or {}
    if resources.get("limits"):
        container["resources"] = {**resources, "requests": {**resources["limits"], **(resources.get("requests") or {})}}


def _add(template: Manifest, field: str, name: str, value: str) -> None:
    metadata = template["metadata"]
    metadata[field] = {**metadata.get(field, {}), name: value}


def check_gang(backend: str, job: JobPlan, members: int, refused: Mapping[str, str]) -> None:
    """Refuse settings of a gang that a backend does not support, and a gang that could never be complete.

    :param backend: the backend's name.
    :param job: the job.
    :param members: how many pods are created together.
    :param refused: field of the gang that the backend does not support -> the way out.
    :raises UnsupportedField: naming the field and the way out.
    """
    gang = job.spec.gang
    if gang is None:
        return
    for name, fix in refused.items():
        if getattr(gang, name) is not None:
            raise UnsupportedField(backend, Problem(f"scheduling.gang.{name}", _shown(gang, name), "no value", fix))
    if gang.min_available is not None and gang.min_available > members:
        allowed = f"at most {members}, the number of pods that are created together"
        problem = Problem("scheduling.gang.min_available", gang.min_available, allowed, "Lower it, or drop it.")
        raise UnsupportedField(backend, problem)
    _check_one_scheduler(backend, job, gang)


def _check_one_scheduler(backend: str, job: JobPlan, gang: Gang) -> None:
    """Refuse a gang whose pods several schedulers would place: each scheduler would wait for the pods of the others.

    A launcher that is created once the workers are ready is no exception. The MPI Operator gives it the gang's
    scheduler, whatever its template says, and KAI counts it among the pods that have to run.
    https://github.com/kubeflow/mpi-operator/blob/v0.7.0/pkg/controller/podgroup.go
    """
    of_job, *named = (
        scheduler_of(job, scheduling) or _SCHEDULER_NAMES[gang.scheduler]
        for scheduling in (job.spec.scheduling, *(replica.scheduling for replica in job.replicas))
    )
    if len(set(named)) == 1:
        return
    replica = next(each for each, name in zip(job.replicas, named, strict=True) if name != of_job)
    problem = Problem(
        f"{job.source(replica, 'scheduling')[0]}.scheduler_name",
        replica.scheduling.scheduler_name if replica.scheduling else None,
        f"{of_job} beside scheduling.gang, whose scheduler places all pods of the job",
        "Set scheduling.scheduler_name of the job.",
    )
    raise UnsupportedField(backend, problem)


def refuse_schedulers(backend: str, job: JobPlan, schedulers: Collection[str], allowed: str, fix: str) -> None:
    """Refuse gangs of some schedulers.

    :param backend: the backend's name.
    :param job: the job.
    :param schedulers: the refused schedulers.
    :param allowed: what would be accepted.
    :param fix: the way out.
    :raises UnsupportedField: the job's gang is of one of them.
    """
    gang = job.spec.gang
    if gang is not None and gang.scheduler in schedulers:
        raise UnsupportedField(backend, Problem("scheduling.gang.scheduler", gang.scheduler, allowed, fix))


def scheduling_policy(job: JobPlan, members: int) -> Manifest:
    """The fields for the gang in the ``runPolicy`` of kubeflow.org jobs; empty for a job without a gang.

    :param job: the job.
    :param members: how many pods are created together.
    """
    gang = job.spec.gang
    if gang is None:
        return {}
    policy = {
        "minAvailable": gang.min_available or members,
        "queue": gang.queue,
        "minResources": _resources(gang),
        "priorityClass": _priority(job),
        "scheduleTimeoutSeconds": gang.timeout_seconds,
    }
    return {"schedulingPolicy": _given(policy)}


def pod_group(job: JobPlan, meta: Meta, jobs: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """The PodGroup of a job whose pods no operator groups; none for a job without a gang.

    :param job: the job, whose pods are all created together.
    :param meta: the metadata of the job's objects.
    :param jobs: the Jobs that create the pods.
    """
    gang = job.spec.gang
    if gang is None:
        return ()
    resource = POD_GROUPS[gang.scheduler]
    least = _resources(gang) or (None if gang.min_available else _requests(jobs))
    spec: dict[str, Any] = {"minMember": gang.min_available or len(job.replicas), "minResources": least}
    if gang.scheduler == VOLCANO:
        spec |= {
            "queue": gang.queue,
            "priorityClassName": _priority(job),
            "networkTopology": network_topology(gang.network_topology),
        }
    else:
        spec["scheduleTimeoutSeconds"] = gang.timeout_seconds
    metadata = {"name": meta.name, "labels": dict(meta.labels)}
    return ({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": _given(spec)},)


def _requests(jobs: Sequence[Manifest]) -> Manifest | None:
    """The sum of the requests of all pods of some Jobs; None where it is empty, or where a request cannot be parsed.

    A scheduler that knows the sum does not repeatedly try to place a gang while there is not enough room for all of it.
    """
    total: dict[str, Decimal] = {}
    for job in jobs:
        for container in job["spec"]["template"]["spec"]["containers"]:
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                try:
                    request = parse_quantity(str(amount))
                except ValueError:
                    return None
                total[name] = total.get(name, Decimal(0)) + request * job["spec"]["completions"]
    return {name: _quantity(amount) for name, amount in total.items()} or None


def _quantity(amount: Decimal) -> str:
    return str(int(amount)) if amount == int(amount) else f"{math.ceil(amount * 1000)}m"


def network_topology(given: NetworkTopology | None) -> Manifest | None:
    """The network topology in the format of Volcano's objects.

    :param given: of a gang.
    """
    return {"mode": given.mode, "highestTierAllowed": given.highest_tier_allowed} if given else None


def _priority(job: JobPlan) -> str | None:
    return job.spec.scheduling.priority_class if job.spec.scheduling else None


def _resources(gang: Gang) -> Manifest | None:
    return dict(gang.min_resources) if gang.min_resources else None


def _given(fields: Mapping[str, Any]) -> Manifest:
    return {name: value for name, value in fields.items() if value is not None}


def _shown(gang: Gang, name: str) -> Any:
    value = getattr(gang, name)
    return value if isinstance(value, (int, str)) else "a value"
