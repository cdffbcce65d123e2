"""The test cluster as the benchmarks use it: a namespace of their own, and an account whose requests are counted.

The API server counts the requests of each flow schema. One that matches the measured account alone gives the exact
number of its requests; those of the cluster's own components are none of them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.access import Access, Unavailable, connect
from tests.cluster.cluster import Cluster, down
from tests.cluster.preflight import missing
from tests.cluster.profiles import DEFAULT, PROFILES

#: Of the connection in the environment of a measured process.
CONN_ID = "kubernetes_default"
_ACCOUNT = "measured"


@contextmanager
def running_cluster() -> Iterator[None]:
    """Have a test cluster. One that is up is used and kept; else one is started, and ended at the end.

    :raises Unavailable: this machine lacks what a cluster needs.
    """
    try:
        connect()
    except Unavailable:
        if problems := missing():
            raise Unavailable(f"This machine lacks: {'; '.join(problems)}") from None
    else:
        yield
        return
    Cluster().up(PROFILES[DEFAULT])
    try:
        yield
    finally:
        down()


@dataclass(frozen=True)
class Bench:
    """A namespace in the cluster.

    :param access: the cluster, as its administrator.
    :param namespace: the namespace's name.
    :param flow: the flow schema that counts the requests of the measured account.
    :param kubeconfig: of the measured account, as JSON.
    """

    access: Access
    namespace: str
    flow: str
    kubeconfig: str

    @property
    def admin_kubeconfig(self) -> str:
        """Of the administrator, who prepares what is measured."""
        return Path(self.access.kubectl.kubeconfig).read_text()

    @property
    def connection(self) -> dict[str, str]:
        """The environment variable by which Airflow code in a process finds the cluster as the measured account."""
        extra = {"kube_config": self.kubeconfig, "namespace": self.namespace}
        value = json.dumps({"conn_type": "kubernetes", "extra": extra})
        return {f"AIRFLOW_CONN_{CONN_ID.upper()}": value}


@contextmanager
def bench_namespace() -> Iterator[Bench]:
    """A namespace with an account in it that may do anything there; both are gone afterwards."""
    access = connect()
    kubectl, name = access.kubectl, f"trainer-test-bench-{uuid.uuid4().hex[:6]}"
    kubectl.apply([_NAMESPACE | {"metadata": {"name": name}}])
    try:
        kubectl.apply(_account(name))
        token = kubectl("create", "token", _ACCOUNT, f"--namespace={name}", "--duration=2h").strip()
        yield Bench(access, name, name, json.dumps(_kubeconfig(Path(kubectl.kubeconfig), token)))
    finally:
        kubectl("delete", f"flowschema/{name}", f"clusterrolebinding/{name}", "--ignore-not-found")
        kubectl("delete", "namespace", name, "--wait=false")


_NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}


def _account(name: str) -> list[dict[str, Any]]:
    subject = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": name}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    anywhere = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT, "namespace": name}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [subject],
        },
        {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": name},
            "spec": {
                # No client is throttled: the clients are measured.
                "priorityLevelConfiguration": {"name": "exempt"},
                "matchingPrecedence": 50,
                "rules": [
                    {
                        "subjects": [
                            {
                                "kind": "ServiceAccount",
                                "serviceAccount": {"name": _ACCOUNT, "namespace": name},
                            }
                        ],
                        "resourceRules": [everything],
                        "nonResourceRules": [anywhere],
                    }
                ],
            },
        },
    ]


def _kubeconfig(admin: Path, token: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(admin.read_text())
    cluster = config["clusters"][0]["name"]
    return {
        **config,
        "users": [{"name": "measured", "user": {"token": token}}],
        "contexts": [{"name": "measured", "context": {"cluster": cluster, "user": "measured"}}],
        "current-context": "measured",
    }
