"""Conditions for the Services and Ingresses of a job's tools."""

from __future__ import annotations

import re

from airflow_trainer_provider.kinds.base import INGRESSES, SERVICES
from airflow_trainer_provider.kinds.objects.labels import TOOL
from airflow_trainer_provider.policies.export import cel
from airflow_trainer_provider.policies.export.checks import NEEDED, NotExported, check_exportable, demand
from airflow_trainer_provider.policies.field_path import ANY, FieldPath
from airflow_trainer_provider.policies.policy import Rule, complaints, is_locked_to
from airflow_trainer_provider.policies.targets import Target

_FIELD = "tools"
#: Kind of the objects -> field of a tool -> the paths at which the objects hold it.
_PATHS: dict[str, dict[str, tuple[FieldPath, ...]]] = {
    SERVICES.kind: {"port": (("spec", "ports", ANY, "port"), ("spec", "ports", ANY, "targetPort"))},
    INGRESSES.kind: {
        "host": (("spec", "rules", ANY, "host"),),
        "path": (("spec", "rules", ANY, "http", "paths", ANY, "path"),),
        "ingress_class": (("spec", "ingressClassName"),),
        "tls_secret": (("spec", "tls", ANY, "secretName"),),
    },
}
#: Access of a tool -> the type of its Service. The Service behind an Ingress or a URL is reached inside the cluster.
_TYPES = {"cluster": "ClusterIP", "node_port": "NodePort", "ingress": "ClusterIP", "url": "ClusterIP"}
_INGRESS = "ingress"
#: The placeholders in a spec for the job's name and namespace, also with the escapes of a pattern.
_PLACES = re.compile(r"\{(?:job|namespace)\\?\}")


def is_of_tools(rule: Rule) -> bool:
    """Whether a rule is about the tools of jobs."""
    return rule.path[0] == _FIELD


def of_tools(rule: Rule, kind: str, target: Target) -> list[str]:
    """The conditions that the Service, or the Ingress, of a tool has to meet.

    :param rule: a rule about tools.
    :param kind: one of the rule's kinds.
    :param target: Services or Ingresses.
    :return: expressions; empty where there is nothing to check, because the other kind of objects holds the field.
    :raises NotExported: no expression can check the rule.
    """
    check_exportable(rule, kind)
    name, setting = rule.path[1:2], rule.path[2:]
    if not setting:
        found = _whole(kind, target)
    elif setting == ("access",):
        found = _access(rule, kind, target)
    else:
        found = _field(rule, kind, target, setting)
    if name in ((), (ANY,)):
        return found
    other = f"object.metadata.labels[{cel.literal(TOOL)}] != {cel.literal(name[0])}"
    return [f"({other} || {each})" for each in found]


def _whole(kind: str, target: Target) -> list[str]:
    if kind != "forbidden":
        raise NotExported("no object holds all tools")
    return ["false"] if target.resource == SERVICES else []


def _access(rule: Rule, kind: str, target: Target) -> list[str]:
    if kind in ("required", "forbidden"):
        raise NotExported("each tool has one")
    if kind == "locked":
        allowed = [access for access in _TYPES if is_locked_to(access, rule.locked)]
    else:
        allowed = [access for access in _TYPES if not [*complaints(rule, access)]]
    if target.resource == INGRESSES:
        return [] if _INGRESS in allowed else ["false"]
    types = [*dict.fromkeys(_TYPES[access] for access in allowed)]
    return [f'object.spec.?type.orValue("ClusterIP") in {cel.literal(types)}']


def _field(rule: Rule, kind: str, target: Target, setting: FieldPath) -> list[str]:
    if setting == ("node_port",):
        raise NotExported("the cluster may have chosen the port")
    if not any(setting[0] in fields for fields in _PATHS.values()) or len(setting) > 1:
        raise NotExported("no object has a field for it")
    paths = _PATHS[target.resource.kind].get(setting[0], ())
    if kind in NEEDED and (not paths or ANY in paths[0]):
        raise NotExported("not each tool has an object with the field")
    if _has_places(rule):
        raise NotExported("the objects hold the job's name and namespace in their places")
    return [cel.for_each("object", path, lambda value: demand(rule, kind, value)) for path in paths]


def _has_places(rule: Rule) -> bool:
    texts = (rule.pattern, rule.locked, *(rule.allowed or ()))
    return any(isinstance(text, str) and _PLACES.search(text) for text in texts)
