"""Conditions for the containers in the pods of an object."""

from __future__ import annotations

from collections.abc import Callable

from airflow_trainer_provider.policies.export import cel
from airflow_trainer_provider.policies.export.checks import (
    NEEDED,
    TRAINING_ONLY,
    NotExported,
    check,
    demand,
    demand_if_given,
)
from airflow_trainer_provider.policies.export.pods import each_pod
from airflow_trainer_provider.policies.field_path import ANY, FieldPath
from airflow_trainer_provider.policies.pod_values import CONTAINER_FIELDS, resource_path
from airflow_trainer_provider.policies.policy import Rule
from airflow_trainer_provider.policies.targets import Target

_SIDES = ("requests", "limits")
#: Resources that have a request and a limit.
_AMOUNTS = frozenset({"cpu", "memory"})
#: Settings that a container does not hold in the spec's form: its command begins with a launcher's words.
_OTHER_WORDS = frozenset({"command", "args"})
#: (container, name of its field for resources, whether a value is needed) -> the condition.
_Asked = Callable[[str, str, bool], str]


def in_containers(rule: Rule, kind: str, target: Target, role: str | None, path: FieldPath) -> list[str]:
    """The conditions for a setting of the containers.

    :param rule: the rule.
    :param kind: one of the rule's kinds.
    :param target: the objects.
    :param role: of the replicas; None for all.
    :param path: of the setting in a group, e.g. ``("resources", "gpu")``.
    :raises NotExported: no expression can check the rule.
    """
    if role is not None and not any(pods.is_map for pods in target.pods):
        raise NotExported("the object does not say which pods are of a role")
    asked = _asked(rule, kind, path)
    only_nodes = path[0] == "resources" and kind in (NEEDED | TRAINING_ONLY)
    found = []
    for pods in target.pods:
        if pods.is_whole or kind not in TRAINING_ONLY:
            of_pod = _of_training(kind, asked, target.container) if pods.is_whole else _of_all(asked)
            found.append(each_pod(pods, of_pod, only_nodes=only_nodes, role=role))
    if target.trainer and kind != "required":
        found.append(asked(cel.optional("object", target.trainer), "resourcesPerNode", False))
    return found


def _of_all(asked: _Asked) -> cel.Condition:
    """The condition for all containers of a pod."""
    each = asked("c", "resources", False)
    return lambda pod: f'["containers", "initContainers"].all(f, {pod}[?f].orValue([]).all(c, {each}))'


def _of_training(kind: str, asked: _Asked, name: str | None) -> cel.Condition:
    """The condition for a pod that may have sidecars in addition to the training's container.

    :param name: of the training's container; None for the first.
    """
    needed = kind in NEEDED

    def condition(pod: str) -> str:
        containers = f"{pod}.?containers.orValue([])"
        conditions = [] if kind in TRAINING_ONLY else [_of_all(asked)(pod)]
        if not (needed or kind in TRAINING_ONLY):
            return cel.all_of(conditions)
        if name is None:
            first = asked(f"{containers}[0]", "resources", needed)
            conditions.append(f"({containers}.size() > 0 && {first})")
        else:
            each = asked("c", "resources", needed)
            conditions.append(f"{containers}.filter(c, c.name == {cel.literal(name)}).all(c, {each})")
        return cel.all_of(conditions)

    return condition


def _asked(rule: Rule, kind: str, path: FieldPath) -> _Asked:
    """The requirement of a rule for one container."""
    if len(path) == 1 and path[0] in CONTAINER_FIELDS.keys() - _OTHER_WORDS:
        field = CONTAINER_FIELDS[path[0]]
        return lambda container, _, needed: _value(rule, kind, cel.optional(container, (field,)), needed)
    if path[0] == "env" and len(path) == 2 and path[1] != ANY:
        return lambda container, _, needed: _variable(rule, kind, container, path[1], needed)
    below = resource_path(path[1:])
    if path[0] == "resources" and _is_resource(below):
        return lambda container, field, needed: _resource(rule, kind, cel.optional(container, (field,)), below, needed)
    raise NotExported("no object has a field for it")


def _is_resource(path: FieldPath) -> bool:
    """Whether a path names a resource as a container names it, or its request or limit."""
    is_side = len(path) == 1 or (len(path) == 2 and path[1] in _SIDES)
    return is_side and (path[0] in _AMOUNTS or "/" in path[0])


def _value(rule: Rule, kind: str, value: str, needed: bool) -> str:
    return demand(rule, kind, value) if needed else demand_if_given(rule, kind, value)


def _resource(rule: Rule, kind: str, resources: str, path: FieldPath, needed: bool) -> str:
    """The condition for a request and a limit: each one that is given is right, and at least one is given if a value is
    needed.
    """
    values = [cel.optional(resources, (side, path[0])) for side in path[1:] or _SIDES]
    conditions = [] if kind == "required" else [demand_if_given(rule, kind, value) for value in values]
    if needed:
        conditions.append(cel.any_of([f"{value}.hasValue()" for value in values]))
    return cel.all_of(conditions)


def _variable(rule: Rule, kind: str, container: str, name: str, needed: bool) -> str:
    entries = f"{cel.optional(container, ('env',))}.orValue([]).filter(e, e.name == {cel.literal(name)})"
    if kind == "forbidden":
        return f"{entries}.size() == 0"
    conditions = [f"{entries}.size() > 0"] if needed else []
    if kind != "required":
        conditions.append(f"{entries}.all(e, has(e.value) && {check(rule, kind)('e.value')})")
    return cel.all_of(conditions)
