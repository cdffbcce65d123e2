"""Everything that a cluster shows of one job, kept up to date by watches that all jobs share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.groups import carried_over
from airflow_trainer_provider.cluster.kueue import workloads_watch
from airflow_trainer_provider.cluster.objects import is_rendered
from airflow_trainer_provider.cluster.store import Subscription, by_involved, by_label, by_name
from airflow_trainer_provider.cluster.view import View, in_order
from airflow_trainer_provider.cluster.watch import Watch
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import EVENTS, PODS, Kind, Manifest
from airflow_trainer_provider.kinds.events import queued_by_kueue

#: While a job has no pods, its controller may have said why in an event: looked at from then on; seconds.
_EVENTS_AFTER = 4.0
#: A pod's change seldom comes alone: pods are made, bound and started within moments. Seconds.
_TOGETHER = 0.2
#: How long the watch may take to tell of a job that is there, before it is asked for once more; seconds.
_UNSEEN_SECONDS = 5.0


class LiveView:
    """The view of one job. Use :func:`live_view`, and close it.

    :param cluster: where it is.
    :param kind: of its main object.
    :param main: the main object, as it was read first.
    :param read: reads the main object anew, and raises where it is gone.
    :param subscriptions: to the main object, the pods, and what else its kind reads, in this order.
    :param signal: what these set.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        main: Manifest,
        read: Callable[[], Awaitable[Manifest]],
        subscriptions: list[Subscription],
        signal: Signal,
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._last = main
        self._read = read
        self._main, self._pods, *self._children = self._all = subscriptions
        self._signal = signal
        self._events: Subscription | None = None
        self._workloads: dict[str, Subscription] = {}
        self._why_at = time.monotonic() + _EVENTS_AFTER
        self._seen = self._uid in self._main.objects
        self._told = self._versions()

    @property
    def is_gone(self) -> bool:
        """Whether the main object is not there any more."""
        return self._uid in self._main.gone or (self._seen and self._uid not in self._main.objects)

    def view(self) -> View:
        """What is known now."""
        newest = self._main.objects.get(self._uid) or self._main.gone.get(self._uid)
        if newest:
            self._seen = True
            self._last = carried_over(self._last, newest)
        self._told = self._versions()
        pods = list(self._pods.objects.values())
        events = in_order(self._events.objects.values()) if self._events else ()
        workloads = [each for found in self._workloads.values() for each in found.objects.values()]
        return View(
            self._kind,
            self._last,
            pods,
            list(self._pods.gone.values()),
            self._found_children(),
            events=() if pods else events,
            workloads=() if pods else workloads,
            deleted=self.is_gone,
        )

    async def changed(self) -> None:
        """Wait until something has changed since :meth:`view`.

        :raises ApiError: the API server keeps refusing to tell.
        :raises JobLost: the job is gone.
        """
        if not self._seen:
            if not await self.wait(_UNSEEN_SECONDS):
                self._last = await self._read()
        elif self._pods.objects:
            self._ask_no_longer_why()
            await self.wait()
            # The end of the job is told at once; its pods' changes are told together.
            end = time.monotonic() + _TOGETHER
            while self._versions() == self._told and await self.wait(end - time.monotonic()):
                pass
        elif self._events is not None:
            await self.wait()
            await self._watch_workloads()
        elif not await self.wait(self._why_at - time.monotonic()):
            await self._ask_why()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until something has changed, or so long.

        :return: False where the time was up.
        :raises ApiError: the API server keeps refusing to tell.
        """
        changed = await self._signal.wait(seconds)
        for each in self._all:
            each.check()
        return changed

    @property
    def _uid(self) -> str:
        return str(self._last["metadata"]["uid"])

    def _found_children(self) -> list[Manifest]:
        return [child for each in self._children for child in each.objects.values()]

    def _versions(self) -> tuple[str, ...]:
        """What says whether the objects by which a job's end is told have changed."""
        found = (*self._main.objects.values(), *self._found_children())
        return tuple(each["metadata"]["resourceVersion"] for each in found)

    def close(self) -> None:
        """Follow it no longer."""
        self._ask_no_longer_why()
        for each in self._all:
            each.close()

    async def _ask_why(self) -> None:
        """Watch too what tells why there are no pods."""
        name, namespace = self._last["metadata"]["name"], self._last["metadata"]["namespace"]
        watch = self._cluster.watches.of(EVENTS, namespace, "", by_involved, field_selector="type=Warning")
        self._events = watch.subscribe(name, self._signal)
        await self._watch_workloads()

    async def _watch_workloads(self) -> None:
        """Watch the Workloads of those of the job's objects that are in a queue of Kueue."""
        for each in (self._last, *self._found_children()):
            uid = each["metadata"]["uid"]
            if queued_by_kueue(each) and uid not in self._workloads:
                watch = await workloads_watch(self._cluster, each["metadata"]["namespace"])
                if watch is not None:
                    self._workloads[uid] = watch.subscribe(uid, self._signal)

    def _ask_no_longer_why(self) -> None:
        self._why_at = time.monotonic() + _EVENTS_AFTER
        for each in (*([self._events] if self._events else ()), *self._workloads.values()):
            each.close()
        self._events, self._workloads = None, {}


async def live_view(
    cluster: Cluster,
    kind: Kind,
    namespace: str,
    name: str,
    uid: str,
    *,
    ours: bool,
    read: Callable[[], Awaitable[Manifest]],
) -> LiveView:
    """Follow a job, until the view is closed. All jobs of a kind and namespace share their watches, so that one more
    costs no request.

    :param name: of its main object.
    :param uid: of its main object.
    :param ours: whether a task of this provider made it.
    :param read: reads the main object where the watch has not seen it; raises
        :class:`~airflow_trainer_provider.errors.JobLost` where it is gone.
    """
    watches, signal = cluster.watches, Signal()
    subscriptions: list[Subscription] = []

    async def follow(watch: Watch) -> Subscription:
        subscription = watch.subscribe(name, signal)
        subscriptions.append(subscription)
        while not subscription.synced:
            await subscription.changed()
        return subscription

    try:
        found = await follow(watches.of(kind.resource, namespace, labels.OURS if ours else "", by_name))
        main = found.objects.get(uid) or await read()
        await follow(pods_watch(cluster, kind, namespace))
        for resource in kind.children:
            if is_rendered(main):
                await follow(watches.of(resource, namespace, labels.OURS, by_label(labels.JOB)))
            else:
                await follow(watches.of(resource, namespace, "", by_name))
    except BaseException:
        for each in subscriptions:
            each.close()
        raise
    return LiveView(cluster, kind, main, read, subscriptions, signal)


def pods_watch(cluster: Cluster, kind: Kind, namespace: str) -> Watch:
    """The watch of the pods of all jobs of a kind, found by their job's name."""
    return cluster.watches.of(PODS, namespace, kind.pod_label, by_label(kind.pod_label))
