"""Exports policies as ValidatingAdmissionPolicies with their bindings.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.kinds.objects.labels import JOB, MANAGED_BY, PREFIX
from airflow_trainer_provider.policies.export import cel
from airflow_trainer_provider.policies.export.checks import NotExported
from airflow_trainer_provider.policies.export.expressions import expressions
from airflow_trainer_provider.policies.export.tools import is_of_tools, of_tools
from airflow_trainer_provider.policies.library import PolicyFile
from airflow_trainer_provider.policies.policy import AppliesTo, Rule, Subject, glob_pattern, wording
from airflow_trainer_provider.policies.targets import TARGETS, TOOL_TARGETS, Target
from airflow_trainer_provider.text.yaml_documents import yaml_documents

_API_VERSION = "admissionregistration.k8s.io/v1"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_WILDCARDS = re.compile(r"[*?]")
#: A policy's name is part of the names of its objects, which may have 253 characters.
_LONGEST_NAME = 180
#: An update is validated only if it changes the spec or the labels. Controllers and users can still update the status
#: and the annotations of objects that are older than the policy and violate it.
_CHANGED = (
    "request.operation == 'CREATE' || (!has(object.metadata.deletionTimestamp) && "
    "(object.spec != oldObject.spec || object.metadata.?labels != oldObject.metadata.?labels))"
)


@dataclass(frozen=True)
class Left:
    """A rule that is not exported, or not for all kinds of objects.

    :param file: of the policy.
    :param rule: its field and its requirement.
    :param why: the reason.
    :param kinds: the kinds of objects for which it is not exported; empty for all.
    """

    file: str
    rule: str
    why: str
    kinds: tuple[str, ...] = ()

    def __str__(self) -> str:
        kinds = f" for {', '.join(self.kinds)}" if self.kinds else ""
        return f"not exported{kinds}: {self.rule} (policy {self.file}): {self.why}"


@dataclass(frozen=True)
class Export:
    """The result of an export.

    :param objects: for the API server.
    :param left: the rules that are not exported.
    """

    objects: list[dict[str, Any]]
    left: list[Left]

    def text(self) -> str:
        """The objects as YAML; comments before them list the rules that are not exported."""
        comments = [f"# {each}" for each in self.left]
        documents = yaml_documents(self.objects) if self.objects else ""
        return "\n".join([*comments, documents])


def export(policies: Sequence[PolicyFile], namespace: str | None = None, *, all_jobs: bool = False) -> Export:
    """Convert policies to objects of the API server.

    :param policies: all policies.
    :param namespace: export for jobs in this namespace only; None for all namespaces.
    :param all_jobs: whether rules apply to each batch/v1 Job, not only to those with the provider's label.
    """
    objects: list[dict[str, Any]] = []
    left: list[Left] = []
    for policy in policies:
        if namespace is None or _is_for(policy, namespace):
            left += _left(policy)
            objects += _all_objects(policy, namespace, all_jobs=all_jobs)
    return Export(objects, left)


def _all_objects(policy: PolicyFile, namespace: str | None, *, all_jobs: bool) -> Iterator[dict[str, Any]]:
    for target in (*TARGETS, *TOOL_TARGETS):
        yield from _objects(policy, target, namespace, all_jobs=all_jobs)


def _is_for(policy: PolicyFile, namespace: str) -> bool:
    return AppliesTo(namespaces=policy.policy.applies_to.namespaces).matches(Subject(namespace))


def _rules(policy: PolicyFile) -> Iterator[tuple[str, Rule, str]]:
    """Each rule's text, the rule, and one of its kinds."""
    for rule in policy.policy.rules:
        for kind in rule.kinds:
            value = getattr(rule, kind)
            asked = f"default {value!r}" if kind == "default" else wording(kind, value)
            yield f"{rule.field}: {asked}", rule, kind


def _left(policy: PolicyFile) -> Iterator[Left]:
    for text, rule, kind in _rules(policy):
        kinds: dict[str, list[str]] = {}
        targets = TOOL_TARGETS if is_of_tools(rule) else TARGETS
        for target in targets:
            try:
                _expressions(policy, rule, kind, target)
            except NotExported as error:
                kinds.setdefault(str(error), []).append(_title(target))
        for why, names in kinds.items():
            is_everywhere = len(names) == len(targets)
            yield Left(str(policy.file), text, why, () if is_everywhere else tuple(names))


