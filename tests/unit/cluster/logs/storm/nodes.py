"""Pods that live and nodes that answer as a seed decides, in virtual time: what the stress test of logs reads from."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from airflow_trainer_provider.cluster.answers import NO_ANSWER, SILENT
from airflow_trainer_provider.cluster.api.recovery import Backoff, Recovery
from airflow_trainer_provider.cluster.informer.store import Store, by_label
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.trimmed import trimmed

KIND = KINDS["jaxjob"]
TRAINING = "jax"
SECOND = 10**9
#: The nodes' time when a storm begins, in seconds since 1970.
EPOCH = 1_700_000_000
#: How a node answers who asks for a log. A healthy one gives all, at once.
NODES = ("slow", "dead", "refusing", "breaking", "empty", "out")
_STATUSES = (None, 400, 401, 403, 404, 408, 429, 500, 503)
#: Times are multiples of it, so that many things happen at the same moment, in seconds.
_STEP = 0.25
#: After so long the client ends a connection that gives nothing, in seconds: of a log that is read, or followed.
_SILENT = {False: 60, True: 300}
_MOST_IN_A_BLOCK = 20
#: So many requests for one container's log are more than any storm is good for.
_FLOOD = 3_000
#: How long a node that is out refuses, in seconds.
_OUT = 200


def now() -> float:
    """Seconds, by the loop's clock."""
    return asyncio.get_running_loop().time()


@dataclass(eq=False)
class Run:
    """One run of a container: when it began, what it has written, and whether it still runs. Times in nanoseconds."""

    began: int
    lines: list[tuple[int, str]] = field(default_factory=list)
    runs: bool = True
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Something was written, or it has ended."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


@dataclass(frozen=True)
class Life:
    """What becomes of a pod.

    :param name: its name.
    :param job: whose it is.
    :param index: of the replica.
    :param containers: container -> for each run, the pauses before its lines, in seconds.
    :param pending: how long it waits for its node, in seconds.
    :param node: how its node answers; one of :data:`NODES`, or ``healthy``.
    :param deleted_after: how long after its end it is deleted, in seconds; None for never.
    :param backs_off: how long a container waits to be started again, in seconds. The kubelet gives the log of its last
        run alone then.
    """

    name: str
    job: str
    index: int
    containers: dict[str, Sequence[Sequence[float]]]
    pending: float
    node: str
    deleted_after: float | None
    backs_off: float


