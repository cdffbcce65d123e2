"""Everything that a cluster shows of one job: read once, or kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.groups import carried_over
from airflow_trainer_provider.cluster.kueue import workloads_of
from airflow_trainer_provider.cluster.objects import annotation, groups_of, is_ours, is_rendered
from airflow_trainer_provider.cluster.watch import Subscription, by_label, by_name
from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import EVENTS, PODS, Kind, Manifest
from airflow_trainer_provider.kinds.standing import job_status


@dataclass(frozen=True)
class View:
    """What was seen of a job.

    :param kind: of its main object.
    :param main: its main object.
    :param pods: those that are there.
    :param gone: the last version of those that were there.
    :param children: the objects by which the main one's kind tells how it stands.
    :param events: of the job's objects, the oldest first; asked for only while there are no pods.
    :param workloads: those by which Kueue decides when the job runs; asked for only while there are no pods.
    :param deleted: whether the main object is gone.
    """

    kind: Kind
    main: Manifest
    pods: Sequence[Manifest] = ()
    gone: Sequence[Manifest] = ()
    children: Sequence[Manifest] = ()
    events: Sequence[Manifest] = ()
    workloads: Sequence[Manifest] = ()
    deleted: bool = False

    @classmethod
    async def read(cls, cluster: Cluster, kind: Kind, main: Manifest) -> View:
        """Ask the cluster for it.

        :param main: the job's main object.
        """
        namespace, name = main["metadata"]["namespace"], main["metadata"]["name"]
        pods = await cluster.client.list(PODS, namespace, label_selector=f"{kind.pod_label}={name}")
        # What others made does not carry our labels; it has the job's own name.
        selector = {"label_selector": f"{labels.JOB}={name}"}
        if not is_rendered(main):
            selector = {"field_selector": f"metadata.name={name}"}
        children = [
            child
            for resource in kind.children
            for child in (await cluster.client.list(resource, namespace, **selector)).items
        ]
        view = cls(kind, main, pods.items, children=children)
        return view if pods.items else replace(view, **await why_no_pods(cluster, main, children))

    def status(self) -> JobStatus:
        """How the job stands."""
        status = job_status(
            self.kind,
            self.main,
            self.pods,
            groups=groups_of(self.kind, self.main),
            ranked=annotation(self.main, labels.RANKED) is not None,
            gone=self.gone,
            children=[*self.children, *self.workloads],
            events=self.events,
            deleted=self.deleted,
        )
        return status.model_copy(update={"progress": self.kind.progress(self.main)}) if self.kind.progress else status

    def pods_of(self, replica: str) -> list[Manifest]:
        """A replica's pods, the newest last; those that are gone before those that are there."""
        found = [pod for pod in (*self.gone, *self.pods) if self.replica_of(pod) == replica]
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def replica_of(self, pod: Manifest) -> str | None:
        """The name of the replica that a pod is; None where it is none."""
        place = self.kind.place(pod, self.main)
        return f"{place[0]}-{place[1]}" if place else None


class LiveView:
    """The view of one job, kept up to date by the cluster's shared watches.

    :param kind: of its main object.
    :param main: the main object, as it was read first.
    """

    def __init__(self, kind: Kind, main: Manifest, subscriptions: Sequence[Subscription]) -> None:
        self._kind = kind
        self._last = main
        self._main, self._pods, *self._children = subscriptions
        self._all = subscriptions

    @property
    def pods(self) -> Subscription:
        """The job's pods."""
        return self._pods

    @property
    def is_gone(self) -> bool:
        """Whether the main object is not there any more."""
        return self._main.synced and self._last["metadata"]["uid"] not in self._main.objects

    def view(self) -> View:
        """What is known now."""
        uid = self._last["metadata"]["uid"]
        newest = self._main.objects.get(uid) or self._main.gone.get(uid) or self._last
        self._last = carried_over(self._last, newest)
        return View(
            self._kind,
            self._last,
            list(self._pods.objects.values()),
            list(self._pods.gone.values()),
            [child for each in self._children for child in each.objects.values()],
            deleted=self.is_gone,
        )

    async def changed(self, seconds: float | None = None) -> None:
        """Wait until something has changed, or so long."""
        waits = [asyncio.ensure_future(each.changed()) for each in self._all]
        try:
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def synced(self) -> None:
        """Wait until all has been listed once."""
        while not all(each.synced for each in self._all):
            await self.changed()


@asynccontextmanager
async def live_view(cluster: Cluster, kind: Kind, main: Manifest) -> AsyncIterator[LiveView]:
    """Follow a job. All jobs of a kind and namespace share their watches.

    :param main: its main object.
    """
    namespace, name = main["metadata"]["namespace"], main["metadata"]["name"]
    selector = labels.OURS if is_ours(main) else ""
    watches = cluster.watches
    async with AsyncExitStack() as stack:
        subscribed = [
            await stack.enter_async_context(watches.of(kind.resource, namespace, selector, by_name).subscribe(name)),
            await stack.enter_async_context(watch_pods(cluster, kind, main)),
        ]
        for resource in kind.children:
            watch = (
                watches.of(resource, namespace, labels.OURS, by_label(labels.JOB))
                if is_rendered(main)
                else watches.of(resource, namespace, "", by_name)
            )
            subscribed.append(await stack.enter_async_context(watch.subscribe(name)))
        live = LiveView(kind, main, subscribed)
        await live.synced()
        yield live


def watch_pods(cluster: Cluster, kind: Kind, main: Manifest) -> AbstractAsyncContextManager[Subscription]:
    """Follow a job's pods. All jobs of a kind and namespace share the watch.

    :param main: the job's main object.
    """
    watch = cluster.watches.of(PODS, main["metadata"]["namespace"], kind.pod_label, by_label(kind.pod_label))
    return watch.subscribe(main["metadata"]["name"])


async def why_no_pods(cluster: Cluster, main: Manifest, children: Sequence[Manifest]) -> dict[str, Any]:
    """What says why a job has no pods: the events of all its objects, for controllers say nowhere else what they could
    not create, and its Kueue Workloads.

    :return: fields of a :class:`View`.
    """
    workloads = await workloads_of(cluster, [main, *children])
    return {"events": await warnings_of(cluster, main), "workloads": workloads}


async def warnings_of(cluster: Cluster, main: Manifest) -> list[Manifest]:
    """The warnings about a job's objects, the oldest first.

    :param main: the job's main object.
    """
    name, namespace = main["metadata"]["name"], main["metadata"]["namespace"]
    warnings = await cluster.client.list(EVENTS, namespace, field_selector="type=Warning")
    # What controllers make for a job, they call by the job's name and something behind it.
    events = [each for each in warnings.items if f"{each['involvedObject'].get('name')}-".startswith(f"{name}-")]
    return sorted(events, key=_event_time)


def lost(main: Manifest) -> JobLost:
    """The error for a job that somebody deleted."""
    kind, name, namespace = main["kind"], main["metadata"]["name"], main["metadata"]["namespace"]
    return JobLost(
        f"Training job {name} is gone: somebody deleted its {kind} in namespace {namespace}, or the namespace itself. "
        "How it would have ended is not known."
    )


def was_cancelled(main: Manifest) -> bool:
    """Whether a task wanted the job to end."""
    return annotation(main, labels.CANCELLED) is not None


def _event_time(event: Manifest) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
