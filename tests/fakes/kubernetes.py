"""One strict API server over HTTP, for races and errors that a real cluster does not produce on demand.

What talks to a cluster is tested against it, through the real client. The tests of the log readers and of the watch
also have stand-ins of the client: a storm runs in virtual time, in which no socket is read, and a kubelet that stops in
the middle of a line, or a watch that ends at a chosen event, are no answers of an API server.

A test names what the cluster holds and how some requests are answered, does one thing, and compares the requests and
what is left::

    async with FakeKubernetes() as api:
        api.answer(503, "DELETE", "/services/", times=1)
        await end(await api.cluster(), ...)
        assert api.writes == ["PATCH services/job", "DELETE services/job", "DELETE services/job"]
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.kinds.base import Resource
from tests.fakes.faults import Faults, status_answer
from tests.fakes.objects import Objects
from tests.fakes.rest import Rest, short
from tests.fakes.rights import Rights, roles
from tests.fakes.selectors import Manifest, Refused

NAMESPACE = "team"


@dataclass(frozen=True)
class Asked:
    """One request.

    :param query: its parameters.
    :param body: its JSON; None without one.
    """

    method: str
    path: str
    query: dict[str, str]
    body: Any

    def __str__(self) -> str:
        return f"{self.method} {short(self.path)}"


class FakeKubernetes(Faults):
    """An API server in memory.

    :param missing: plurals that the cluster does not serve; with a version (``mpijobs.v1``) only that one.
    :param gc_delay: how late the garbage collector comes, in seconds; None: only with :meth:`collect_garbage`.
    :param role: of deploy/rbac.yaml, whose rights the requests have.
    """

    def __init__(self, *missing: str, gc_delay: float | None = 0.0, role: str = "trainer-worker") -> None:
        super().__init__()
        self.objects = Objects(self._changed)
        #: The roles whose tokens are taken.
        self.accounts = set(roles())
        #: All requests.
        self.requests: list[Asked] = []
        #: How far its clock is ahead of this machine's, as its answers show.
        self.ahead = timedelta(0)
        #: Plurals that are not served; it may be changed.
        self.missing = set(missing)
        self._role = role
        self._rest = Rest(self.objects, self.missing, {NAMESPACE})
        self._gc_delay = gc_delay
        self._gc: asyncio.Task[None] | None = None
        self._doomed: dict[str, float] = {}

    async def __aenter__(self) -> FakeKubernetes:
        self._server = TestServer(web.Application(client_max_size=2**24))
        self._server.app.router.add_route("*", "/{path:.*}", self._handle)
        self._server.app.on_response_prepare.append(self._date)
        await self._server.start_server(access_log=None, shutdown_timeout=0.1)
        if self._gc_delay is not None:
            self._gc = asyncio.create_task(self._collect_for_ever(self._gc_delay))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._gc:
            self._gc.cancel()
        self.end_watches()
        await Cluster.close_all()
        await self._server.close()

    @contextmanager
    def in_a_thread(self) -> Iterator[FakeKubernetes]:
        """The server in a thread's event loop, for code under test that runs loops of its own.

        Garbage is collected by :meth:`collect_garbage` only: two threads must not change the objects at once.
        """
        self._gc_delay = None
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="fake API server")
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result(10)
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self.__aexit__(), loop).result(10)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return str(self._server.make_url("")).rstrip("/")

    def kubeconfig(self, role: str = "") -> str:
        """How an account reaches it.

        :param role: of the account; empty for the usual one.
        """
        return json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                "users": [{"name": "u", "user": {"token": role or self._role}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )

    def connection(self, conn_id: str = "kube", role: str = "") -> ClusterConnection:
        """The connection to it."""
        return ClusterConnection(id=conn_id, kube_config=self.kubeconfig(role), namespace=NAMESPACE)

    async def cluster(self, conn_id: str = "kube", role: str = "") -> Cluster:
        """What the provider sees of this cluster."""
        return await Cluster.of(self.connection(conn_id, role))

    @property
    def writes(self) -> list[str]:
        """The requests that change something, in order: method, plural and name."""
        return [str(request) for request in self.requests if request.method != "GET"]

    @property
    def patches(self) -> list[tuple[str, Any]]:
        """What was patched, in order: plural and name, and the patch."""
        return [(short(each.path), each.body) for each in self.requests if each.method == "PATCH"]

    @property
    def deletes(self) -> list[tuple[str, Any]]:
        """What was deleted, in order: plural and name, and the preconditions."""
        found = [each for each in self.requests if each.method == "DELETE"]
        return [(short(each.path), each.body.get("preconditions")) for each in found]

    def names(self, plural: str) -> list[str]:
        """The names of the objects of a kind that are there."""
        return [manifest["metadata"]["name"] for manifest in self.objects.find(plural, None)]

    def get(self, resource: Resource, name: str) -> Manifest:
        """A copy of an object."""
        return self.objects.get((resource.plural, NAMESPACE, name))

    def add(self, resource: Resource, name: str, **fields: Any) -> Manifest:
        """Have an object there, as something else made it."""
        metadata = {"name": name, "namespace": NAMESPACE, **fields.pop("metadata", {})}
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        return self.objects.insert(resource.plural, manifest)

    def update(self, resource: Resource, name: str, patch: Manifest) -> Manifest:
        """Have something else change an object, its status too."""
        return self.objects.patch((resource.plural, NAMESPACE, name), patch)

    def remove(self, resource: Resource, name: str) -> None:
        """Have something else delete an object."""
        self.objects.delete((resource.plural, NAMESPACE, name))

    def end_pod(self, name: str) -> None:
        """Have a pod go, as the kubelet does once its containers have ended."""
        self.objects.end_pod(("pods", NAMESPACE, name))

    def write_log(self, pod: Manifest, *texts: str, container: str | None = None) -> None:
        """Have a container of a pod write lines; None for the first."""
        self._rest.logs.write(pod["metadata"]["uid"], container or pod["spec"]["containers"][0]["name"], *texts)

    def remove_containers(self, pod: Manifest) -> None:
        """Have the kubelet remove the containers of a pod that stays, with their logs."""
        self._rest.logs.remove(pod["metadata"]["uid"])

    def rotate_log(self, pod: Manifest) -> None:
        """Have the kubelet begin a new file for the log of the first container of a pod."""
        self._rest.logs.rotate(pod["metadata"]["uid"], pod["spec"]["containers"][0]["name"])

    def collect_garbage(self) -> None:
        """Have the garbage collector do its work now."""
        self.objects.collect()

    def end_watches(self) -> None:
        """End all watches, as the API server does after minutes."""
        self._rest.watches.end()

    def cut_watches(self) -> None:
        """Break the connections of all watches."""
        self._rest.watches.cut()

    def bookmark(self) -> None:
        """Send a bookmark to each watch that asked for them."""
        self._rest.watches.bookmark()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._rest.watches.open)

    def _changed(self) -> None:
        self._rest.watches.changed()

    async def _collect_for_ever(self, delay: float) -> None:
        while True:
            now = time.monotonic()
            orphans = {self.objects.all[key]["metadata"]["uid"]: key for key in self.objects.orphans()}
            self._doomed = {uid: self._doomed.get(uid, now) for uid in orphans}
            for uid, since in self._doomed.items():
                if now - since >= delay and "deletionTimestamp" not in self.objects.all[orphans[uid]]["metadata"]:
                    self.objects.delete(orphans[uid])
            await asyncio.sleep(0.01)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.requests.append(
            Asked(request.method, request.path, dict(request.query), json.loads(text) if text else None)
        )
        return await self.apply(request, self._carry_out)

    async def _date(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = format_datetime(datetime.now(timezone.utc) + self.ahead, usegmt=True)

    async def _carry_out(self, request: web.BaseRequest) -> web.StreamResponse:
        role = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if role not in self.accounts:
            return status_answer(401, "Unauthorized", "Unauthorized")
        try:
            return await self._rest.carry_out(request, Rights(role))
        except Refused as refused:
            return status_answer(refused.code, refused.reason, refused.message)
        except Exception:
            # An error of the fake's own: a 500 would be tried again for minutes.
            return status_answer(400, "BadFake", traceback.format_exc())
