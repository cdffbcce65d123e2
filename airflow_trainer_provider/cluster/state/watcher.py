"""Everything that a cluster shows of one job, kept up to date by watches that all jobs share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.informer.store import Subscription, by_involved, by_label, by_name
from airflow_trainer_provider.cluster.informer.watch import Watch
from airflow_trainer_provider.cluster.queues.queue import Place
from airflow_trainer_provider.cluster.state.groups import job_object
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.kueue import workloads_watch
from airflow_trainer_provider.cluster.state.objects import is_rendered
from airflow_trainer_provider.cluster.state.own_pods import own_pods
from airflow_trainer_provider.cluster.state.snapshot import Snapshot, in_order, lacks_pods
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.kinds.base import EVENTS, PODS, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.events import SELECTORS, queue_of

#: How long pods may be missing or pending before events are watched, in which their controller or node may say why;
#: seconds.
_EVENTS_AFTER = 4.0
#: How long changes of pods are collected: pods are created, bound and started within moments; seconds.
_TOGETHER = 0.2
#: How long the watch may take to report an existing job, before a request reads the job once more; seconds.
_UNSEEN_SECONDS = 5.0


class JobWatcher:
    """Watches one job. Use :func:`watch_job`, and close it.

    :param cluster: where it is.
    :param job: as it was read first.
    :param read: reads the job again, and raises where it is gone.
    :param subscriptions: to the main object, the pods and the children of its kind, in this order.
    :param signal: which these subscriptions set.
    """

    # Slots save memory: each waiting job has a watcher.
    __slots__ = (
        "_all",
        "_children",
        "_cluster",
        "_events",
        "_last",
        "_main",
        "_places",
        "_pods",
        "_read",
        "_seen",
        "_signal",
        "_taken",
        "_why_at",
        "_workloads",
    )

    def __init__(
        self,
        cluster: Cluster,
        job: JobObject,
        read: Callable[[], Awaitable[JobObject]],
        subscriptions: list[Subscription],
        signal: Signal,
    ) -> None:
        self._cluster = cluster
        self._last = job
        self._read = read
        self._main, self._pods, *self._children = self._all = subscriptions
        self._signal = signal
        self._events: list[Subscription] = []
        self._workloads: dict[str, Subscription] = {}
        self._places: list[Place] = []
        self._why_at = time.monotonic() + _EVENTS_AFTER
        self._seen = self._uid in self._main.objects
        self._taken = self._versions()

    @property
    def is_gone(self) -> bool:
        """Whether the main object no longer exists."""
        return self._uid in self._main.gone or (self._seen and self._uid not in self._main.objects)

    def snapshot(self) -> Snapshot:
        """The job as it is known now."""
        newest = self._main.objects.get(self._uid) or self._main.gone.get(self._uid)
        if newest:
            self._seen = True
            self._last = self._last.at(newest)
        self._taken = self._versions()
        pods = own_pods(self._last, self._pods.objects.values())
        events = in_order(each for found in self._events for each in found.objects.values())
        workloads = [each for found in self._workloads.values() for each in found.objects.values()]
        return Snapshot(
            self._last,
            pods,
            own_pods(self._last, self._pods.gone.values()),
            self._found_children(),
            events=events,
            workloads=() if pods else workloads,
            places=() if pods else [each.value for each in self._places if each.value],
            deleted=self.is_gone,
        )

    async def changed(self) -> None:
        """Wait until something has changed since :meth:`snapshot`.

        :raises ApiError: the API server keeps refusing to list or watch.
        :raises JobLost: the job is gone.
        """
        if not self._seen:
            if not await self.wait(_UNSEEN_SECONDS):
                self._last = await self._read()
        elif self._pods.objects:
            await self._wait_with_pods()
            # The end of the job is reported at once; its pods' changes are batched.
            end = time.monotonic() + _TOGETHER
            while self._versions() == self._taken and await self.wait(end - time.monotonic()):
                pass
        elif self._events:
            await self._watch_workloads()
            await self.wait()
        elif not await self.wait(self._why_at - time.monotonic()):
            await self._ask_why()

    async def _wait_with_pods(self) -> None:
        if not lacks_pods(self._last, self._pods.objects.values()):
            self._ask_no_longer_why()
            await self.wait()
        elif self._events:
            await self.wait()
        elif not await self.wait(self._why_at - time.monotonic()):
            self._watch_events()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until something has changed, or the time is up.

        :param seconds: how long to wait; None for no limit.
        :return: False where the time is up.
        :raises ApiError: the API server keeps refusing to list or watch.
        """
        changed = await self._signal.wait(seconds)
        for each in self._all:
            each.check()
        return changed

    @property
    def _uid(self) -> str:
        return self._last.uid

    def _found_children(self) -> list[Manifest]:
        found = {uid: child for each in self._children for uid, child in each.objects.items()}
        if not self._last.kind.controller.remakes_children:
            found = {uid: child for each in self._children for uid, child in each.gone.items()} | found
        return list(found.values())

    def _versions(self) -> tuple[str, ...]:
        """The versions of the objects that show a job's end."""
        found = (*self._main.objects.values(), *self._found_children())
        return tuple(each["metadata"]["resourceVersion"] for each in found)

    async def read(self) -> JobObject:
        """The job as the API server has it now.

        :raises JobLost: the job is gone.
        """
        return await self._read()

    def close(self) -> None:
        """Stop watching the job."""
        self._ask_no_longer_why()
        for each in self._all:
            each.close()

    async def _ask_why(self) -> None:
        """Also watch the objects that show why there are no pods."""
        self._watch_events()
        await self._watch_workloads()

    def _watch_events(self) -> None:
        watches, namespace = self._cluster.watches, self._last.namespace
        found = [watches.of(EVENTS, namespace, "", by_involved, field_selector=each) for each in SELECTORS]
        self._events = [watch.subscribe(self._last.name, self._signal) for watch in found]

    async def _watch_workloads(self) -> None:
        """For each of the job's objects that is in a queue of Kueue, watch its Workload and its place in the queue."""
        for each in (self._last.main, *self._found_children()):
            uid, namespace, queue = each["metadata"]["uid"], each["metadata"]["namespace"], queue_of(each)
            if queue and uid not in self._workloads:
                watch = await workloads_watch(self._cluster, namespace)
                if watch is not None:
                    self._workloads[uid] = watch.subscribe(uid, self._signal)
                    self._places.append(self._cluster.queues.of(watch, namespace, queue).subscribe(uid, self._signal))

    def _ask_no_longer_why(self) -> None:
        self._why_at = time.monotonic() + _EVENTS_AFTER
        asked: list[Subscription | Place] = [*self._events, *self._workloads.values(), *self._places]
        for each in asked:
            each.close()
        self._events, self._workloads, self._places = [], {}, []


