"""Reads objects over a connection that stays open: a process of kubectl takes a tenth of a second of a processor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.shell import CommandFailed

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_NOT_FOUND = 404
_SECONDS = 180
#: All resources of the cluster in two answers.
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _Resource(NamedTuple):
    """Where objects of a kind are.

    :param prefix: of the path, up to the version.
    """

    api_version: str
    kind: str
    prefix: str
    plural: str
    is_namespaced: bool

    def path(self, namespace: str | None) -> str:
        where = f"/namespaces/{namespace}" if namespace and self.is_namespaced else ""
        return f"{self.prefix}{where}/{self.plural}"


class Reader:
    """Objects of one cluster.

    :param kubeconfig: cluster and credentials.
    """

    def __init__(self, kubeconfig: str | Path) -> None:
        self._kubeconfig = kubeconfig
        self._resources: dict[str, _Resource] = {}
        self._opened: tuple[str, ApiClient] | None = None

    def get(self, kind: str, name: str, namespace: str | None) -> dict[str, Any] | None:
        """Read one object, or None when there is none.

        :param kind: as kubectl takes it: ``pod``, ``pods``, ``jobs.batch``.
        :raises CommandFailed: the cluster does not answer, or refuses.
        """
        resource = self._resource(kind)
        default = "default" if resource.is_namespaced else None
        return self._ask(f"{resource.path(namespace or default)}/{name}")

    def list(self, kinds: str, namespace: str | None, selector: str) -> list[dict[str, Any]]:
        """Read all objects of some kinds.

        :param kinds: as kubectl takes them, with commas between them.
        :raises CommandFailed: the cluster does not answer, or refuses.
        """
        items = []
        for resource in map(self._resource, kinds.split(",")):
            found = self._ask(resource.path(namespace), {"labelSelector": selector} if selector else {})
            # A list names them once, for all of its objects.
            names = {"apiVersion": resource.api_version, "kind": resource.kind}
            items += [{**names, **item} for item in (found or {}).get("items") or ()]
        return items

    def _client(self) -> ApiClient:
        from kubernetes.config import new_client_from_config

        # A cluster that is started again has other keys.
        text = Path(self._kubeconfig).read_text()
        if self._opened is None or self._opened[0] != text:
            self._opened = text, new_client_from_config(str(self._kubeconfig))
            self._resources = {}
        return self._opened[1]

    def _resource(self, kind: str) -> _Resource:
        if kind not in self._resources:
            # Others may have been installed since.
            self._resources = self._discovered()
        if kind not in self._resources:
            raise CommandFailed(f"the cluster has no resource {kind!r}")
        return self._resources[kind]

    def _discovered(self) -> dict[str, _Resource]:
        found: dict[str, _Resource] = {}
        for root in ("/api", "/apis"):
            for group in (self._ask(root, accept=_DISCOVERY) or {})["items"]:
                # The preferred version comes first.
                for version in group["versions"]:
                    _add(found, root, group["metadata"].get("name", ""), version)
        return found

    def _ask(self, path: str, query: dict[str, str] | None = None, accept: str = "application/json") -> Any:
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            answer = self._client().call_api(
                path,
                "GET",
                query_params=list((query or {}).items()),
                header_params={"Accept": accept},
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=_SECONDS,
            )
        except ApiException as error:
            if error.status == _NOT_FOUND:
                return None
            raise CommandFailed(f"GET {path}: {error.status}: {error.body}") from error
        except HTTPError as error:
            raise CommandFailed(f"GET {path}: {error}") from error
        return json.loads(answer.data)


def _add(found: dict[str, _Resource], root: str, group: str, version: dict[str, Any]) -> None:
    """Note the resources of a version of a group, under each name that kubectl takes for them."""
    api_version = "/".join(filter(None, (group, version["version"])))
    for each in version.get("resources") or ():
        kind = each["responseKind"]["kind"]
        prefix = f"{root}/{api_version}"
        resource = _Resource(api_version, kind, prefix, each["resource"], each["scope"] == "Namespaced")
        names = (each["resource"], each.get("singularResource") or kind.lower(), *each.get("shortNames", ()))
        for name in names:
            found.setdefault(name, resource)
            if group:
                found.setdefault(f"{name}.{group}", resource)
                found.setdefault(f"{name}.{version['version']}.{group}", resource)