class Pod:
    """A pod, with what its containers have written."""

    def __init__(self, nodes: Nodes, life: Life) -> None:
        self.nodes, self.life = nodes, life
        self.chance = nodes.chance(life.name)
        self.uid = f"uid-{life.name}-{len(nodes.pods)}"
        self.created = stamp(nodes.clock())
        self.runs: dict[str, list[Run]] = {container: [] for container in life.containers}
        self.waiting: set[str] = set()
        self.phase = "Pending"
        self.version = 0
        self.ended_at: float | None = None
        self.deleted_at: float | None = None
        self.requests: dict[str, int] = dict.fromkeys(life.containers, 0)
        self.versions = 0

    def manifest(self) -> dict[str, Any]:
        """As the API server gives it."""
        init = [name for name in self.runs if name.startswith("init")]
        return {
            "metadata": {
                "name": self.life.name,
                "namespace": "default",
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "creationTimestamp": self.created,
                "labels": {
                    KIND.pod_label: self.life.job,
                    "training.kubeflow.org/replica-type": "worker",
                    "training.kubeflow.org/replica-index": str(self.life.index),
                },
            },
            "spec": {
                "containers": [{"name": name} for name in self.runs if name not in init],
                "initContainers": [{"name": name} for name in init],
                "nodeName": "node",
            },
            "status": {
                "phase": self.phase,
                "initContainerStatuses": [self._status(name) for name in init],
                "containerStatuses": [self._status(name) for name in self.runs if name not in init],
            },
        }

    def _status(self, container: str) -> dict[str, Any]:
        runs = self.runs[container]
        if not runs:
            return {"name": container, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}
        state: dict[str, Any] = {"running": {"startedAt": stamp(runs[-1].began)}}
        if not runs[-1].runs:
            state = {"terminated": {"containerID": f"c://{len(runs)}", "startedAt": stamp(runs[-1].began)}}
        last = {}
        if len(runs) > 1:
            last = {"terminated": {"containerID": f"c://{len(runs) - 1}", "startedAt": stamp(runs[-2].began)}}
        if container in self.waiting:
            state, last = {"waiting": {"reason": "CrashLoopBackOff"}}, state
        return {"name": container, "restartCount": len(runs) - 1, "state": state, "lastState": last}

    async def live(self) -> None:
        """From its creation to its end, or its deletion."""
        self._put()
        await asyncio.sleep(self.life.pending)
        beside = [name for name in self.runs if not name.startswith("init")]
        for container in self.runs:
            if container not in beside:
                await self._live(container)
        self.phase = "Running"
        await asyncio.gather(*map(self._live, beside))
        self.phase = "Failed"
        self.ended_at = now()
        self._put()
        if self.life.deleted_after is not None:
            await asyncio.sleep(self.life.deleted_after)
            self.delete()

    async def _live(self, container: str) -> None:
        for number, pauses in enumerate(self.life.containers[container]):
            run = Run(self.nodes.clock())
            self.runs[container].append(run)
            self._put()
            for at, pause in enumerate(pauses):
                if pause:
                    await asyncio.sleep(pause)
                run.lines.append((self.nodes.clock(), f"{self.uid} {container} {number} {at}"))
                run.wake()
            run.runs = False
            run.wake()
            self._put()
            await asyncio.sleep(_STEP)
            if self.life.backs_off and number + 1 < len(self.life.containers[container]):
                self.waiting.add(container)
                self._put()
                await asyncio.sleep(self.life.backs_off)
                self.waiting.discard(container)

    def delete(self) -> None:
        """Remove it from the API server; its logs go with it."""
        self.deleted_at = now()
        self.nodes.put(self, gone=True)
        for run in (run for runs in self.runs.values() for run in runs):
            run.wake()

    def _put(self) -> None:
        self.versions += 1
        self.version = self.nodes.next_version()
        self.nodes.put(self)


