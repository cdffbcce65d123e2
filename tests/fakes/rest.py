"""The paths, verbs, bodies and answers of the Kubernetes API, on objects in memory."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from aiohttp import web

from airflow_trainer_provider.cluster.queues.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from airflow_trainer_provider.kinds.base import (
    CONFIG_MAPS,
    EVENTS,
    INGRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    Resource,
)
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.trainer.training_runtime import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES
from airflow_trainer_provider.kinds.trainer.trainjob import JOB_SETS
from tests.fakes.node_ports import with_node_ports
from tests.fakes.objects import Key, Objects
from tests.fakes.pod_logs import PodLogs
from tests.fakes.queues import VISIBLE_QUEUES, pending_workloads
from tests.fakes.rights import Rights, verb_of
from tests.fakes.selectors import Manifest, Refused
from tests.fakes.watches import Watches

_PATH = re.compile(
    r"/(?:api|apis)/(?P<version>v1|[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<rest>[^/]+(?:/.*)?)"
)
RESOURCES: tuple[Resource, ...] = tuple(
    dict.fromkeys(
        (
            *(kind.resource for kind in KINDS.values()),
            *(child for kind in KINDS.values() for child in kind.children),
            PODS,
            SECRETS,
            CONFIG_MAPS,
            PERSISTENT_VOLUME_CLAIMS,
            INGRESSES,
            EVENTS,
            TRAINING_RUNTIMES,
            CLUSTER_TRAINING_RUNTIMES,
            JOB_SETS,
            WORKLOADS,
            LOCAL_QUEUES,
            CLUSTER_QUEUES,
            VISIBLE_QUEUES,
        )
    )
)
_CONTENT_TYPES = {
    "POST": "application/json",
    "PATCH": "application/merge-patch+json",
    "DELETE": "application/json",
}


class Rest:
    """Carries requests out.

    :param objects: what the cluster holds.
    :param missing: plurals, or plurals with their version (``mpijobs.v1``), that the cluster does not serve.
    :param namespaces: those that the cluster has.
    """

    def __init__(self, objects: Objects, missing: set[str], namespaces: set[str]) -> None:
        self.watches = Watches(objects)
        self.logs = PodLogs(objects)
        self._objects = objects
        self._missing = missing
        self._namespaces = namespaces
        #: Continue token -> the resource version of the paginated list, and its remaining items.
        self._pages: dict[str, tuple[int, list[Manifest]]] = {}
        self._tokens = itertools.count(1)

    async def carry_out(self, request: web.BaseRequest, rights: Rights) -> web.StreamResponse:
        """Do what a request asks for.

        :param rights: of the account that sent it.
        :raises Refused: the API server does not.
        """
        if found := self._discovery(request.path):
            return found
        match = _PATH.fullmatch(request.path)
        plural, _, name = match["rest"].partition("/") if match else ("", "", "")
        resource = next((each for each in RESOURCES if match and _is(each, match["version"], plural)), None)
        if match is None or resource is None or not self._serves(resource):
            return web.Response(status=404, text="404 page not found")
        if request.method not in ("GET", *_CONTENT_TYPES):
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        name, _, subresource = name.partition("/")
        _authorize(rights, request, resource, name, subresource)
        key = (plural, match["namespace"] or "", name)
        if subresource:
            return await self._subresource(request, key, subresource)
        return await self._serve(request, resource, key)

    def _discovery(self, path: str) -> web.Response | None:
        """What every account may ask: the version, and what is installed."""
        if path == "/version":
            return web.json_response({"gitVersion": "v1.34.0"})
        if path == "/readyz":
            return web.Response(text="ok")
        if path.startswith("/openapi/v3/"):
            return web.json_response({"components": {"schemas": {}}})
        version = path.removeprefix("/apis/" if path.count("/") > 2 else "/api/")
        plurals = [each.plural for each in RESOURCES if each.api_version == version and self._serves(each)]
        return web.json_response({"resources": [{"name": plural} for plural in plurals]}) if plurals else None

    def _serves(self, resource: Resource) -> bool:
        version = resource.api_version.rpartition("/")[2]
        return not self._missing & {resource.plural, f"{resource.plural}.{version}"}

    async def _subresource(self, request: web.BaseRequest, key: Key, subresource: str) -> web.StreamResponse:
        asked = (request.method, key[0], subresource)
        if asked == ("GET", "localqueues", "pendingworkloads"):
            return pending_workloads(self._objects, key, int(request.query.get("limit") or 1000))
        if asked != ("GET", "pods", "log"):
            return web.Response(status=404, text="404 page not found")
        return await self.logs.serve(request, key)

    async def _serve(self, request: web.BaseRequest, resource: Resource, key: Key) -> web.StreamResponse:
        if request.method == "GET":
            return await self._read(request, resource, key)
        body = await _body_of(request)
        if request.method == "POST":
            return self._create(request, resource, key[1], body)
        # Who may write a job may not write its status: that is a subresource.
        body.pop("status", None)
        if request.method == "PATCH":
            return web.json_response(self._objects.patch(key, body))
        return self._delete(key, body)

    def _create(self, request: web.BaseRequest, resource: Resource, namespace: str, body: Manifest) -> web.Response:
        given = f"{body.get('apiVersion')} {body.get('kind')}"
        if given != f"{resource.api_version} {resource.kind}":
            message = f"{given} in the data does not match the expected {resource.api_version} {resource.kind}"
            raise Refused(400, "BadRequest", message)
        if namespace not in self._namespaces:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        dry_run = request.query.get("dryRun") == "All"
        body.pop("status", None)
        if resource.plural == "services":
            with_node_ports(self._objects, body)
        return web.json_response(self._objects.create(resource.plural, namespace, body, dry_run=dry_run), status=201)

    def _delete(self, key: Key, options: Manifest) -> web.Response:
        wanted = options.get("preconditions") or {}
        if options.get("propagationPolicy", "Background") != "Background":
            raise Refused(501, "NotImplemented", "this fake collects garbage in the background only")
        self._objects.delete(key, wanted.get("uid"), wanted.get("resourceVersion"), options.get("gracePeriodSeconds"))
        return web.json_response({"kind": "Status", "status": "Success"})

    async def _read(self, request: web.BaseRequest, resource: Resource, key: Key) -> web.StreamResponse:
        if key[2]:
            return web.json_response(self._objects.get(key))
        if request.query.get("watch") == "true":
            return await self.watches.serve(request, key[0], key[1])
        version, items = self._listed(request.query, key)
        limit = int(request.query.get("limit") or 0) or len(items)
        metadata = {"resourceVersion": str(version)}
        if rest := items[limit:]:
            metadata["continue"] = f"page-{next(self._tokens)}"
            self._pages[metadata["continue"]] = (version, rest)
        found = [_in_list(each, resource) for each in items[:limit]]
        kind = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
        return web.json_response({**kind, "metadata": metadata, "items": found})

    def _listed(self, query: Any, key: Key) -> tuple[int, list[Manifest]]:
        """The resource version of a list, and its items: all of them, or those that remain behind a continue token."""
        if token := query.get("continue"):
            version, items = self._pages.get(token, (0, []))
            if version < max(self._objects.oldest, 1):
                raise Refused(410, "Expired", "The provided continue parameter is too old")
            return version, items
        if int(query.get("resourceVersion") or 0) > self._objects.version:
            raise Refused(504, "Timeout", f"Too large resource version: {query['resourceVersion']}")
        selectors = query.get("labelSelector", ""), query.get("fieldSelector", "")
        return self._objects.version, self._objects.find(key[0], key[1], *selectors)


def short(path: str) -> str:
    """A path from the plural on: ``jobs/train``."""
    match = _PATH.fullmatch(path)
    return match["rest"] if match else path


def _is(resource: Resource, version: str, plural: str) -> bool:
    return (resource.api_version, resource.plural) == (version, plural)


def _in_list(manifest: Manifest, resource: Resource) -> Manifest:
    """In lists, built-in kinds leave out what each object is."""
    if "." in resource.api_version:
        return manifest
    return {field: value for field, value in manifest.items() if field not in ("apiVersion", "kind")}


def _authorize(rights: Rights, request: web.BaseRequest, resource: Resource, name: str, subresource: str) -> None:
    group = resource.api_version.rpartition("/")[0]
    verb = verb_of(request.method, name, request.query.get("watch") == "true")
    what = f"{resource.plural}/{subresource}" if subresource else resource.plural
    if not rights.allow(verb, group, what):
        message = f'{what}.{group} is forbidden: User "{rights.role}" cannot {verb} resource "{what}"'
        raise Refused(403, "Forbidden", message)


async def _body_of(request: web.BaseRequest) -> Manifest:
    wanted = _CONTENT_TYPES[request.method]
    text = await request.text()
    if text and request.content_type != wanted:
        raise Refused(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: not {wanted}")
    body: Manifest = json.loads(text) if text else {}
    return body
