"""Where the pods of a job may run, and how they are scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from airflow_trainer_provider.spec.compute import Quantity
from airflow_trainer_provider.spec.values.base import Count, SpecModel, Whole, wrong
from airflow_trainer_provider.spec.values.labels import LabelKey, Labels, LabelValue
from airflow_trainer_provider.spec.values.limits import MOST_INT32
from airflow_trainer_provider.spec.values.names import ObjectName, QueueName

#: A preference has a weight of 1 to 100, and each pool needs a different weight.
MOST_POOLS = 100
#: More rules than any cluster needs.
_MOST_RULES = 100
_LISTED = ("In", "NotIn")
_COMPARED = ("Gt", "Lt")
#: Field of a gang -> the schedulers that support it.
_OF_SCHEDULERS = {
    "timeout_seconds": ("coscheduling",),
    "queue": ("volcano", "kai"),
    "min_resources": ("coscheduling", "volcano"),
    "network_topology": ("volcano",),
}


class Toleration(SpecModel):
    """Lets the pods run on nodes with a taint.

    :param key: the taint's key; None, with the operator ``Exists``, tolerates all taints.
    :param operator: ``Equal`` compares the value as well, ``Exists`` accepts any value. None means ``Equal`` if
        ``value`` is set, and ``Exists`` otherwise.
    :param value: the taint's value, for ``Equal``.
    :param effect: ``NoSchedule``, ``PreferNoSchedule`` or ``NoExecute``; ``Any`` and None mean all effects.
    :param seconds: with ``NoExecute``, how many seconds a pod may stay on a node that gets the taint; None for ever.
    """

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", "Any"] | None = None
    seconds: Annotated[Whole, Field(ge=0, le=MOST_INT32)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Toleration:
        if self.operator == "Exists" and self.value is not None:
            raise wrong("no value beside operator Exists", "Drop value, or set operator to Equal.", "value", self.value)
        if self.operator == "Equal" and self.value is None:
            raise wrong("a value beside operator Equal", "Set value, or operator to Exists.", "value", None)
        if self.key is None and self.value is not None:
            raise wrong("the taint's key beside its value", "Set key.", "key", None)
        if self.key is None and self.operator is None:
            fix = "Set key; or operator to Exists, to tolerate all taints."
            raise wrong("the taint's key, or operator Exists", fix, "key", None)
        if self.seconds is not None and self.effect != "NoExecute":
            fix = "Set effect to NoExecute, the only one that ends running pods, or drop seconds."
            raise wrong("no value, unless effect is NoExecute", fix, "seconds", self.seconds)
        return self


class NodeRequirement(SpecModel):
    """A requirement for a node's labels. A node has to meet all requirements of a job.

    :param key: the label's key.
    :param operator: ``In`` and ``NotIn`` compare the label with the values, ``Gt`` and ``Lt`` with one number;
        ``Exists`` and ``DoesNotExist`` take no value.
    :param values: the values to compare with.
    """

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    values: Annotated[tuple[LabelValue, ...], Field(max_length=_MOST_RULES)] = ()

    @model_validator(mode="after")
    def _fits(self) -> NodeRequirement:
        count = len(self.values)
        if self.operator in _LISTED and not count:
            raise wrong(f"at least one value beside operator {self.operator}", "Set values.", "values", [])
        if self.operator in _COMPARED and not (count == 1 and self.values[0].isdecimal()):
            allowed = f"one whole number beside operator {self.operator}"
            raise wrong(allowed, "Set values to a list of one number.", "values", list(self.values))
        if self.operator not in (*_LISTED, *_COMPARED) and count:
            allowed = f"no values beside operator {self.operator}"
            raise wrong(allowed, "Drop values, or set operator to In or NotIn.", "values", list(self.values))
        return self


class Topology(SpecModel):
    """How the pods of a job are distributed over the domains of a cluster: its zones, racks or nodes.

    :param key: the node label whose value names the domain, e.g. ``topology.kubernetes.io/zone``.
    :param policy: ``pack`` puts all pods into one domain, ``spread`` distributes them evenly.
    :param required: whether a pod waits if that is not possible; otherwise the policy is a preference.
    """

    key: LabelKey
    policy: Literal["pack", "spread"] = "pack"
    required: bool = False


class Scheduling(SpecModel):
    """Where the pods of a job may run.

    :param node_selector: labels that a node has to have.
    :param node_pools: the pools that a node may belong to, in order of preference.
    :param node_pool_label: the node label whose value is the name of the node's pool; None uses
        ``[trainer] node_pool_label``.
    :param node_affinity: further requirements for the labels of a node.
    :param tolerations: the taints that a node may have.
    :param topology: whether the pods are packed together or spread out.
    :param priority_class: the PriorityClass of the pods. It determines which pending pods are scheduled first, and
        which running pods they may preempt.
    :param scheduler_name: the scheduler that places the pods; None uses the cluster's default.
    """

    node_selector: Labels = Field(default_factory=dict)
    node_pools: Annotated[tuple[LabelValue, ...], Field(max_length=MOST_POOLS)] = ()
    node_pool_label: LabelKey | None = None
    node_affinity: Annotated[tuple[NodeRequirement, ...], Field(max_length=_MOST_RULES)] = ()
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=_MOST_RULES)] = ()
    topology: Topology | None = None
    priority_class: ObjectName | None = None
    scheduler_name: ObjectName | None = None

    @model_validator(mode="after")
    def _pools_once(self) -> Scheduling:
        twice = next((pool for at, pool in enumerate(self.node_pools) if pool in self.node_pools[:at]), None)
        if twice is not None:
            raise wrong("each pool once", f"Drop one {twice!r}.", "node_pools", twice)
        return self


class NetworkTopology(SpecModel):
    """How far apart in the network Volcano may place the pods of a gang.

    :param mode: with ``hard`` the pods wait if the limit cannot be met; ``soft`` makes the limit a preference.
    :param highest_tier_allowed: the highest tier of HyperNodes that the pods may be spread over.
    """

    mode: Literal["hard", "soft"] = "hard"
    highest_tier_allowed: Count = 1


class Gang(SpecModel):
    """Gang scheduling: all pods of a job are placed together, or none of them. A scheduler's name is the short form.

    :param scheduler: ``coscheduling`` of the Kubernetes scheduler-plugins, ``volcano``, or ``kai``.
    :param min_available: how many pods must fit before any pod is placed; None means all pods that are created
        together.
    :param timeout_seconds: how long pods that fit wait for the others; ``coscheduling`` only.
    :param queue: the queue of ``volcano`` or ``kai`` that the job belongs to.
    :param min_resources: the resources that must be free before any pod is placed, e.g. ``{"nvidia.com/gpu": 8}``;
        ``coscheduling`` and ``volcano`` only. None means the sum of the pods' requests.
    :param network_topology: how far apart in the network the pods may be; ``volcano`` only.
    """

    scheduler: Literal["coscheduling", "volcano", "kai"]
    min_available: Count | None = None
    timeout_seconds: Annotated[Whole, Field(ge=1, le=MOST_INT32)] | None = None
    queue: QueueName | None = None
    min_resources: Annotated[Mapping[LabelKey, Quantity], Field(max_length=_MOST_RULES)] | None = None
    network_topology: NetworkTopology | None = None

    @model_validator(mode="after")
    def _fits(self) -> Gang:
        for name, schedulers in _OF_SCHEDULERS.items():
            value = getattr(self, name)
            if value is not None and self.scheduler not in schedulers:
                allowed = f"no value beside scheduler {self.scheduler}"
                fix = f"Drop {name}; only {' and '.join(schedulers)} has it."
                raise wrong(allowed, fix, name, value if isinstance(value, (int, str)) else "a value")
        return self


def _gang_of(value: Any) -> Any:
    """Turn a scheduler's name, the short form of a gang, into the mapping."""
    return {"scheduler": value} if isinstance(value, str) else value


class JobScheduling(Scheduling):
    """Where the pods of a job may run, and which queue and gang scheduler handle the job as a whole.

    :param queue_name: the Kueue LocalQueue that admits the job.
    :param gang: gang scheduling: all pods of the job are placed together, or none of them.
    """

    queue_name: QueueName | None = None
    gang: Annotated[Gang, BeforeValidator(_gang_of)] | None = None

    @property
    def of_pods(self) -> Scheduling | None:
        """The settings that apply to each pod, over which a group's are merged; None if none of them is set."""
        given = {name: getattr(self, name) for name in Scheduling.model_fields if name in self.model_fields_set}
        return Scheduling.model_construct(**given) if given else None


#: Fields of ``scheduling`` that no group of replicas has.
OF_JOB = JobScheduling.model_fields.keys() - Scheduling.model_fields.keys()
