"""One process that waits, as a triggerer does: an event loop with a task for each trigger.

``python -m benchmarks.waiting_client CONTENDER`` reads lines. The first says what to wait for, as JSON; each one
after it is a question. It answers each with a line of JSON.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.api import Api
from benchmarks.cluster import CONN_ID

_PROBE_SECONDS = 0.005


class Waiter:
    """What waits: one of the contenders. It notes whom it has found, and when each wait was over.

    :param wanted: names, namespace, path, handles and kubeconfig.
    """

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.wanted = wanted
        self.attached: set[str] = set()
        self.events: dict[str, tuple[float, bool]] = {}

    @classmethod
    async def prepare(cls) -> None:
        """Import, and ask once, what a process needs that waits for nothing yet."""

    def start(self) -> None:
        """Begin to wait for all."""
        self.tasks = [asyncio.ensure_future(work) for work in self._works()]

    def _works(self) -> Iterator[Any]:
        """Coroutines that wait."""
        raise NotImplementedError

    def list_seconds(self) -> float:
        """How long its last list of all objects took."""
        raise NotImplementedError

    def note_end(self, name: str, well: bool) -> None:
        """Note that a wait is over.

        :param well: whether it was said that the job has succeeded.
        """
        self.events.setdefault(name, (time.monotonic(), well))


class Triggers(Waiter):
    """Triggers, a task for each."""

    def _works(self) -> Iterator[Any]:
        return (self._run(name, self._trigger(name)) for name in self.wanted["names"])

    def _trigger(self, name: str) -> Any:
        """The trigger for one object."""
        raise NotImplementedError

    def _well(self, payload: dict[str, Any]) -> bool:
        """Whether an event says that its job has succeeded."""
        return payload["status"] == "success"

    async def _run(self, name: str, trigger: Any) -> None:
        async for event in trigger.run():
            self.note_end(name, self._well(event.payload))

    def _note(self, owner: type, method: str) -> None:
        """Take the first answer of a method for the sign that an object is found."""
        original = getattr(owner, method)

        async def noting(hook: Any, name: str, namespace: str) -> Any:
            answer = await original(hook, name, namespace)
            self.attached.add(name)
            return answer

        setattr(owner, method, noting)


class Ours(Triggers):
    """The trigger of this provider, made as its operator makes it."""

    @classmethod
    async def prepare(cls) -> None:
        """Import its modules, and reach the cluster."""
        importlib.import_module("airflow_trainer_provider.cluster.backend")
        importlib.import_module("airflow_trainer_provider.hooks.trainer")
        importlib.import_module("airflow_trainer_provider.triggers.train_job")
        from airflow_trainer_provider.cluster.cluster import Cluster
        from airflow_trainer_provider.hooks.connection import aget_cluster_connection

        cluster = await Cluster.of(await aget_cluster_connection(CONN_ID))
        await cluster.client.get_path("/version")

    def _trigger(self, name: str) -> Any:
        from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

        # A triggerer keeps nothing of what it made a trigger from.
        trigger = TrainJobTrigger(
            self.wanted["handles"].pop(name),
            f"bench/{name}/1",
            None,
            cancel_on_kill=True,
            startup_timeout=self.wanted["startup_timeout"],
        )
        emit = trigger._emit

        def noting(line: str) -> None:
            self.attached.add(name)
            emit(line)

        trigger._emit = noting  # type: ignore[method-assign]
        return trigger

    def _well(self, payload: dict[str, Any]) -> bool:
        return payload["end"] == "concluded" and bool(payload.get("summary"))


class Peers(Triggers):
    """Triggers of Airflow's Kubernetes provider."""

    @classmethod
    async def prepare(cls) -> None:
        """Import their modules, and reach the cluster."""
        importlib.import_module("airflow.providers.cncf.kubernetes.triggers.job")
        importlib.import_module("airflow.providers.cncf.kubernetes.triggers.pod")
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook
        from kubernetes_asyncio.client import VersionApi

        async with AsyncKubernetesHook(conn_id=CONN_ID).get_conn() as connection:
            await VersionApi(connection).get_code()


