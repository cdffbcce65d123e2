"""All lines of all replicas of a job, as they are written."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from airflow_trainer_provider.cluster.informer.store import Subscription
from airflow_trainer_provider.cluster.logs import read_deadline
from airflow_trainer_provider.cluster.logs.budget import LogBudget
from airflow_trainer_provider.cluster.logs.container_log import ContainerLog, Pod
from airflow_trainer_provider.cluster.logs.cursor import Deduplicator, LogCursor, split_time
from airflow_trainer_provider.cluster.logs.pace import Pace
from airflow_trainer_provider.cluster.logs.replay import Replayed
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.functions.frames import MOST_LINES, Frames, is_frame
from airflow_trainer_provider.functions.runner import FRAME
from airflow_trainer_provider.job.backend import LogBlock, LogLine
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.text.printable import plain, shorten
from airflow_trainer_provider.timeouts import end_tasks

if TYPE_CHECKING:
    from airflow_trainer_provider.cluster.api.client import Client

log = logging.getLogger(__name__)

#: How much of each container's log is shown at most, in bytes.
LIMIT_BYTES = 10 * 2**20
# How many blocks of lines of one job wait to be taken at most; most blocks have at most 32 KiB.
_WAITING_BLOCKS = 32
# How long a consumer may process lines before the event loop runs other tasks, in seconds.
_STRETCH = 0.002
# How often logs are checked for a passed deadline; seconds.
_TICK = 1.0
_FIRST = asyncio.FIRST_COMPLETED


@dataclass(frozen=True)
class _Block:
    """Lines that wait to be emitted.

    :param name: the replica, or the replica's container, that wrote them.
    :param lines: each with its time.
    :param pod_uid: of the pod that wrote them; None for a message about the log itself.
    :param is_again: whether the task's log already has them.
    :param is_cut: whether the task's log does not get them.
    """

    name: str
    lines: list[tuple[int, str]]
    pod_uid: str | None = None
    container: str = ""
    is_again: bool = False
    is_cut: bool = False


@dataclass(frozen=True, eq=False)
class _Reading:
    """A running reader.

    :param name: under which its lines are emitted.
    """

    task: asyncio.Task[None]
    reader: ContainerLog
    name: str


class Logs:
    """The logs of one job's replicas. Each container that runs is followed over one HTTP connection of its own.

    A container's lines come in the order in which it wrote them; successive pods of a replica follow each other;
    replicas mix as their lines arrive. The lines of the training's container are named after the replica; those of any
    other ``<replica>/<container>``.

    :param client: of the cluster.
    :param pods: the job's pods; a subscription of its own.
    :param replica_of: pod -> the name of its replica; None where it is not a replica.
    :param container_of: pod -> the name of the training's container.
    :param cursor: what has been emitted; kept up to date as lines are emitted.
    :param replicas: only these; None for all.
    :param limit_bytes: how much of each container's log is emitted as it arrives. Of a longer log, the size of what was
        cut and the last lines are emitted at the end.
    :param tracked: the replica of which all lines are emitted with their positions, hidden where the task's log already
        has them or they are cut; None for none.
    :param frames: collects the lines of the function's value, which are cut; None for a new collection.
    """

    def __init__(
        self,
        client: Client,
        pods: Subscription,
        replica_of: Callable[[Manifest], str | None],
        container_of: Callable[[Manifest], str],
        cursor: LogCursor,
        *,
        replicas: Collection[str] | None = None,
        limit_bytes: int = LIMIT_BYTES,
        tracked: Replayed | None = None,
        frames: Frames | None = None,
    ) -> None:
        self._client = client
        self._subscription = pods
        self._replica_of = replica_of
        self._container_of = container_of
        self._cursor = cursor
        self._replicas = replicas
        self._limit = limit_bytes
        self._tracked = tracked
        self._frames = frames or Frames()
        self._pods: dict[str, Pod] = {}
        # What was last taken from the subscription, by the uid: the version, and whether the pod is gone. A reader that
        # reads its pod may know a newer version, which this one must not replace again and again.
        self._taken: dict[str, tuple[str, bool]] = {}
        self._budgets: dict[str, LogBudget] = {}
        # By name of the lines: the pod that wrote the last lines, and how many lines of it were read.
        self._last_pods: dict[str, tuple[str, int]] = {}
        # The readers, and by name of the lines the newest reader.
        self._reading: dict[asyncio.Task[None], _Reading] = {}
        self._last_of: dict[str, _Reading] = {}
        self._queue: asyncio.Queue[_Block | None] = asyncio.Queue(_WAITING_BLOCKS)

    async def blocks(self, ended: asyncio.Event) -> AsyncGenerator[LogBlock, None]:
        """Each line once, block by block, up to the last lines that were written before the job's end. A line counts as
        emitted once it is taken from its block. Close the iterator.

        :param ended: set when the job has ended. A log that does not end then is given up after a while, and a line
            says so.
        """
        attending = asyncio.create_task(self._attend(ended), name="logs of a job")
        pace = Pace.here()
        try:
            while (block := await self._queue.get()) is not None:
                await pace.turn()
                given = self._given(block)
                if given is not None:
                    yield given
                elif block.pod_uid is not None:
                    deque(self._cursor.emit(block.pod_uid, block.container, block.lines), maxlen=0)
            await attending
            for name, budget in self._budgets.items():
                if rest := budget.rest():
                    yield LogBlock(name, rest)
        finally:
            await end_tasks([attending, *self._reading])

    def tail(self, name: str, lines: int, pod_uid: str | None = None) -> list[str]:
        """The last lines of a container that were read here; a few hundred at most.

        :param name: under which they are emitted: that of a replica, e.g. ``worker-1``, or that of another of its
            containers.
        :param lines: how many at most.
        :param pod_uid: only those of this pod; None for the last one that was read.
        """
        budget, (last_pod, count) = self._budgets.get(name), self._last_pods.get(name, ("", 0))
        if not budget or lines <= 0 or pod_uid not in (None, last_pod):
            return []
        last = list(budget.tail)[-lines:]
        return last if pod_uid is None else last[max(0, len(last) - count) :]

    async def _attend(self, ended: asyncio.Event) -> None:
        """Read each container in an asyncio task of its own, until nothing is left to read."""
        ending = asyncio.create_task(ended.wait())
        changing = asyncio.create_task(self._subscription.changed())
        ended_at: float | None = None
        try:
            while True:
                await self._look(ended)
                if ended.is_set():
                    if ended_at is None:
                        ended_at = time.monotonic()
                        self._wake_readers()
                    if await self._is_read(ended_at):
                        break
                    await asyncio.wait({changing, *self._reading}, timeout=_TICK, return_when=_FIRST)
                else:
                    await asyncio.wait({changing, ending}, return_when=_FIRST)
                self._forget_done()
                if changing.done():
                    _take_note(changing)
                    changing = asyncio.create_task(self._subscription.changed())
            self._forget_done()
        except Exception:
            await self._queue.put(None)
            raise
        finally:
            ending.cancel()
            changing.cancel()
        await self._queue.put(None)

    def _wake_readers(self) -> None:
        for pod in self._pods.values():
            pod.wake()

    async def _is_read(self, ended_at: float) -> bool:
        """Whether all logs of a job that has ended have been read or given up.

        :param ended_at: when it ended, by the monotonic clock.
        """
        await self._give_up()
        listed = self._subscription.synced or time.monotonic() - ended_at > read_deadline.IDLE_SECONDS
        return listed and all(task.done() for task in self._reading)

    async def _look(self, ended: asyncio.Event) -> None:
        """Update the readers with the current pods."""
        new = []
        for gone, pods in ((False, self._subscription.objects), (True, self._subscription.gone)):
            for uid, manifest in pods.items():
                taken = (manifest["metadata"]["resourceVersion"], gone)
                if self._taken.get(uid) == taken:
                    continue
                self._taken[uid] = taken
                known = self._pods.get(uid)
                if known is None:
                    known = self._pods[uid] = Pod(manifest)
                    known.gone = gone
                    new.append(known)
                else:
                    known.update(manifest, gone=gone)
        for pod in sorted(new, key=lambda pod: str(pod.manifest["metadata"]["creationTimestamp"])):
            # The readers of a thousand pods, begun together, would keep the event loop for tens of milliseconds.
            await asyncio.sleep(0)
            self._begin(pod, ended)

    def _begin(self, pod: Pod, ended: asyncio.Event) -> None:
        manifest = pod.manifest
        replica = self._replica_of(manifest)
        if replica is None or (self._replicas is not None and replica not in self._replicas):
            return
        spec, training = manifest["spec"], self._container_of(manifest)
        containers = [each["name"] for each in (*(spec.get("initContainers") or ()), *spec["containers"])]
        for container in containers:
            name = replica if container == training else f"{replica}/{container}"
            reader = ContainerLog(
                self._client,
                pod,
                container,
                Deduplicator(*self._begin_of(name, pod.uid, container)),
                partial(self._emit, name, pod.uid, container),
                partial(self._note, name),
                ended,
            )
            task = asyncio.create_task(_after(self._last_of.get(name), reader), name=f"log of {reader}")
            self._reading[task] = self._last_of[name] = _Reading(task, reader, name)

    def _begin_of(self, name: str, pod_uid: str, container: str) -> tuple[int, int]:
        shown = self._cursor.of(pod_uid, container)
        if self._tracked is None or name != self._tracked.replica:
            return shown
        return self._tracked.begin(pod_uid, container, shown)

    def _given(self, block: _Block) -> LogBlock | None:
        """The block to emit; None for lines that are not emitted."""
        if block.pod_uid is None:
            return LogBlock(block.name, (text for _, text in block.lines))
        place = (block.pod_uid, block.container)
        if self._tracked is None or block.name != self._tracked.replica:
            return None if block.is_cut else LogBlock(block.name, self._cursor.emit(*place, block.lines))
        if block.is_again:
            position = partial(self._tracked.position, *place)
            return LogBlock(block.name, self._tracked.texts(*place, block.lines), position, is_hidden=True)
        position = partial(self._cursor.of, *place)
        return LogBlock(block.name, self._cursor.emit(*place, block.lines), position, is_hidden=block.is_cut)

    async def _emit(self, name: str, pod_uid: str, container: str, lines: list[tuple[int, str]]) -> None:
        if not any(FRAME in text for _, text in lines):
            await self._emit_lines(name, pod_uid, container, lines)
            return
        self._frames.take(text for _, text in lines)
        for framed, part in groupby(lines, lambda line: is_frame(line[1])):
            if framed:
                await self._queue.put(_Block(name, list(part), pod_uid, container, is_cut=True))
            else:
                await self._emit_lines(name, pod_uid, container, list(part))

    async def _emit_lines(self, name: str, pod_uid: str, container: str, lines: list[tuple[int, str]]) -> None:
        if self._tracked and name == self._tracked.replica:
            again, lines = self._tracked.split(pod_uid, container, lines)
            if again:
                await self._queue.put(_Block(name, again, pod_uid, container, is_again=True))
            if not lines:
                return
        budget = self._budgets.setdefault(name, LogBudget(self._limit))
        had_ended = budget.has_ended
        last_pod, before = self._last_pods.get(name, ("", 0))
        self._last_pods[name] = (pod_uid, len(lines) + (before if last_pod == pod_uid else 0))
        count = budget.take([text for _, text in lines])
        if count:
            await self._queue.put(_Block(name, lines[:count], pod_uid, container))
        if budget.has_ended:
            await self._queue.put(_Block(name, lines[count:], pod_uid, container, is_cut=True))
            if not had_ended:
                note = f"this log has reached {self._limit} bytes; only its end will follow, at the end"
                await self._note(name, note)

    async def _note(self, name: str, text: str) -> None:
        await self._queue.put(_Block(name, [(0, f"... {text}")]))

    async def _give_up(self) -> None:
        """Give up the logs of an ended job whose deadlines have passed."""
        running = [each for each in self._reading.values() if not each.task.done()]
        given_up = [each for each in running if each.reader.deadline.has_passed()]
        await end_tasks([each.task for each in given_up])
        for each in given_up:
            await each.reader.give_up("it was still open when the job had ended")

    def _forget_done(self) -> None:
        for task in [task for task in self._reading if task.done()]:
            done = self._reading.pop(task)
            if self._last_of.get(done.name) is done:
                del self._last_of[done.name]


async def lines_of(blocks: AsyncGenerator[LogBlock, None]) -> AsyncGenerator[LogLine, None]:
    """The lines of blocks, one by one. Close the iterator: it closes the iterator of the blocks.

    A line counts as emitted before it is yielded: the consumer may stop there.
    """
    pace = Pace.here()
    async with aclosing(blocks):
        async for block in blocks:
            until = time.monotonic() + _STRETCH
            for line in block.lines():
                yield line
                if time.monotonic() > until:
                    await pace.turn()
                    until = time.monotonic() + _STRETCH


def _take_note(changing: asyncio.Task[None]) -> None:
    """Retrieve the result of the wait for a change of the pods. A refusal of the API server is only logged."""
    if isinstance(changing.exception(), ApiError):
        log.debug("No news of the pods: %s", changing.exception())
    else:
        changing.result()


async def _after(earlier: _Reading | None, reader: ContainerLog) -> None:
    """Read once the replica's earlier pod has been read."""
    if earlier is not None:
        with reader.deadline.paused():
            await _until_read(earlier)
        reader.deadline.extend()
    try:
        await reader.run()
    except Exception as error:
        log.exception("The log of %s is not read any further", reader)
        await reader.give_up(f"{type(error).__name__}: {error}")


