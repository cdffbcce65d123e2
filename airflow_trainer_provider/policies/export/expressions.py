"""The requirements of a rule for the objects of a kind, as expressions."""

from __future__ import annotations

from collections.abc import Callable

from airflow_trainer_provider.policies.export import cel
from airflow_trainer_provider.policies.export.checks import NotExported, check, check_exportable, demand
from airflow_trainer_provider.policies.export.containers import in_containers
from airflow_trainer_provider.policies.export.pods import in_pods
from airflow_trainer_provider.policies.field_path import ANY, FieldPath
from airflow_trainer_provider.policies.pod_values import pod_path, rendered_path
from airflow_trainer_provider.policies.policy import Rule, complaints, is_locked_to
from airflow_trainer_provider.policies.targets import Target, replica_type


def expressions(rule: Rule, kind: str, target: Target) -> list[str]:
    """The conditions that an object has to meet.

    :param rule: the rule.
    :param kind: one of the rule's kinds, e.g. ``max``.
    :param target: the objects.
    :return: expressions; empty where there is nothing to check, e.g. because another object holds the field.
    :raises NotExported: no expression can check the rule.
    """
    path = rule.path
    check_exportable(rule, kind)
    if ".".join(path) in target.elsewhere:
        return []
    if path in target.fields:
        return [demand(rule, kind, cel.optional("object", target.fields[path]))]
    if path in _SPECIAL:
        return _SPECIAL[path](rule, kind, target)
    in_pod = rendered_path(path)
    if in_pod is not None:
        return in_pods(rule, kind, target, in_pod)
    if pod_path(path) is not None:
        raise NotExported("the pods have some that the provider adds")
    role, setting = _setting(path)
    if role is not None and setting == ("replicas",):
        return _replicas(rule, kind, target, role)
    return in_containers(rule, kind, target, role, setting)


def _setting(path: FieldPath) -> tuple[str | None, FieldPath]:
    """The role that a path applies to, None for all roles; and the path of the setting in a group."""
    if path[0] == "replicas" and len(path) > 2:
        return (None if path[1] == ANY else path[1]), path[2:]
    return None, ("resources", *path[1:]) if path[0] == "resources_per_node" else path


def _framework(rule: Rule, kind: str, target: Target) -> list[str]:
    if target.framework is None:
        raise NotExported("the object does not say which framework it is for")
    if kind == "locked":
        is_right = is_locked_to(target.framework, rule.locked)
    else:
        is_right = kind != "forbidden" and not [*complaints(rule, target.framework)]
    return [] if is_right else ["false"]


def _nodes(rule: Rule, kind: str, target: Target) -> list[str]:
    if kind == "forbidden":
        raise NotExported("each job has nodes")
    if not target.is_count_whole and kind != "max":
        if target.only_ours:
            raise NotExported("the nodes of a job may be those of several objects")
        # The runtime's number is that of the TrainJob, or a smaller one.
        return []
    if ANY in target.counts[0]:
        return [] if kind == "required" else [cel.holds_for(_sum(path), check(rule, kind)) for path in target.counts]
    return [demand(rule, kind, cel.optional("object", path)) for path in target.counts]


def _sum(path: FieldPath) -> str:
    """The number of replicas of all groups except a launcher."""
    groups = f"{cel.optional('object', path[: path.index(ANY)])}.orValue({{}})"
    return f'{groups}.map(r, r != "Launcher", int({groups}[r].?{path[-1]}.orValue(1))).sum()'


def _restarts(rule: Rule, kind: str, target: Target) -> list[str]:
    restarts = target.restarts
    if kind == "required" or restarts is None:
        raise NotExported("an object without the number has one all the same")
    missing = str(restarts.missing)
    if restarts.otherwise:
        missing = f"{cel.optional('object', restarts.otherwise)}.orValue({missing})"
    count = f"int({cel.optional('object', restarts.path)}.orValue({missing}))"
    if restarts.extra:
        count += f" - {restarts.extra}"
    if restarts.elastic:
        count += f" - int({cel.optional('object', restarts.elastic)}.orValue(0))"
    return [f"{count} == 0" if kind == "forbidden" else cel.holds_for(count, check(rule, kind))]


def _replicas(rule: Rule, kind: str, target: Target, role: str) -> list[str]:
    """The condition for the number of replicas of a role."""
    path = target.counts[0]
    if ANY not in path:
        raise NotExported("the object does not say which pods are of a role")
    if kind == "required":
        raise NotExported("a group without the number has one replica")
    group = cel.optional("object", (*path[: path.index(ANY)], replica_type(role)))
    if kind == "forbidden":
        return [f"!{group}.hasValue()"]
    return [cel.if_given(f"{group}.?replicas", check(rule, kind))]


_SPECIAL: dict[FieldPath, Callable[[Rule, str, Target], list[str]]] = {
    ("framework",): _framework,
    ("num_nodes",): _nodes,
    ("run_policy", "backoff_limit"): _restarts,
}