def _expressions(policy: PolicyFile, rule: Rule, kind: str, target: Target) -> list[str]:
    if is_of_tools(rule) != (target in TOOL_TARGETS):
        return []
    chosen_by = policy.policy.applies_to
    if chosen_by.dags or chosen_by.tags:
        raise NotExported("the policy is chosen by DAGs or tags, which an object of the cluster cannot prove")
    if chosen_by.frameworks and target.framework is None:
        raise NotExported("the policy is chosen by framework, and the object does not say which it is for")
    if chosen_by.frameworks and target.framework not in chosen_by.frameworks:
        return []
    return of_tools(rule, kind, target) if is_of_tools(rule) else expressions(rule, kind, target)


def _objects(policy: PolicyFile, target: Target, namespace: str | None, *, all_jobs: bool) -> Iterator[dict[str, Any]]:
    """The policy for one kind of objects, and its binding; nothing if no rule applies to the kind."""
    validations = [*_validations(policy, target)]
    if not validations:
        return
    resource = target.resource
    group, _, version = resource.api_version.rpartition("/")
    name = _name(policy.name, target)
    labels = {MANAGED_BY: PREFIX}
    conditions = [{"name": "changed", "expression": _CHANGED}]
    if target.only_ours and not all_jobs:
        conditions.append({"name": "training", "expression": _has_label(JOB)})
    if target.label:
        conditions.append({"name": "labelled", "expression": _has_label(target.label)})
    conditions += _of_namespaces(policy.policy.applies_to, namespace)
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource.plural],
    }
    yield {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "failurePolicy": "Fail",
            # The fields of MPIJob have different meanings in its versions.
            "matchConstraints": {"matchPolicy": "Exact", "resourceRules": [rule]},
            "matchConditions": conditions,
            "validations": validations,
        },
    }
    spec: dict[str, Any] = {"policyName": name, "validationActions": ["Deny"]}
    names = [namespace] if namespace else _plain_namespaces(policy.policy.applies_to)
    if names:
        chosen = {"key": _NAMESPACE_LABEL, "operator": "In", "values": names}
        spec["matchResources"] = {"namespaceSelector": {"matchExpressions": [chosen]}}
    yield {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def _has_label(name: str) -> str:
    return f"has(object.metadata.labels) && {cel.literal(name)} in object.metadata.labels"


def _validations(policy: PolicyFile, target: Target) -> Iterator[dict[str, str]]:
    for text, rule, kind in _rules(policy):
        try:
            found = _expressions(policy, rule, kind, target)
        except NotExported:
            continue
        for expression in found:
            message = " ".join(f"{text}. Reason: {rule.reason} (policy {policy.name})".split())
            yield {"expression": expression, "message": message, "reason": "Forbidden"}


def _plain_namespaces(chosen_by: AppliesTo) -> list[str]:
    """The namespaces by name; empty if one of them is a pattern, or if the policy applies to all namespaces."""
    has_pattern = any(_WILDCARDS.search(each) for each in chosen_by.namespaces)
    return [] if has_pattern else [*chosen_by.namespaces]


def _of_namespaces(chosen_by: AppliesTo, namespace: str | None) -> list[dict[str, str]]:
    if namespace or not chosen_by.namespaces or _plain_namespaces(chosen_by):
        return []
    names = [cel.matches("request.namespace", glob_pattern(each)) for each in chosen_by.namespaces]
    return [{"name": "namespace", "expression": cel.any_of(names)}]


def _title(target: Target) -> str:
    resource = target.resource
    return f"{resource.kind} ({resource.api_version})" if resource.kind == "MPIJob" else resource.kind


def _name(policy: str, target: Target) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", policy.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    version = f"-{target.resource.api_version.rpartition('/')[2]}" if target.resource.kind == "MPIJob" else ""
    return f"trainer-{slug}-{target.resource.plural}{version}"
