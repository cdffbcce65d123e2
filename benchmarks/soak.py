"""Ten bad minutes: jobs that end in all ways, while the API server and the way to it fail again and again.

One process waits for a thousand jobs, as a triggerer does; a new job takes the place of each that ends. Its requests
go through a proxy that cuts, refuses and forgets, and the API server itself is killed now and then. In the end each
job must have had its event: once, not before its end, and the right one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from aiohttp import web

from benchmarks.api import Api, at_once
from benchmarks.cluster import Bench, bench_namespace, running_cluster
from benchmarks.populations import TrainJobs, now, train_job
from benchmarks.report import heading, number, percentile, raw, table, verdict
from benchmarks.waiting import Client, waiting_process
from tests.cluster.faults import Faults
from tests.cluster.proxy import FaultProxy, Rule

#: A run is repeated by giving its seed.
SEED_VARIABLE = "SOAK_SEED"
#: How jobs end -> how often.
ENDS = {"succeeded": 60, "failed": 25, "deleted": 15}
#: What goes wrong in each round, in random order.
ROUND = ("restart", *("cut", "torn", "busy", "expired") * 2)
FAULTS = {
    "restart": "the API server is killed and started",
    "cut": "all connections are cut",
    "torn": "and the next watches are cut in the middle of an event",
    "busy": "and the next requests are answered 429",
    "expired": "and the next watches are answered 410",
}
# An end so long after a fault may still be reported later for it; seconds.
_AFTERMATH = 5
_REASONS = ("PyTorchJobFailed", "BackoffLimitExceeded", "DeadlineExceeded")
_WATCHES = "watch=true"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Plan:
    """How long it takes, and how hard it is.

    :param jobs: how many are waited for at any time.
    :param seconds: for which faults happen and jobs end at random.
    :param rate: jobs that end in a second.
    :param gap: seconds between two faults, on average.
    :param timeout: seconds after the last fault within which all ends have to be reported.
    :param growth: MiB by which the process may have grown at the end.
    """

    jobs: int = 1000
    seconds: float = 540
    rate: float = 4
    gap: float = 6
    timeout: float = 60
    growth: float = 20


#: Shows that it works.
QUICK = Plan(jobs=50, seconds=50, rate=1, gap=2.5)


@dataclass
class Job:
    """A job that is waited for.

    :param name: of it.
    :param end: how it was made to end; empty while it runs.
    :param reason: why it has failed.
    :param asked: when its end was asked for first, by the monotonic clock.
    :param done: when the request was sent that was answered.
    :param events: what was reported of it: when, and the event's payload.
    """

    name: str
    end: str = ""
    reason: str = ""
    asked: float = 0
    done: float = 0
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    @property
    def latency(self) -> float:
        """Milliseconds from its end to its event."""
        # A request whose answer was lost on the way may have done it all the same.
        return max(self.events[0][0] - self.done, 0) * 1e3

    def complaint(self) -> str | None:
        """What is wrong with what was reported of it; None where nothing is."""
        if not self.end:
            return f"{self.name} runs, and was reported to have ended: {self.events[0][1]}" if self.events else None
        if len(self.events) != 1:
            return f"{self.name} has {self.end}, and {len(self.events)} events were reported"
        at, payload = self.events[0]
        if at < self.asked:
            return f"{self.name} has {self.end}, and was reported so {self.asked - at:.3f} s too early"
        return None if self._is_right(payload) else f"{self.name} has {self.end}, and was reported to be {payload}"

    def _is_right(self, payload: dict[str, Any]) -> bool:
        if self.end == "deleted":
            return payload["end"] == "error" and f"{self.name} is gone" in payload["message"]
        if payload["end"] != "concluded":
            return False
        summary, failure = payload["summary"], payload["failure"]
        if self.end == "succeeded":
            return failure is None and (summary["name"], summary["phase"]) == (self.name, "succeeded")
        return summary is None and (failure["job"], failure["reason"]) == (self.name, self.reason)


@dataclass(frozen=True)
class Fault:
    """What went wrong, and from when to when."""

    kind: str
    begun: float
    ended: float


class Population(TrainJobs):
    """Jobs that are made and ended whatever the API server is up to."""

    async def add(self) -> str:
        """Have one more that runs.

        :return: its name.
        """
        self.made += 1
        made = await self._create(self.made)
        name: str = made["metadata"]["name"]
        self.running[name] = made
        return name

    async def finish(self, job: Job) -> None:
        """Have one end as it says."""

        async def attempt() -> None:
            job.done = time.monotonic()
            if job.end == "deleted":
                await self._delete(job.name)
            else:
                status = self._succeeded() if job.end == "succeeded" else self._failed(job.reason)
                await self.api.patch(f"{self.path}/{job.name}/status", {"status": status})

        job.asked = time.monotonic()
        await _insist(attempt, enough="404")

    async def forget(self, name: str) -> None:
        """Delete one that has ended."""
        await _insist(lambda: self._delete(name), enough="404")

    async def _create(self, number: int) -> Any:
        manifest = self._manifest(number)
        await _insist(lambda: self.api.call("POST", self.path, manifest), enough="409")
        path = f"{self.path}/{manifest['metadata']['name']}/status"
        return await _insist(lambda: self.api.patch(path, {"status": self._running_status()}))

    def _failed(self, reason: str) -> dict[str, Any]:
        status = self._succeeded()
        status["conditions"][-1] |= {"type": "Failed", "reason": reason, "message": "it was made to"}
        return status | {"replicaStatuses": {"Worker": {"failed": 2}}, "completionTime": now()}


async def _insist(request: Callable[[], Awaitable[_T]], enough: str = "") -> _T | None:
    """Ask until the API server does it.

    :param request: one attempt.
    :param enough: the status by which it says that an earlier attempt has done it.
    """
    while True:
        try:
            return await request()
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
            pass
        except RuntimeError as error:
            status = str(error).split(": ", 1)[1][:3]
            if status == enough:
                return None
            if status not in ("401", "403", "429") and status < "500":
                raise
        await asyncio.sleep(0.2)


class Line(FaultProxy):
    """The way to the API server. All connections over it can be cut at once.

    :param kubeconfig: the real cluster.
    """

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig)
        self._open: set[asyncio.Transport] = set()

    def __enter__(self) -> Line:
        super().__enter__()
        return self

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        self._open.add(transport)
        try:
            return await super()._handle(request)
        finally:
            self._open.discard(transport)

    def cut_all(self) -> int:
        """Cut what is open now.

        :return: how many requests were under way.
        """
        return asyncio.run_coroutine_threadsafe(self._cut_all(), self._loop).result(10)

    async def _cut_all(self) -> int:
        under_way = list(self._open)
        for transport in under_way:
            transport.abort()
        return len(under_way)


class Storm:
    """Faults, one after the other.

    :param line: the way to the API server.
    :param server: breaks the API server; None where none may.
    :param chance: what is random here.
    """

    def __init__(self, line: Line, server: Faults | None, chance: random.Random) -> None:
        self._line = line
        self._server = server
        self._chance = chance
        self.faults: list[Fault] = []
        #: Kind -> how many requests met it.
        self.hits: Counter[str] = Counter()
        self._rule: tuple[str, Rule] | None = None

    async def rage(self, seconds: float, gap: float) -> None:
        """Let things go wrong.

        :param seconds: for so long.
        :param gap: seconds between two, on average.
        """
        until, left = time.monotonic() + seconds, list[str]()
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.8) * gap)
            if time.monotonic() > until:
                break
            left = left or self._chance.sample(ROUND, len(ROUND))
            kind = left.pop()
            if kind == "restart" and self._server is None:
                continue
            begun = time.monotonic()
            await asyncio.to_thread(self._strike, kind)
            self.faults.append(Fault(kind, begun, time.monotonic()))
        self._calm()

    def _strike(self, kind: str) -> None:
        self._calm()
        if kind == "restart":
            assert self._server is not None
            self.hits[kind] += 1
            self._server.restart_api_server()
            return
        times = self._chance.randint(1, 4)
        if kind == "torn":
            self._rule = kind, self._line.cut(path=_WATCHES, after=self._chance.randint(1, 20_000), times=times)
        elif kind == "busy":
            self._rule = kind, self._line.answer(429, reason="TooManyRequests", retry_after=1, times=3 * times)
        elif kind == "expired":
            self._rule = kind, self._line.expire_watch(path=_WATCHES, times=times)
        self.hits["cut"] += self._line.cut_all()

    def _calm(self) -> None:
        self._line.heal()
        if self._rule:
            kind, rule = self._rule
            self.hits[kind] += rule.hits
        self._rule = None


@dataclass
class Found:
    """The results of the soak.

    :param seed: of what was random.
    :param jobs: all that were waited for.
    :param faults: what went wrong.
    :param hits: kind of fault -> how many requests met it.
    :param settled: seconds from the last fault until all ends so far had been reported; None where they were not.
    :param at_once: when all that were left were ended at once, by the monotonic clock.
    :param last: seconds until that had been reported; None where it was not.
    :param resident: bytes of the process with all its jobs, before and after.
    """

    seed: int
    jobs: Sequence[Job] = ()
    faults: Sequence[Fault] = ()
    hits: dict[str, int] = field(default_factory=dict)
    settled: float | None = None
    at_once: float = 0
    last: float | None = None
    resident: tuple[int, int] = (0, 0)

    @property
    def growth(self) -> float:
        """Of the process in MiB."""
        return (self.resident[1] - self.resident[0]) / 2**20

    @property
    def complaints(self) -> list[str]:
        """What is wrong with what was reported."""
        return [complaint for job in self.jobs if (complaint := job.complaint())]

    def times(self, job: Job) -> str:
        """What times they were when a job ended and was reported to have."""
        if job.asked >= self.at_once:
            return "came all at once, afterwards"
        met = any(fault.begun < job.events[0][0] and fault.ended > job.asked - _AFTERMATH for fault in self.faults)
        return "met a fault" if met else "met none"


class Soak:
    """One run.

    :param population: the jobs.
    :param client: the process that waits for them.
    :param plan: how long it takes.
    :param chance: what is random here.
    """

    def __init__(self, population: Population, client: Client, plan: Plan, chance: random.Random) -> None:
        self._population = population
        self._client = client
        self._asking = asyncio.Lock()
        self._plan = plan
        self._chance = chance
        self._tasks: list[asyncio.Task[None]] = []
        self.jobs: dict[str, Job] = {}

    async def run(self, storm: Storm, found: Found) -> None:
        """Run, and record the results."""
        population, plan = self._population, self._plan
        await population.fill(plan.jobs)
        await self._wait_for(population.running)
        listening = asyncio.create_task(self._listen())
        await self._attach()
        await asyncio.sleep(2)
        first = await self._ask("resident")
        ending = asyncio.create_task(self._end_some())
        await storm.rage(plan.seconds, plan.gap)
        await _end_of(ending)
        await asyncio.gather(*self._tasks)
        found.settled = await self._settle()
        # The objects of ended jobs go a moment after their events.
        await asyncio.sleep(2)
        found.resident = (first, await self._ask("resident"))
        found.at_once = time.monotonic()
        await at_once(self._end, list(population.running))
        found.last = await self._settle()
        # An event too many may come a moment later.
        await asyncio.sleep(2)
        await _end_of(listening)
        await asyncio.gather(*self._tasks)
        found.jobs, found.faults, found.hits = list(self.jobs.values()), storm.faults, dict(storm.hits)

    async def _attach(self) -> None:
        """Wait until the process has found all jobs."""
        until = time.monotonic() + self._plan.timeout
        while (attached := await self._ask("attached")) < self._plan.jobs:
            if time.monotonic() > until:
                raise RuntimeError(f"after {self._plan.timeout:.0f} s, {attached} of {self._plan.jobs} jobs are found")
            await asyncio.sleep(0.2)

    async def _wait_for(self, names: Iterable[str]) -> None:
        handles = {name: self._population.handle(name) for name in names}
        self.jobs |= {name: Job(name) for name in handles}
        await self._ask({"wait": handles})

    async def _ask(self, question: Any) -> Any:
        async with self._asking:
            return await self._client.ask(json.dumps(question))

    async def _listen(self) -> None:
        """Process what is reported."""
        while True:
            for name, at, payload in await self._ask("news"):
                job = self.jobs[name]
                job.events.append((at, payload))
                if job.end in ("succeeded", "failed"):
                    self._tasks.append(asyncio.create_task(self._population.forget(name)))
            await asyncio.sleep(0.2)

    async def _end_some(self) -> None:
        """Let jobs end now and then, each with one to take its place."""
        while True:
            await asyncio.sleep(self._chance.expovariate(self._plan.rate))
            name = self._chance.choice(list(self._population.running))
            self._tasks.append(asyncio.create_task(self._replace(name)))

    async def _replace(self, name: str) -> None:
        await self._end(name)
        await self._wait_for([await self._population.add()])

    async def _end(self, name: str) -> None:
        job = self.jobs[name]
        job.end = self._chance.choices(list(ENDS), list(ENDS.values()))[0]
        job.reason = self._chance.choice(_REASONS) if job.end == "failed" else ""
        del self._population.running[name]
        await self._population.finish(job)

    async def _settle(self) -> float | None:
        """Wait until all ends so far have been reported.

        :return: how long that took in seconds; None where the timeout has passed.
        """
        begun = time.monotonic()
        while (seconds := time.monotonic() - begun) < self._plan.timeout:
            if all(job.events for job in self.jobs.values() if job.end):
                return seconds
            await asyncio.sleep(0.2)
        return None


async def _end_of(task: asyncio.Task[None]) -> None:
    """End what would go on for ever. Raises what went wrong in it."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def soak(plan: Plan, seed: int) -> Found:
    """Run.

    :param plan: how long it takes.
    :param seed: of what is random.
    """
    found = Found(seed)
    # It logs each request that finds no API server.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    with bench_namespace() as bench, Line(Path(bench.access.kubectl.kubeconfig)) as line:
        server = Faults(bench.access.own) if bench.access.own else None
        storm = Storm(line, server, random.Random(seed))
        through: Bench = replace(bench, kubeconfig=line.kubeconfig)
        timeout = json.dumps(train_job().spec.run_policy.startup_timeout_seconds)
        async with (
            Api(bench.admin_kubeconfig) as api,
            waiting_process(through, "benchmarks.soak_client", timeout) as client,
        ):
            population = Population(api, bench.namespace)
            await Soak(population, client, plan, random.Random(seed + 1)).run(storm, found)
    return found