async def watch_job(
    cluster: Cluster,
    kind: Kind,
    namespace: str,
    name: str,
    uid: str,
    *,
    ours: bool,
    read: Callable[[], Awaitable[JobObject]],
) -> JobWatcher:
    """Watch a job, until the watcher is closed. All jobs of a kind and namespace share their watches, so that one more
    costs no request.

    :param name: of its main object.
    :param uid: of its main object.
    :param ours: whether a task of this provider created it.
    :param read: reads the job where the watch does not have it; raises
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
        seen = found.objects.get(uid)
        job = await job_object(cluster, kind, seen) if seen else await read()
        await follow(pods_watch(cluster, kind, namespace))
        for resource in kind.children:
            if is_rendered(job.main):
                await follow(watches.of(resource, namespace, labels.OURS, by_label(labels.JOB)))
            else:
                await follow(watches.of(resource, namespace, "", by_name))
    except BaseException:
        for each in subscriptions:
            each.close()
        raise
    return JobWatcher(cluster, job, read, subscriptions, signal)


def pods_watch(cluster: Cluster, kind: Kind, namespace: str) -> Watch:
    """The watch of the pods of all jobs of a kind, found by their job's name."""
    return cluster.watches.of(PODS, namespace, kind.pod_label, by_label(kind.pod_label))
