"""Follows one queue for all jobs that wait in it. The number of requests does not depend on the number of jobs."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta

from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.informer.store import Subscription
from airflow_trainer_provider.cluster.informer.watch import Watch
from airflow_trainer_provider.cluster.queues.asked import Asked
from airflow_trainer_provider.cluster.queues.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, is_pending, job_uid, queue_key
from airflow_trainer_provider.cluster.queues.pace import FAR, FAR_EVERY, POSITIONS_EVERY, at_least, pace
from airflow_trainer_provider.cluster.queues.pending import PendingJobs, pending_jobs
from airflow_trainer_provider.cluster.queues.quota import quotas_of
from airflow_trainer_provider.cluster.queues.state import Position, QueueState, positions_of
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.job.queue.place import Estimate, QueuePlace
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.kinds.base import Manifest

log = logging.getLogger(__name__)

#: The interval of requests for the quota, and for the queue itself; seconds.
QUOTA_EVERY = 10.0
QUEUE_EVERY = 300.0
#: The pause after answers that cannot be read; seconds.
_UNREADABLE = 60.0
#: How long changes are collected before they are processed; seconds.
_TOGETHER = 1.0
#: How many places, and how many Workloads, are processed before the event loop runs other tasks.
_AT_ONCE = 20
_WORKLOADS_AT_ONCE = 200
#: An estimate that moves by less than this share of its range, or by less than this time, counts as unchanged.
_SAME_SHARE = 0.25
_SAME = timedelta(seconds=2)
_UNAUTHORIZED, _FORBIDDEN = 401, 403


class Place:
    """A job's place in a queue, as it is known now. Close it.

    :param signal: set when it has changed.
    :param on_close: called when it is closed.
    """

    def __init__(self, signal: Signal, on_close: Callable[[], None]) -> None:
        self._signal = signal
        self._quiet_until = 0.0
        #: The job's place; None before the first answer, and where Kueue has no Workload for the job.
        self.value: QueuePlace | None = None
        self.close = on_close

    def is_quiet(self, position: Position | None) -> bool:
        """Whether a far position may be processed later: thousands of jobs may move up by one position at a time."""
        return position is not None and position.local > FAR and time.monotonic() < self._quiet_until

    def take(self, found: QueuePlace | None) -> None:
        """Record the job's place, and notify the waiting task if it has changed."""
        found = found and _steady(self.value, found)
        if found != self.value:
            self.value = found
            # Jitter: far places are not all processed at the same time.
            far = found is not None and (found.position or 0) > FAR
            self._quiet_until = time.monotonic() + FAR_EVERY * random.uniform(0.7, 1.0) if far else 0.0
            self._signal.set()