def main(*, quick: bool = False) -> bool:
    """Print the results.

    :param quick: only show that it works.
    :return: whether all was well.
    """
    seed = int(os.environ.get(SEED_VARIABLE) or random.randrange(2**32))
    plan = QUICK if quick else Plan()
    heading(f"{plan.jobs:,} jobs in bad times")
    print(f"{SEED_VARIABLE}={seed}\n", flush=True)
    with running_cluster():
        found = asyncio.run(soak(plan, seed))
    return _print(found, plan)


def _print(found: Found, plan: Plan) -> bool:
    raw({**asdict(found), "jobs": len(found.jobs), "plan": asdict(plan), "complaints": found.complaints})
    table(("jobs that", *_COLUMNS), [_row(end, [job for job in found.jobs if job.end == end]) for end in ENDS])
    times: dict[str, list[Job]] = {"met a fault": [], "met none": [], "came all at once, afterwards": []}
    for job in found.jobs:
        if job.events and job.end:
            times[found.times(job)].append(job)
    table(("ends that", *_COLUMNS), [_row(*each) for each in times.items()])
    counts = Counter(fault.kind for fault in found.faults)
    table(
        ("what went wrong", "times", "requests that met it"),
        [(text, f"{counts[kind]}", f"{found.hits.get(kind, 0)}") for kind, text in FAULTS.items()],
    )
    complaints = found.complaints
    for complaint in complaints[:20]:
        print(complaint)
    right, every = len(found.jobs) - len(complaints), len(found.jobs)
    verdicts = [
        verdict(f"each job's event was reported once, and was right: {right:,} of {every:,}", right == every),
        _in_time(f"all reported within {plan.timeout:.0f} s after the last fault", found.settled),
        _in_time(f"{plan.jobs:,} ends at once reported within {plan.timeout:.0f} s", found.last),
        verdict(
            f"the process grew by at most {plan.growth:.0f} MiB, of {found.resident[0] / 2**20:.0f}: "
            f"{found.growth:.1f} MiB",
            found.growth <= plan.growth,
        ),
    ]
    return all(verdicts)


_COLUMNS = ("number", "end to event p50 ms", "p99 ms", "most ms")


def _row(name: str, jobs: Sequence[Job]) -> tuple[str, ...]:
    latencies = [job.latency for job in jobs if job.events]
    figures = (percentile(latencies, 50), percentile(latencies, 99), max(latencies, default=0))
    return (name, f"{len(jobs):,}", *map(number, figures))


def _in_time(text: str, seconds: float | None) -> bool:
    return verdict(f"{text}: {'no' if seconds is None else f'{seconds:.1f} s'}", seconds is not None)