class Nodes:
    """The kubelets, the API server before them, and the watch of the pods.

    :param seed: decides.
    :param lag: how late the watch is, at most, in seconds.
    :param saves: how an annotation is taken: after so many seconds, or with an error.
    :param careless: whether who follows a log swallows a cancellation that comes together with a line, as
        ``asyncio.wait_for()`` does until Python 3.12.
    """

    def __init__(self, seed: int, lag: float, saves: float | ApiError, careless: bool) -> None:
        self.seed, self.lag, self.saves, self.careless = seed, lag, saves, careless
        self.store = Store(by_label(KIND.pod_label))
        self.store.synced = True
        self.pods: list[Pod] = []
        #: When the watch brought each pod, by its uid.
        self.known_at: dict[str, float] = {}
        self.annotations: dict[str, dict[str, str]] = {}
        self.recovery = Recovery(self._ready)
        self.began = now()
        self._version = 0
        self._news: asyncio.Queue[tuple[float, dict[str, Any], bool]] = asyncio.Queue()

    def chance(self, name: str) -> random.Random:
        """What decides for one pod, or part: independent of the order in which the others ask."""
        return random.Random(f"{self.seed} {name}")

    def clock(self) -> int:
        """The nodes' time, in nanoseconds since 1970."""
        return EPOCH * SECOND + int((now() - self.began) * SECOND)

    def next_version(self) -> int:
        """A resource version."""
        self._version += 1
        return self._version

    async def begin(self, life: Life) -> Pod:
        """Have a pod live to its end."""
        pod = Pod(self, life)
        self.pods.append(pod)
        await pod.live()
        return pod

    def put(self, pod: Pod, *, gone: bool = False) -> None:
        """Have the watch say how a pod is now."""
        self._news.put_nowait((now(), trimmed(pod.manifest()), gone))

    async def watch(self) -> None:
        """Bring the news to the store, in their order."""
        chance = self.chance("watch")
        while True:
            at, manifest, gone = await self._news.get()
            due = at + (chance.choice((_STEP, self.lag / 4, self.lag)) if self.lag and chance.random() < 0.3 else 0)
            if due > now():
                await asyncio.sleep(due - now())
            self.known_at.setdefault(manifest["metadata"]["uid"], now())
            (self.store.remove if gone else self.store.put)(manifest)

    # What the client is asked.

    def backoff(self, first: float, most: float) -> Backoff:
        """Pauses between attempts."""
        return Backoff(self.recovery, first, most)

    async def _ready(self) -> int:
        return 200

    async def patch(self, resource: object, namespace: str, name: str, patch: dict[str, Any]) -> None:
        """Take annotations of a job, of which the patch says by its uid that it is this one."""
        assert patch["metadata"]["uid"] == f"uid-{name}"
        if isinstance(self.saves, ApiError):
            raise self.saves
        await asyncio.sleep(self.saves)
        self.annotations.setdefault(name, {}).update(patch["metadata"]["annotations"])

    async def get_or_none(self, resource: object, namespace: str, name: str) -> dict[str, Any] | None:
        """Read a pod; None where there is none."""
        await asyncio.sleep(1 / 64)
        pod = self._find(name)
        return pod.manifest() if pod else None

    def _count(self, pod: Pod, container: str) -> None:
        pod.requests[container] += 1
        # Who floods the API server would make the storm long.
        assert pod.requests[container] < _FLOOD, f"a flood of requests for {pod.life.name}/{container}"

    def _find(self, name: str) -> Pod | None:
        found = [pod for pod in self.pods if pod.life.name == name and pod.deleted_at is None]
        return found[-1] if found else None

    async def log_blocks(
        self,
        namespace: str,
        name: str,
        container: str,
        *,
        follow: bool = False,
        since_time: str | None = None,
        previous: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        """A container's lines, as the client gives them."""
        await asyncio.sleep(1 / 64)
        pod = self._find(name)
        if pod is None:
            raise ApiError(f'pods "{name}" not found', status=404)
        self._count(pod, container)
        most = await self._fault(pod, follow)
        if most < 0:
            yield b"unable to retrieve container logs for containerd://c"
            return
        runs = pod.runs[container]
        if len(runs) < (2 if previous else 1):
            raise ApiError(f"container {container} is waiting to start: ContainerCreating", status=400)
        run = runs[-2 if previous and container not in pod.waiting else -1]
        since = datetime.fromisoformat(since_time.replace("Z", "+00:00")).timestamp() * SECOND if since_time else 0
        position = 0
        while True:
            changed = run.changed
            while position < len(run.lines):
                begin, position = position, min(position + pod.chance.randint(1, _MOST_IN_A_BLOCK), len(run.lines))
                block = [line for line in run.lines[begin:position] if line[0] >= since]
                if len(block) > most:
                    raise ApiError("the connection was reset", reason=NO_ANSWER)
                most -= len(block)
                if pod.life.node == "slow":
                    await asyncio.sleep(pod.chance.choice((0, 3, 9, 20)))
                if block:
                    yield b"\n".join(f"{stamp(at, 9)} {text}".encode() for at, text in block)
            if not follow or not run.runs or pod.deleted_at is not None:
                return
            await self._wait(changed)

    async def _fault(self, pod: Pod, follow: bool) -> int:
        """Do what a node does before it gives a log.

        :return: how many lines it gives, then; below 0 an answer without any.
        """
        node, chance = pod.life.node, pod.chance
        if node == "dead":
            await asyncio.sleep(_SILENT[follow])
            raise ApiError("no answer", reason=SILENT)
        if node == "out" and now() - self.began < _OUT:
            raise ApiError("no route to host", status=500)
        if node == "refusing" and chance.random() < 0.8:
            status = chance.choice(_STATUSES)
            raise ApiError(f"refused with {status}", status=status, reason=NO_ANSWER if status is None else "")
        if node == "empty" and chance.random() < 0.8:
            return -1
        return chance.randint(0, 10) if node == "breaking" and chance.random() < 0.6 else 10**6

    async def _wait(self, changed: asyncio.Event) -> None:
        waiting = asyncio.ensure_future(changed.wait())
        try:
            await asyncio.wait({waiting})
        except asyncio.CancelledError:
            if not (self.careless and changed.is_set()):
                raise
        finally:
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting


def stamp(at: int, digits: int = 0) -> str:
    """A time as Kubernetes writes it.

    :param at: nanoseconds since 1970.
    :param digits: of the fraction.
    """
    fraction = f".{at % SECOND:09d}" if digits else ""
    return f"{datetime.fromtimestamp(at // SECOND, timezone.utc):%Y-%m-%dT%H:%M:%S}{fraction}Z"