class Queue:
    """A LocalQueue of Kueue. Get it from :meth:`Queues.of`.

    :param client: of the connection.
    :param workloads: the watch of the namespace's Workloads, which finds them by
        :func:`~airflow_trainer_provider.cluster.queues.kueue.workload_keys`.
    :param namespace: of the queue.
    :param name: of the LocalQueue.
    """

    def __init__(self, client: Client, workloads: Watch, namespace: str, name: str) -> None:
        self._client = client
        self._workloads = workloads
        self._namespace = namespace
        self._state = QueueState(name)
        self._pending = Asked(self._ask_pending, POSITIONS_EVERY)
        self._local = Asked(self._ask_local, QUEUE_EVERY)
        self._quota = Asked(self._ask_quota, QUOTA_EVERY)
        self._places: dict[Place, str] = {}
        # The Workloads that were processed, by their own uid, and by that of the object that each is for.
        self._taken: dict[str, Manifest] = {}
        self._by_job: dict[str, Manifest] = {}
        self._signal = Signal()
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, uid: str, signal: Signal) -> Place:
        """Follow a job's place, until the place is closed. Requests are sent while a job that is followed waits for
        quota.

        :param uid: of the object that carries the queue's name.
        :param signal: set at each change.
        """
        place = Place(signal, lambda: self._unsubscribe(place))
        self._places[place] = uid
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"queue {self._namespace}/{self._state.name}")
        else:
            self._signal.set()
        return place

    def _unsubscribe(self, place: Place) -> None:
        self._places.pop(place, None)
        if not self._places:
            self.stop()

    def stop(self) -> asyncio.Task[None] | None:
        """Stop following the queue.

        :return: the cancelled task; None where none ran.
        """
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def _run(self) -> None:
        """Send requests and notify the places until cancelled, whatever happens."""
        with closing(self._workloads.subscribe(queue_key(self._state.name), self._signal)) as workloads:
            while True:
                try:
                    due_in = await self._look(workloads)
                except Exception:
                    # Tasks that wait for the jobs continue, whatever Kueue has answered.
                    log.exception("The answers on queue %s cannot be read", self._state.name)
                    await asyncio.sleep(_UNREADABLE)
                    continue
                await self._signal.wait(due_in)
                await asyncio.sleep(_TOGETHER)

    async def _look(self, found: Subscription) -> float | None:
        """Send requests where a job waits, and notify the places.

        :return: seconds until the next request; None while no job waits: a Workload that begins to wait wakes the task.
        """
        workloads = await self._take_in(found)
        if any(uid in workloads and is_pending(workloads[uid]) for uid in self._places.values()):
            await self._ask()
            # Meanwhile more may have changed.
            workloads = await self._take_in(found)
        nearest = await self._notify(workloads)
        if nearest is None:
            return None
        self._pending.every = pace(nearest)
        self._quota.every = max(QUOTA_EVERY, self._pending.every)
        return min(self._pending.due_in, self._local.due_in)

    async def _take_in(self, found: Subscription) -> Mapping[str, Manifest]:
        """Process the Workloads that have changed.

        :return: all existing Workloads, by the uid of the object that each is for.
        """
        ahead = self._client.clock.ahead.total_seconds()
        gone, there = list(found.gone.values()), found.objects
        # They are processed below. Without this they would accumulate.
        found.gone.clear()
        # The watch keeps the same object until there is another version of it.
        changed = [each for uid, each in there.items() if self._taken.get(uid) is not each]
        for number, workload in enumerate(gone + changed):
            self._state.note_admission(workload, ahead)
            if number % _WORKLOADS_AT_ONCE == _WORKLOADS_AT_ONCE - 1:
                await asyncio.sleep(0)
        if self._taken.keys() - there.keys():
            # The index is created again: an object may have had two Workloads.
            self._by_job, changed = {}, list(there.values())
        self._by_job.update((uid, each) for each in changed if (uid := job_uid(each)))
        self._taken = there
        return self._by_job

    async def _ask(self) -> None:
        await self._pending.refresh()
        await self._local.refresh()
        self._state.cluster_queue = self._local.answer
        if self._local.answer is not None:
            await self._quota.refresh()
        # The last numbers are not valid for another ClusterQueue.
        self._state.quotas = quotas_of(self._quota.answer if self._local.answer is not None else None)

    async def _ask_pending(self) -> PendingJobs:
        return await pending_jobs(self._client, self._namespace, self._state.name)

    async def _ask_local(self) -> str | None:
        found = await self._client.get_once(LOCAL_QUEUES.path(self._namespace, self._state.name))
        name: str | None = found["spec"].get("clusterQueue")
        return name

    async def _ask_quota(self) -> Manifest:
        return await self._client.get_once(CLUSTER_QUEUES.cluster_path(self._local.answer or ""))

    async def _notify(self, workloads: Mapping[str, Manifest]) -> int | None:
        """Notify those whose place has changed.

        :return: the first position of the jobs that wait; None where none waits.
        """
        state = self._state
        pending = self._pending.answer or PendingJobs((), is_whole=True)
        state.positions = positions_of(pending, workloads)
        state.why_unknown = self._why_unknown()
        waiting = []
        for number, (place, uid) in enumerate(list(self._places.items())):
            workload = workloads.get(uid)
            if not place.is_quiet(state.positions.by_uid.get(uid)):
                place.take(state.place(uid, workload, time.time()) if workload else None)
            if workload and is_pending(workload):
                waiting.append(at_least(state.positions, uid))
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        return min(waiting, default=None)

    def _why_unknown(self) -> str | None:
        error = self._pending.error
        if self._pending.answer is not None:
            return None
        if error is None:
            return "Kueue has not been asked for the position yet."
        return f"The position is not known: {_said(error)}"


class Queues:
    """The queues behind one connection, in one event loop.

    :param client: of the connection.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queues: dict[tuple[str, str], Queue] = {}

    def of(self, workloads: Watch, namespace: str, name: str) -> Queue:
        """A queue. The admissions that were seen are kept, also while no job waits there.

        :param workloads: the watch of the namespace's Workloads.
        :param namespace: of the queue.
        :param name: of the LocalQueue.
        """
        if (namespace, name) not in self._queues:
            self._queues[namespace, name] = Queue(self._client, workloads, namespace, name)
        return self._queues[namespace, name]

    async def close(self) -> None:
        """Stop following all queues."""
        tasks = [task for queue in self._queues.values() if (task := queue.stop())]
        await asyncio.gather(*tasks, return_exceptions=True)


def _steady(before: QueuePlace | None, found: QueuePlace) -> QueuePlace:
    """A place, with the previous estimate where the new one is nearly the same: each change is written."""
    if before is None or before.estimate is None or found.estimate is None:
        return found
    is_same = before.position == found.position and _is_near(before.estimate, found.estimate)
    return found.model_copy(update={"estimate": before.estimate}) if is_same else found


def _is_near(before: Estimate, found: Estimate) -> bool:
    most = max(_SAME, _SAME_SHARE * (found.latest - found.earliest))
    moved = (abs(before.earliest - found.earliest), abs(before.latest - found.latest))
    return max(moved) <= most


def _said(error: ApiError) -> str:
    if error.status == _UNAUTHORIZED:
        return "the connection's credentials are refused."
    if error.status == _FORBIDDEN:
        return "the connection's account may not get localqueues/pendingworkloads in visibility.kueue.x-k8s.io."
    if error.is_not_found:
        return "there is no such queue, or Kueue's visibility API is not installed."
    return "Kueue's visibility API does not answer."
