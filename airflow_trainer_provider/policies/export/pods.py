"""Conditions for the pods of an object."""

from __future__ import annotations

from functools import partial

from airflow_trainer_provider.kinds.objects.labels import GROUP
from airflow_trainer_provider.policies.export import cel
from airflow_trainer_provider.policies.export.checks import NEEDED, NotExported, demand, demand_if_given
from airflow_trainer_provider.policies.field_path import ANY, FieldPath
from airflow_trainer_provider.policies.policy import Rule
from airflow_trainer_provider.policies.targets import Pods, Target, replica_type


def in_pods(rule: Rule, kind: str, target: Target, path: FieldPath) -> list[str]:
    """The conditions for a field of the pods' specs.

    :param rule: the rule.
    :param kind: one of the rule's kinds.
    :param target: the objects.
    :param path: of the field in a pod's spec; ``*`` stands for the items of a list.
    :raises NotExported: no expression can check the rule.
    """
    if kind in NEEDED and ANY in path:
        raise NotExported("there may be any number of items")
    found = []
    for pods in target.pods:
        if pods.is_whole or kind != "required":
            asked = partial(demand if pods.is_whole else demand_if_given, rule, kind)
            found.append(each_pod(pods, partial(_at, path, asked)))
    return found


def each_pod(pods: Pods, condition: cel.Condition, *, only_nodes: bool = False, role: str | None = None) -> str:
    """The condition for the spec of each pod.

    :param pods: the location of the pods' specs.
    :param condition: for an optional pod's spec.
    :param only_nodes: whether pods that do not train are exempt.
    :param role: the role whose replicas are checked, in an object whose pods are in a mapping; None for all.
    """
    spared = pods.launcher if only_nodes else None
    if pods.is_map:
        return _each_of_map(pods, condition, spared, role)
    text = cel.for_each("object", pods.path, condition, spared=spared)
    if spared is None or ANY in pods.path:
        return text
    group = f"{cel.optional('object', ('metadata', 'labels', GROUP))}.orValue({cel.literal('')})"
    return f"({group} == {cel.literal(spared)} || {text})"


def _each_of_map(pods: Pods, condition: cel.Condition, spared: str | None, role: str | None) -> str:
    at = pods.path.index(ANY)
    groups, below = cel.optional("object", pods.path[:at]), pods.path[at + 1 :]
    if role is not None:
        return condition(cel.optional(groups, (replica_type(role), *below)))
    each = condition(cel.optional(f"{groups}.orValue({{}})[r]", below))
    each = f"(r == {cel.literal(spared)} || {each})" if spared else each
    return f"{groups}.orValue({{}}).all(r, {each})"


def _at(path: FieldPath, asked: cel.Condition, pod: str) -> str:
    return cel.for_each(pod, path, asked, variable="y")