class PodTriggers(Peers):
    """The Kubernetes provider's trigger for pods, with the values of its operator."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook

        super().__init__(wanted)
        self._note(AsyncKubernetesHook, "get_pod")

    def _trigger(self, name: str) -> Any:
        from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger

        return KubernetesPodTrigger(
            pod_name=name,
            pod_namespace=self.wanted["namespace"],
            trigger_start_time=datetime.now(timezone.utc),
            base_container_name="base",
            kubernetes_conn_id=CONN_ID,
        )


class JobTriggers(Peers):
    """The Kubernetes provider's trigger for Jobs, with the values of its operator."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook

        super().__init__(wanted)
        self._note(AsyncKubernetesHook, "get_job_status")

    def _trigger(self, name: str) -> Any:
        from airflow.providers.cncf.kubernetes.triggers.job import KubernetesJobTrigger

        return KubernetesJobTrigger(
            job_name=name,
            job_namespace=self.wanted["namespace"],
            pod_names=[f"{name}-0"],
            pod_namespace=self.wanted["namespace"],
            base_container_name="base",
            kubernetes_conn_id=CONN_ID,
        )


class Poll(Waiter):
    """The cheapest honest poll: one GET for each object every two seconds, over connections that stay open."""

    seconds = 2.0

    def _works(self) -> Iterator[Any]:
        api, count = Api(self.wanted["kubeconfig"]), len(self.wanted["names"])
        ready = asyncio.ensure_future(api.__aenter__())
        for at, name in enumerate(self.wanted["names"]):
            yield self._follow(api, ready, name, self.seconds * at / count)

    async def _follow(self, api: Api, ready: asyncio.Future[Api], name: str, delay: float) -> None:
        await ready
        await asyncio.sleep(delay)
        path = f"{self.wanted['path']}/{name}"
        while not _succeeded(await api.call("GET", path)):
            self.attached.add(name)
            await asyncio.sleep(self.seconds)
        self.note_end(name, True)


class Watch(Waiter):
    """The floor: one watch whose events are parsed, and nothing else."""

    api: Api

    def list_seconds(self) -> float:
        """Of the list after the last outage."""
        return self.api.list_seconds

    def _works(self) -> Iterator[Any]:
        yield self._follow()

    async def _follow(self) -> None:
        async with Api(self.wanted["kubeconfig"]) as self.api:
            self.attached.update(self.wanted["names"])
            async with aclosing(self.api.watch(self.wanted["path"])) as events:
                async for event in events:
                    if _succeeded(event["object"]):
                        self.note_end(event["object"]["metadata"]["name"], True)


CONTENDERS: dict[str, type[Waiter]] = {
    "ours": Ours,
    "pod trigger": PodTriggers,
    "job trigger": JobTriggers,
    "poll": Poll,
    "watch": Watch,
}


class Lag:
    """How late the event loop is: a task that wants to wake up after five milliseconds notes by how much it was not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start over."""
        self.stop()
        self.seconds = []
        self._task = asyncio.create_task(self._probe(self.seconds))

    def stop(self) -> None:
        """Cost nothing any more."""
        if self._task:
            self._task.cancel()

    async def _probe(self, seconds: list[float]) -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(_PROBE_SECONDS)
            seconds.append(time.monotonic() - begun - _PROBE_SECONDS)


def _succeeded(thing: dict[str, Any]) -> bool:
    conditions = thing.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Succeeded" and each["status"] == "True" for each in conditions)


def _resident() -> int:
    """Bytes of memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _questions() -> AsyncIterator[str]:
    reader = asyncio.StreamReader(limit=2**28)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode()


def _answers(waiter: Waiter, lag: Lag) -> dict[str, Callable[[], Any]]:
    return {
        "counts": lambda: (len(waiter.attached), len(waiter.events)),
        "cpu": time.process_time,
        "resident": _resident,
        "probe": lag.start,
        "rest": lag.stop,
        "lag": lambda: lag.seconds,
        "events": lambda: waiter.events,
        "list seconds": waiter.list_seconds,
    }


async def main(contender: str) -> None:
    """Wait, and answer questions until there are no more."""
    kind = CONTENDERS[contender]
    # What triggers log is written, and not read, as it costs them the same everywhere.
    logging.basicConfig(filename=os.devnull, level=logging.INFO, force=True)
    await kind.prepare()
    empty = _resident()
    questions = _questions()
    waiter = kind(json.loads(await anext(questions)))
    lag = Lag()
    answers = _answers(waiter, lag)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    lag.start()
    waiter.start()
    print(json.dumps(empty), file=out)
    async for line in questions:
        print(json.dumps(answers[line.strip()]()), file=out)
    # Nothing is left to be done well: what waits here waits for nothing.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
