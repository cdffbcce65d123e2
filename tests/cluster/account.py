"""Service accounts with rights of their own, and kubeconfigs with their tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from tests.cluster.access import Access
from tests.cluster.paths import ROOT

#: The account of deploy/rbac.yaml whose rights are enough for all of Airflow.
WORKER = "trainer-worker"
_GROUP = "rbac.authorization.k8s.io"


def airflows_accounts(namespace: str) -> list[dict[str, Any]]:
    """The objects of deploy/rbac.yaml, as a user applies them to a namespace."""
    text = (ROOT / "deploy" / "rbac.yaml").read_text()
    text = re.sub("(namespace: |-in-)training$", rf"\g<1>{namespace}", text, flags=re.MULTILINE)
    return list(yaml.safe_load_all(text))


def without_accounts(cluster: Access, namespace: str) -> None:
    """Delete a namespace, and those objects of deploy/rbac.yaml that belong to it and to no namespace."""
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    bindings = [each for each in airflows_accounts(namespace) if each["kind"] == "ClusterRoleBinding"]
    cluster.kubectl("delete", "clusterrolebinding", *(each["metadata"]["name"] for each in bindings))


def make_worker(cluster: Access, namespace: str, *, without: str | None = None) -> None:
    """Make the account :data:`WORKER`, with its rights.

    :param namespace: of the account and its jobs.
    :param without: a verb that it may not do, or an API group that it may not reach.
    """
    documents = [each for each in airflows_accounts(namespace) if each["metadata"]["name"] == WORKER]
    for each in documents:
        if "rules" in each:
            each["rules"] = [rule for rule in each["rules"] if without not in rule["apiGroups"]]
    for rule in (rule for each in documents for rule in each.get("rules", ())):
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != without]
    cluster.kubectl.apply(documents, f"--namespace={namespace}")


def make_account(cluster: Access, namespace: str, name: str, rules: Sequence[dict[str, Any]]) -> None:
    """Make an account that may do this in its namespace, and nothing else.

    :param rules: of its Role.
    """
    metadata = {"name": name}
    binding = {
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    cluster.kubectl.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {"apiVersion": f"{_GROUP}/v1", "kind": "Role", "metadata": metadata, "rules": list(rules)},
            {"apiVersion": f"{_GROUP}/v1", "kind": "RoleBinding", "metadata": metadata, **binding},
        ],
        f"--namespace={namespace}",
    )


def who_may(cluster: Access, namespace: str, *verbs: str) -> str:
    """Make an account that may do this with ConfigMaps, and nothing else.

    :param namespace: of the account and the ConfigMaps.
    :param verbs: what it may do.
    :return: its kubeconfig.
    """
    make_account(
        cluster, namespace, "watcher", [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]
    )
    return yaml.safe_dump(with_token(cluster, token_of(cluster, namespace, "watcher")))


def token_of(cluster: Access, namespace: str, account: str, *options: str) -> str:
    """A new token of an account.

    :param options: of ``kubectl create token``.
    """
    return str(cluster.kubectl("create", "token", account, f"--namespace={namespace}", *options)).strip()


def revocable_token(cluster: Access, namespace: str, account: str, secret: str) -> str:
    """A new token of an account that lives as long as a Secret.

    :param secret: the name of the Secret, which is created.
    """
    cluster.kubectl("create", "secret", "generic", secret, f"--namespace={namespace}")
    bound = ("--bound-object-kind=Secret", f"--bound-object-name={secret}")
    return token_of(cluster, namespace, account, *bound)


def with_token(cluster: Access, token: str) -> dict[str, Any]:
    """The administrator's kubeconfig, with a token in place of the client certificate."""
    config: dict[str, Any] = yaml.safe_load(cluster.kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    return config
