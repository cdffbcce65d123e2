"""Where a job's pods may run: selectors, affinity, tolerations, topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.spec import Scheduling
from airflow_trainer_provider.spec.scheduling import Toleration, Topology

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HEAVIEST = 100
#: https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
_KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
_KUEUE_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"


def place(template: Manifest, job: JobPlan, replica: Replica, own: Mapping[str, str]) -> None:
    """Add the placement of a replica's pods to their template. The template's own placement applies as well.

    :param template: the pods' template, with its metadata and spec.
    :param job: the whole job.
    :param replica: the replica, or the first of several that share the template.
    :param own: the label that all pods of the job have, and no other pods.
    :raises SpecError: it is unknown which label of a node names its pool.
    """
    scheduling, spec = replica.scheduling, template["spec"]
    if scheduling is None:
        return
    if scheduling.node_pools and not scheduling.node_pool_label:
        raise SpecError([_unlabelled(job, scheduling)])
    if scheduling.node_selector:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **scheduling.node_selector}
    _require(spec, _requirements(scheduling))
    _extend(spec, ("affinity", "nodeAffinity", _PREFERRED), _preferences(scheduling))
    _extend(spec, ("tolerations",), [_toleration(each) for each in scheduling.tolerations])
    if scheduling.priority_class:
        spec["priorityClassName"] = scheduling.priority_class
    if scheduling.scheduler_name:
        spec["schedulerName"] = scheduling.scheduler_name
    if scheduling.topology:
        _arrange(template, scheduling.topology, own, queued=job.spec.queue_name is not None)


def scheduler_of(job: JobPlan, scheduling: Scheduling | None) -> str | None:
    """The scheduler that the user names for pods, in ``scheduling`` or in ``pod_template``.

    :param job: the whole job.
    :param scheduling: of a replica, or of the job.
    """
    own = scheduling.scheduler_name if scheduling else None
    return own or ((job.spec.pod_template or {}).get("spec") or {}).get("schedulerName")


def _unlabelled(job: JobPlan, scheduling: Scheduling) -> Problem:
    pools = scheduling.node_pools
    prefix = next(path for path, part in job.spec.parts if part.scheduling and part.scheduling.node_pools == pools)
    allowed = "pools that are found by a label of their nodes, which is not known"
    fix = (
        "Set node_pool_label beside it, e.g. to cloud.google.com/gke-nodepool; or, for all jobs, "
        "[trainer] node_pool_label."
    )
    return Problem(f"{prefix}scheduling.node_pools", list(pools), allowed, fix)


def _requirements(scheduling: Scheduling) -> list[Manifest]:
    """The expressions that a node's labels have to meet."""
    pools = {"key": scheduling.node_pool_label, "operator": "In", "values": list(scheduling.node_pools)}
    others = [
        {"key": each.key, "operator": each.operator, **({"values": list(each.values)} if each.values else {})}
        for each in scheduling.node_affinity
    ]
    return [*([pools] if scheduling.node_pools else []), *others]


def _require(spec: Manifest, expressions: Sequence[Manifest]) -> None:
    if not expressions:
        return
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {}).setdefault(_REQUIRED, {})
    # A node has to match one of the terms, with all of its expressions.
    terms: Sequence[Manifest] = affinity.get("nodeSelectorTerms") or ({},)
    affinity["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*term.get("matchExpressions", ()), *expressions]} for term in terms
    ]


def _preferences(scheduling: Scheduling) -> list[Manifest]:
    """The preferred pools, with decreasing weights."""
    pools = scheduling.node_pools
    return [
        {
            "weight": _HEAVIEST - at * _HEAVIEST // len(pools),
            "preference": {
                "matchExpressions": [{"key": scheduling.node_pool_label, "operator": "In", "values": [pool]}]
            },
        }
        for at, pool in enumerate(pools)
    ]


def _toleration(given: Toleration) -> Manifest:
    entry = {
        "key": given.key,
        "operator": given.operator or ("Exists" if given.value is None else "Equal"),
        "value": given.value,
        "effect": None if given.effect == "Any" else given.effect,
        "tolerationSeconds": given.seconds,
    }
    return {name: value for name, value in entry.items() if value is not None}


def _arrange(template: Manifest, topology: Topology, own: Mapping[str, str], *, queued: bool) -> None:
    pods = {"labelSelector": {"matchLabels": dict(own)}, "topologyKey": topology.key}
    if topology.policy == "spread":
        unsatisfiable = "DoNotSchedule" if topology.required else "ScheduleAnyway"
        constraint = {"maxSkew": 1, "whenUnsatisfiable": unsatisfiable, **pods}
        _extend(template["spec"], ("topologySpreadConstraints",), [constraint])
    elif queued:
        # An affinity could contradict Kueue's own choice of nodes.
        name = _KUEUE_REQUIRED if topology.required else _KUEUE_PREFERRED
        metadata = template["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), name: topology.key}
    elif topology.required:
        _extend(template["spec"], ("affinity", "podAffinity", _REQUIRED), [pods])
    else:
        term = {"weight": _HEAVIEST, "podAffinityTerm": pods}
        _extend(template["spec"], ("affinity", "podAffinity", _PREFERRED), [term])


def _extend(value: Manifest, path: Sequence[str], items: Sequence[Manifest]) -> None:
    """Append items to a list at a path within a mapping; the path need not exist yet."""
    if not items:
        return
    *parents, name = path
    for parent in parents:
        value = value.setdefault(parent, {})
    value[name] = [*value.get(name, ()), *items]
