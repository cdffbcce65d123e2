"""All lines of all replicas of a job, as they are written."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_trainer_provider.cluster.container_log import ContainerLog, Pod
from airflow_trainer_provider.cluster.log_place import LogPlace, Seen, split_time
from airflow_trainer_provider.cluster.log_shown import Shown, shorten
from airflow_trainer_provider.cluster.pace import Pace
from airflow_trainer_provider.cluster.store import Subscription
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.job.backend import LogBlock, LogLine
from airflow_trainer_provider.job.log_text import plain
from airflow_trainer_provider.kinds.base import Manifest

if TYPE_CHECKING:
    from airflow_trainer_provider.cluster.client import Client

log = logging.getLogger(__name__)

#: What is told of each container of a replica at most, in bytes.
LIMIT_BYTES = 10 * 2**20
#: How long a log that does not go on is waited for after the job's end; and one that does. Seconds.
PATIENCE = 10.0
PATIENCE_WITH_LINES = 60.0
# Blocks of lines of one job that wait to be taken, of 32 KiB at most in general.
_WAITING_BLOCKS = 32
# How long who takes lines may work on them before others have their turn, in seconds.
_STRETCH = 0.002
# How often logs are looked at that may have to be given up; seconds.
_TICK = 1.0


@dataclass(frozen=True)
class _Told:
    """Lines on their way out.

    :param name: who tells them; None where they are not shown.
    :param lines: each with its time.
    :param pod_uid: where they are from; None for a note of ours.
    """

    name: str | None
    lines: list[tuple[int, str]]
    pod_uid: str | None = None
    container: str = ""


class Logs:
    """The logs of one job's replicas. Each container that runs is followed over one HTTP connection of its own.

    What a container wrote is told in its order; successive pods of a replica follow each other; replicas mix as their
    lines arrive. The training's container, a pod's first, tells as the replica; any other as
    ``<replica>/<container>``.

    :param client: of the cluster.
    :param pods: the job's pods; a subscription of its own.
    :param replica_of: pod -> the name of the replica that it is; None where it is none.
    :param place: what has been told; kept up to date as lines go out.
    :param replicas: only these; None for all.
    :param limit_bytes: what is told of each container of a replica as it comes. Of a log that grows beyond it the last
        lines are told at the end, and how much was cut.
    """

    def __init__(
        self,
        client: Client,
        pods: Subscription,
        replica_of: Callable[[Manifest], str | None],
        place: LogPlace,
        *,
        replicas: Collection[str] | None = None,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._client = client
        self._subscription = pods
        self._replica_of = replica_of
        self._place = place
        self._replicas = replicas
        self._limit = limit_bytes
        self._pods: dict[str, Pod] = {}
        self._shown: dict[str, Shown] = {}
        # The readers by the name under which they tell, with what they do.
        self._last_of: dict[str, asyncio.Task[None]] = {}
        self._reading: dict[asyncio.Task[None], tuple[ContainerLog, str]] = {}
        self._queue: asyncio.Queue[_Told | None] = asyncio.Queue(_WAITING_BLOCKS)

    async def blocks(self, ended: asyncio.Event) -> AsyncGenerator[LogBlock, None]:
        """Each line once, up to the job's end and what was written until then, block by block. A line counts as
        told once it is taken from its block. Close the iterator.

        :param ended: set when the job has ended. Logs that do not come to their end then are given up after a while,
            and a line says so.
        """
        attending = asyncio.create_task(self._attend(ended), name="logs of a job")
        pace = Pace.here()
        try:
            while (told := await self._queue.get()) is not None:
                await pace.turn()
                texts = self._texts(told)
                if told.name is not None:
                    yield LogBlock(told.name, texts)
                else:
                    deque(texts, maxlen=0)
            await attending
            for name, shown in self._shown.items():
                if rest := shown.rest():
                    yield LogBlock(name, rest)
        finally:
            tasks = [attending, *self._reading]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def tail(self, replica: str, lines: int) -> list[str]:
        """The last lines that a replica's training wrote while its logs were read here; some hundred at most.

        :param replica: e.g. ``worker-1``.
        :param lines: how many at most.
        """
        shown = self._shown.get(replica)
        return list(shown.tail)[-lines:] if shown and lines > 0 else []

    async def _attend(self, ended: asyncio.Event) -> None:
        """Have each container read by a task of its own, until there is nothing left to read."""
        ending = asyncio.create_task(ended.wait())
        changing = asyncio.create_task(self._subscription.changed())
        ended_at: float | None = None
        try:
            while True:
                self._look(ended)
                if ended.is_set():
                    if ended_at is None:
                        ended_at = time.monotonic()
                        for pod in self._pods.values():
                            pod.update()
                    await self._give_up_on_idle(ended_at)
                    listed = self._subscription.synced or time.monotonic() - ended_at > PATIENCE
                    if listed and all(task.done() for task in self._reading):
                        self._forget_done()
                        break
                waits = {changing, *self._reading} if ended.is_set() else {changing, ending}
                await asyncio.wait(
                    waits, timeout=_TICK if ended.is_set() else None, return_when=asyncio.FIRST_COMPLETED
                )
                self._forget_done()
                if changing.done():
                    if isinstance(changing.exception(), ApiError):
                        log.debug("No news of the pods: %s", changing.exception())
                    else:
                        changing.result()
                    changing = asyncio.create_task(self._subscription.changed())
        except Exception:
            await self._queue.put(None)
            raise
        finally:
            ending.cancel()
            changing.cancel()
        await self._queue.put(None)

    def _look(self, ended: asyncio.Event) -> None:
        """Take the pods as they are now."""
        new = []
        for gone, pods in ((False, self._subscription.objects), (True, self._subscription.gone)):
            for uid, manifest in pods.items():
                known = self._pods.get(uid)
                if known is None:
                    known = self._pods[uid] = Pod(manifest)
                    known.gone = gone
                    new.append(known)
                elif gone != known.gone or known.version != manifest["metadata"]["resourceVersion"]:
                    known.update(manifest, gone=gone)
        for pod in sorted(new, key=lambda pod: str(pod.manifest["metadata"]["creationTimestamp"])):
            self._begin(pod, ended)

    def _begin(self, pod: Pod, ended: asyncio.Event) -> None:
        manifest = pod.manifest
        replica = self._replica_of(manifest)
        if replica is None or (self._replicas is not None and replica not in self._replicas):
            return
        spec = manifest["spec"]
        containers = [each["name"] for each in (*(spec.get("initContainers") or ()), *spec["containers"])]
        for container in containers:
            name = replica if container == spec["containers"][0]["name"] else f"{replica}/{container}"
            reader = ContainerLog(
                self._client,
                pod,
                container,
                Seen(*self._place.of(pod.uid, container)),
                partial(self._tell, name, pod.uid, container),
                partial(self._note, name),
                ended,
            )
            task = asyncio.create_task(_after(self._last_of.get(name), reader), name=f"log of {reader}")
            self._last_of[name] = task
            self._reading[task] = (reader, name)

    def _texts(self, told: _Told) -> Iterator[str]:
        if told.pod_uid is None:
            return (text for _, text in told.lines)
        return self._place.telling(told.pod_uid, told.container, told.lines)

    async def _tell(self, name: str, pod_uid: str, container: str, lines: list[tuple[int, str]]) -> None:
        shown = self._shown.setdefault(name, Shown(self._limit))
        had_ended = shown.has_ended
        count = shown.take([text for _, text in lines])
        if count:
            await self._queue.put(_Told(name, lines[:count], pod_uid, container))
        if shown.has_ended:
            await self._queue.put(_Told(None, lines[count:], pod_uid, container))
            if not had_ended:
                told = f"this log has reached {self._limit} bytes; only its end will follow, at the end"
                await self._note(name, told)

    async def _note(self, name: str, text: str) -> None:
        await self._queue.put(_Told(name, [(0, f"... {text}")]))

    async def _give_up_on_idle(self, ended_at: float) -> None:
        now = time.monotonic()
        for task, (reader, _) in list(self._reading.items()):
            idle = now - max(ended_at, reader.active_at)
            too_long = idle > PATIENCE or now - max(ended_at, reader.admitted_at) > PATIENCE_WITH_LINES
            if not task.done() and too_long and not reader.is_held_up:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await reader.give_up("it was still open when the job had ended")

    def _forget_done(self) -> None:
        for task in [task for task in self._reading if task.done()]:
            reader, name = self._reading.pop(task)
            if self._last_of.get(name) is task:
                del self._last_of[name]
            if not task.cancelled() and (error := task.exception()):
                log.error("The log of %s is not read any further", reader, exc_info=error)


async def lines_of(blocks: AsyncGenerator[LogBlock, None]) -> AsyncGenerator[LogLine, None]:
    """Blocks line by line. Close the iterator: it closes theirs.

    A line counts as told before it goes out: whoever takes it may not come back.
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


async def _after(earlier: asyncio.Task[None] | None, reader: ContainerLog) -> None:
    """Read once the replica's earlier pod has been read; one that hangs is not waited for."""
    if earlier is not None:
        await asyncio.wait({earlier}, timeout=PATIENCE)
    await reader.run()


async def tail(
    client: Client, namespace: str, pod: str, container: str, lines: int, *, previous: bool = False
) -> list[str]:
    """The last lines of a container.

    :param lines: how many at most.
    :param previous: of the container before its last restart.
    :raises ApiError: it has no log (any more).
    """
    stream = client.logs(namespace, pod, container, tail_lines=lines, previous=previous)
    async with aclosing(stream):
        return [shorten(plain(split_time(line)[1])) async for line in stream]
