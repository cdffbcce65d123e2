"""What the Roles of deploy/rbac.yaml grant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

_RBAC = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Rights:
    """The rules of one Role, and those of the ClusterRoles for what belongs to no namespace.

    :param role: its name in deploy/rbac.yaml, such as ``trainer-worker``.
    """

    role: str

    def allow(self, verb: str, group: str, resource: str) -> bool:
        """Whether a rule grants the verb.

        :param group: the API group; empty for the core group.
        :param resource: plural, with its subresource: ``pods/log``.
        """
        return any(
            group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
            for rule in (*_ROLES[self.role], *_CLUSTER_RULES)
        )


def roles() -> list[str]:
    """The names of all Roles."""
    return list(_ROLES)


def verb_of(method: str, name: str, is_watch: bool) -> str:
    """The verb by which Kubernetes authorizes a request."""
    if method != "GET":
        return _VERBS[method]
    if name:
        return "get"
    return "watch" if is_watch else "list"


_DOCUMENTS = list(yaml.safe_load_all(_RBAC.read_text()))
_ROLES = {each["metadata"]["name"]: each["rules"] for each in _DOCUMENTS if each["kind"] == "Role"}
_CLUSTER_RULES = [rule for each in _DOCUMENTS if each["kind"] == "ClusterRole" for rule in each["rules"]]