async def _until_read(earlier: _Reading) -> None:
    """Wait for an earlier pod to be read, as long as its log gives lines now and then, and for
    :data:`~airflow_trainer_provider.cluster.logs.read_deadline.LAST_LINES_SECONDS` at most.
    """
    clock = earlier.reader.deadline
    # If the job has ended, the earlier log is given up before this time is over, and a line says so.
    more = 2 * _TICK
    began, until = clock.now, time.monotonic() + read_deadline.LAST_LINES_SECONDS + more
    while not earlier.task.done():
        left = min(read_deadline.IDLE_SECONDS + more - clock.idle_since(began), until - time.monotonic())
        if left <= 0:
            break
        # A pause does not shorten the time that a log has left.
        await asyncio.wait({earlier.task}, timeout=max(_TICK, left))


async def tail(
    client: Client, namespace: str, pod: str, container: str, lines: int, *, previous: bool = False
) -> list[str]:
    """The last lines of a container.

    :param lines: how many at most.
    :param previous: whether to read the log from before the container's last restart.
    :raises ApiError: the container has no log (any more).
    """
    stream = client.logs(namespace, pod, container, tail_lines=lines + MOST_LINES, previous=previous)
    async with aclosing(stream):
        read = [split_time(line) async for line in stream]
    if read and read[0][0] is None:
        # The kubelet answered with status 200, and then found no log.
        raise ApiError(read[0][1].decode("utf-8", "replace"))
    found = [shorten(plain(text)) for _, text in read]
    shown = [line for line in found if not is_frame(line)]
    return shown[max(0, len(shown) - lines) :]
