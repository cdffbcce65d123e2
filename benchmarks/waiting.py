"""Waiting for many jobs at once, beside what waits for them without this provider.

Each contender waits in a process of its own with one event loop, as a triggerer does, for 1 up to 5,000 objects that
run, and are ended by hand. Contenders take turns on the same objects.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from airflow_trainer_provider.timeouts import with_timeout
from benchmarks.api import Api, at_once
from benchmarks.cluster import Bench, bench_namespace, running_cluster
from benchmarks.populations import Jobs, Pods, Population, TrainJobs, some, train_job
from benchmarks.report import Panel, figure, heading, number, percentile, plot, raw, table, verdict
from tests.cluster.faults import Faults

#: Contender -> what it waits for. Ours comes last of those that wait for the same objects: it may use them up.
CONTENDERS: dict[str, type[Population]] = {
    "pod trigger": Pods,
    "job trigger": Jobs,
    "poll": TrainJobs,
    "watch": TrainJobs,
    "ours": TrainJobs,
}
NAMES = {
    "ours": "this provider",
    "pod trigger": "KubernetesPodTrigger",
    "job trigger": "KubernetesJobTrigger",
    "poll": "GET every 2 s",
    "watch": "bare watch",
}
_SECOND_IN_MS = 1e3
#: The pause between two probes, and what a busy machine adds; seconds. A list of all jobs comes on top, which the API
#: server serves after the bare watch's own.
MOST_BEHIND = 0.5


@dataclass(frozen=True)
class Plan:
    """How long it takes.

    :param counts: how many jobs are waited for.
    :param settle: seconds from when all jobs are found until the steady state: what is asked for once only, such as
        the warnings about jobs that have no pods after some seconds, is no part of it.
    :param window: seconds of the steady state that are measured; of the job trigger at least ``job_window``.
    :param long_window: the same from 1,000 jobs on.
    :param job_window: two of the job trigger's intervals.
    :param ends: how many jobs end one after the other.
    :param spread: the seconds over which they do: no shorter than the longest interval of a contender, else who polls
        is looking at a lucky, or an unlucky, moment.
    :param timeout: seconds until an end that has not been reported counts as missing.
    :param attach: seconds that it may take to find all jobs.
    :param restart_at: the count of jobs at which the API server is restarted; None for never.
    :param restarts: how long it is down each time, in seconds, beside what it takes to start.
    :param all_from: the count of jobs from which on the poll and the bare watch, too, take part.
    :param pollers_to: the count of jobs up to which those that poll take part: with more, two cores are not enough for
        what they ask, and what they do then says little.
    """

    counts: Sequence[int] = (1, 10, 100, 1000, 5000)
    settle: float = 8
    window: float = 6
    long_window: float = 20
    job_window: float = 20
    ends: int = 200
    spread: float = 10
    timeout: float = 12
    attach: float = 60
    restart_at: int | None = 1000
    restarts: Sequence[float] = (0, 0.5, 1, 2, 3, 5, 8, 12, 18, 25)
    all_from: int = 100
    pollers_to: int = 1000

    def seconds(self, contender: str, count: int) -> float:
        """Of the steady state."""
        if contender == "watch":
            return 1
        least = self.job_window if contender == "job trigger" else 0
        return max(least, self.long_window if count >= 1000 else self.window)


#: Shows that it works, and no more.
QUICK = Plan(counts=(1, 5), settle=2, window=2, job_window=2, ends=2, spread=1, timeout=12, restart_at=None, all_from=1)


@dataclass
class Figures:
    """What was measured of one contender with so many jobs.

    :param attached: how many it found in the time that it had.
    :param attach_seconds: until it had found the last of them.
    :param requests: that reach the API server in a minute; watches that are held count as one each.
    :param cpu: seconds of CPU in a minute.
    :param kib: memory for each job over the process that waits for none, in KiB.
    :param lag: of the event loop in milliseconds: p50 and p99, in the steady state and while jobs end.
    :param attach_lag: p99 while it finds its jobs.
    :param latency: milliseconds from the end's PATCH to the event: p50 and p99.
    :param ended: how many jobs ended.
    :param reported: of how many of them that was reported in time.
    :param wrong: events that are not true.
    :param all_seconds: until the ends of all jobs were reported that ended at once.
    :param recovery: milliseconds of latency of jobs that end when the API server answers again after a restart: p50 and
        the longest.
    :param behind: seconds by which such an end reached this contender after a bare watch, at most, without the time
        that the bare watch's own list took after that restart: the two are served one after the other.
    :param lost: jobs whose wait has failed by the restarts or did not report its end.
    """

    contender: str
    count: int
    attached: int = 0
    attach_seconds: float = 0
    requests: float = 0
    cpu: float = 0
    kib: float = 0
    lag: tuple[float, float] = (0, 0)
    attach_lag: float = 0
    latency: tuple[float, float] | None = None
    ended: int = 0
    reported: int = 0
    wrong: int = 0
    all_seconds: float | None = None
    recovery: tuple[float, float] | None = None
    behind: float | None = None
    lost: int | None = None


class Client:
    """A process that waits.

    :param process: it.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, question: str) -> Any:
        """Ask one of the questions of :mod:`benchmarks.waiting_client`, or give it what to wait for."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question.encode() + b"\n")
        await self._process.stdin.drain()
        answer = await self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that waits has ended")
        return json.loads(answer)


@asynccontextmanager
async def waiting_process(bench: Bench, *program: str) -> AsyncIterator[Client]:
    """A process that waits, which is ended afterwards.

    :param bench: where.
    :param program: a module that answers questions, and its arguments.
    """
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile("w+") as errors:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "KUBE"))}
        env |= {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False", **bench.connection}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *program),
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=2**28,
        )
        try:
            yield Client(process)
        except BaseException:
            errors.seek(0)
            print(errors.read()[-3000:], file=sys.stderr)
            raise
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


class Measurement:
    """One contender with so many jobs.

    :param bench: where.
    :param api: as the administrator.
    :param population: what it waits for; as many run as it should wait for.
    """

    def __init__(self, bench: Bench, api: Api, population: Population, contender: str, plan: Plan) -> None:
        self.bench = bench
        self.api = api
        self.population = population
        self.plan = plan
        self.figures = Figures(contender, len(population.running))

    async def run(self, *, restart: bool, all_end: bool) -> Figures:
        """Measure.

        :param restart: restart the API server at the end.
        :param all_end: let all jobs end.
        """
        figures = self.figures
        await asyncio.sleep(1)
        held = await self.api.watches()
        async with waiting_process(self.bench, "benchmarks.waiting_client", figures.contender) as client:
            empty = await client.ask(json.dumps(self._wanted()))
            await self._attach(client)
            await asyncio.sleep(self.plan.settle)
            await self._steady(client, held)
            figures.kib = (await client.ask("resident") - empty) / 1024 / figures.count
            await client.ask("probe")
            await asyncio.sleep(1)
            await self._ends(client)
            lag = await client.ask("lag")
            figures.lag = (percentile(lag, 50) * _SECOND_IN_MS, percentile(lag, 99) * _SECOND_IN_MS)
            await client.ask("rest")
            if all_end:
                begun = time.monotonic()
                await self._end(client, list(self.population.running), spread=None, timeout=60)
                figures.all_seconds = time.monotonic() - begun
            if restart:
                await self._restart(client)
        return figures

    def _wanted(self) -> dict[str, Any]:
        names, population = list(self.population.running), self.population
        handles = {name: population.handle(name) for name in names} if isinstance(population, TrainJobs) else {}
        return {
            "names": names,
            "namespace": self.bench.namespace,
            "path": population.path,
            "handles": handles,
            "startup_timeout": train_job().spec.run_policy.startup_timeout_seconds,
            "kubeconfig": self.bench.kubeconfig,
        }

    async def _attach(self, client: Client) -> None:
        figures, begun = self.figures, time.monotonic()
        while figures.attached < figures.count and time.monotonic() - begun < self.plan.attach:
            await asyncio.sleep(0.05)
            figures.attached, _ = await client.ask("counts")
            figures.attach_seconds = time.monotonic() - begun
        figures.attach_lag = percentile(await client.ask("lag"), 99) * _SECOND_IN_MS
        await client.ask("rest")

    async def _steady(self, client: Client, held: int) -> None:
        figures, flow = self.figures, self.bench.flow
        seconds = self.plan.seconds(figures.contender, figures.count)
        held = await self.api.watches() - held
        before, cpu, begun = await self.api.requests(flow), await client.ask("cpu"), time.monotonic()
        await asyncio.sleep(seconds)
        calls, watches = (now - then for now, then in zip(await self.api.requests(flow), before, strict=True))
        cpu, minutes = await client.ask("cpu") - cpu, (time.monotonic() - begun) / 60
        # A watch lives for minutes, and few begin in so short a time, or none: each that is held counts as one.
        figures.requests, figures.cpu = calls / minutes + max(held, watches), cpu / minutes

    async def _ends(self, client: Client) -> None:
        figures = self.figures
        names = some(list(self.population.running), min(self.plan.ends, figures.count))
        latencies = await self._end(client, names, self.plan.spread, self.plan.timeout)
        if latencies:
            figures.latency = (percentile(latencies, 50), percentile(latencies, 99))

    async def _end(self, client: Client, names: Sequence[str], spread: float | None, timeout: float) -> list[float]:
        """Let jobs end, and wait until that is reported.

        :param spread: over so many seconds; None for as fast as can be.
        :return: milliseconds from each one's PATCH to its event.
        """
        figures, begun = self.figures, {}
        already = (await client.ask("counts"))[1]

        async def one(name: str, delay: float) -> None:
            await asyncio.sleep(delay)
            begun[name] = await self.population.end(name)

        if spread is None:
            await at_once(lambda name: one(name, 0), names)
        else:
            await asyncio.gather(*(one(name, at * spread / len(names)) for at, name in enumerate(names)))
        last = time.monotonic()
        while time.monotonic() - last < timeout:
            if (await client.ask("counts"))[1] >= already + len(names):
                break
            await asyncio.sleep(0.2)
        events = await client.ask("events")
        reported = {name: at for name, (at, well) in events.items() if name in begun and well}
        figures.ended += len(names)
        figures.reported += len(reported)
        figures.wrong = sum(name in self.population.running or not well for name, (_, well) in events.items())
        return [(at - begun[name]) * _SECOND_IN_MS for name, at in reported.items()]

    async def _restart(self, client: Client) -> None:
        """Restart the API server; each time jobs end as soon as it answers again. Peers are restarted once."""
        figures, own, plan = self.figures, self.bench.access.own, self.plan
        assert own is not None
        faults, latencies, ended = Faults(own), list[float](), 0
        reported, wrong = figures.reported, figures.wrong
        async with waiting_process(self.bench, "benchmarks.waiting_client", "watch") as floor:
            await floor.ask(json.dumps(self._wanted()))
            for seconds in plan.restarts if figures.contender == "ours" else plan.restarts[:1]:
                await asyncio.to_thread(_restart_api_server, faults, seconds)
                names = some(list(self.population.running), 10)
                latencies += await self._end(client, names, None, 4 * plan.timeout)
                ended += len(names)
                first = await with_timeout(_events_with(floor, names), 4 * plan.timeout)
                events = await client.ask("events")
                listed = await floor.ask("list seconds")
                behind = [events[name][0] - first[name][0] - listed for name in names if name in events]
                print(f"restart of {seconds} s: {max(behind):.2f} s behind, list {listed:.2f} s", flush=True)
                figures.behind = max([figures.behind or 0, *behind])
        if latencies:
            figures.recovery = (percentile(latencies, 50), max(latencies))
        figures.lost = figures.wrong - wrong + ended - (figures.reported - reported)


async def _events_with(client: Client, names: Sequence[str]) -> dict[str, Any]:
    """The events of a contender, once it has reported the ends of some jobs."""
    while True:
        events: dict[str, Any] = await client.ask("events")
        if events.keys() >= set(names):
            return events
        await asyncio.sleep(0.2)


def _restart_api_server(faults: Faults, seconds: float) -> None:
    with faults.api_server_stopped():
        time.sleep(seconds)


async def measure(plan: Plan) -> list[Figures]:
    """All contenders, with each count of jobs.

    :param plan: how long it takes.
    """
    found = []
    with bench_namespace() as bench:
        async with Api(bench.admin_kubeconfig) as api:
            populations = {kind: kind(api, bench.namespace) for kind in CONTENDERS.values()}
            for count in plan.counts:
                for contender, kind in CONTENDERS.items():
                    if count < plan.all_from and contender in ("poll", "watch"):
                        continue
                    if count > plan.pollers_to and contender not in ("ours", "watch"):
                        continue
                    await populations[kind].fill(count)
                    measurement = Measurement(bench, api, populations[kind], contender, plan)
                    figures = await measurement.run(
                        restart=count == plan.restart_at
                        and bench.access.own is not None
                        and contender in ("ours", "pod trigger"),
                        all_end=contender == "ours" and count == max(plan.counts),
                    )
                    print("measured:", "  ".join(_row(figures)), flush=True)
                    found.append(figures)
    return found


def main(*, quick: bool = False) -> bool:
    """Print the table.

    :param quick: only show that it works.
    :return: whether the bounds were held.
    """
    heading("Waiting for many jobs at once")
    with running_cluster():
        figures = asyncio.run(measure(QUICK if quick else Plan()))
    raw([asdict(each) for each in figures])
    table(_COLUMNS, [_row(each) for each in figures])
    _plot(figures)
    verdicts = [verdict(text, held) for text, held in _bounds(figures)]
    return all(verdicts)


_COLUMNS = (
    "jobs", "who waits", "requests / min", "CPU s / min", "KiB / job", "lag p50 / p99 ms", "end to event p50 / p99 ms",
    "found all in s", "ends reported", "after restarts p50 / most ms",
)  # fmt: skip


def _row(each: Figures) -> tuple[str, ...]:
    every = each.attached == each.count
    steady = each.contender != "watch"
    return (
        f"{each.count:,}",
        NAMES[each.contender],
        number(each.requests) if steady else "",
        number(each.cpu) if steady else "",
        number(each.kib) if steady and each.count >= 100 else "",
        f"{number(each.lag[0])} / {number(each.lag[1])}",
        f"{number(each.latency[0])} / {number(each.latency[1])}" if each.latency else "none reported",
        (f"{each.attach_seconds:.1f}" if every else f"{each.attached:,} in {each.attach_seconds:.0f}")
        if steady
        else "",
        f"{each.reported:,} of {each.ended:,}" + (f", {each.wrong:,} wrong" if each.wrong else ""),
        (f"{number(each.recovery[0])} / {number(each.recovery[1])}" if each.recovery else "none reported")
        + (f", {each.lost:,} lost" if each.lost else "")
        if each.lost is not None
        else "",
    )


#: A bound: its text, and whether it is held.
_Bound = tuple[str, bool]


def _bounds(figures: Sequence[Figures]) -> list[_Bound]:
    """Each bound that the measured counts of jobs allow to judge."""
    at = {(each.contender, each.count): each for each in figures}
    many, most, few = at.get(("ours", 1000)), at.get(("ours", 5000)), at.get(("ours", 100))
    bounds: list[_Bound] = []
    if many:
        pods, jobs, floor = (at[who, 1000] for who in ("pod trigger", "job trigger", "watch"))
        bounds += [*_bounds_of_cost(many, pods, jobs), *_bounds_of_delay(many, floor), *_bounds_of_recovery(many, pods)]
    if most and few:
        ratio = most.requests / max(few.requests, 1)
        bounds.append((f"5,000 jobs: at most 1.2 x the requests of 100 jobs: {ratio:.2f} x", ratio <= 1.2))
    if most:
        fine = most.attached == most.count and most.attach_seconds < 30
        bounds.append((f"5,000 jobs: found in under 30 s: {most.attached:,} in {most.attach_seconds:.1f} s", fine))
    last = max(figures, key=lambda each: (each.contender == "ours", each.count))
    fine = last.reported == last.ended and not last.wrong
    text = f"{last.count:,} jobs: all ends reported: {last.reported:,} of {last.ended:,}, {last.wrong} wrong"
    return [*bounds, (text, fine)]


def _bounds_of_cost(many: Figures, pods: Figures, jobs: Figures) -> Iterator[_Bound]:
    for name, peer, least in (("pod trigger", pods, 500), ("job trigger", jobs, 100)):
        ratio = peer.requests / many.requests
        yield f"1,000 jobs: at least {least} x fewer requests than the {name}: {ratio:,.0f} x", ratio >= least
    ratio = pods.cpu / max(many.cpu, 1e-3)
    yield f"1,000 jobs: at least 50 x less CPU than the pod trigger: {ratio:,.0f} x", ratio >= 50
    yield f"1,000 jobs: at most 20 KiB of memory per job: {many.kib:.1f} KiB", many.kib <= 20


def _bounds_of_delay(many: Figures, floor: Figures) -> Iterator[_Bound]:
    for name, place, most_ratio in (("p50", 0, 3), ("p99", 1, 10)):
        ours, least_ms = (each.latency[place] if each.latency else float("inf") for each in (many, floor))
        text = f"1,000 jobs: end to event, {name}, at most {most_ratio} x the bare watch's {least_ms:.1f} ms: "
        yield f"{text}{ours:.1f} ms", ours <= most_ratio * least_ms
    yield f"1,000 jobs: event loop's lag p99 under 20 ms: {many.lag[1]:.1f} ms", many.lag[1] < 20


def _bounds_of_recovery(many: Figures, pods: Figures) -> Iterator[_Bound]:
    if many.recovery and pods.recovery:
        # An API server that starts takes changes seconds before it serves watches, on either's account.
        slowest, peer_slowest = (each.recovery[1] / _SECOND_IN_MS for each in (many, pods))
        text = f"1,000 jobs: ends reported after ten restarts, at most the pod trigger's {peer_slowest:.2f} s"
        yield f"{text} after one: {slowest:.2f} s", slowest <= peer_slowest
    if many.behind is not None:
        text = f"1,000 jobs: ends after ten restarts, at most {MOST_BEHIND} s and a list after a bare watch"
        yield f"{text}: {many.behind:.2f} s", many.behind <= MOST_BEHIND


def _plot(figures: Sequence[Figures]) -> None:
    def series(value: Any, without: Sequence[str] = ("watch",)) -> dict[str, list[tuple[float, float]]]:
        return {
            NAMES[who]: [(each.count, value(each)) for each in figures if each.contender == who and value(each)]
            for who in NAMES
            if who not in without
        }

    panels = [
        Panel("Requests to the API server / min", series(lambda each: each.requests)),
        Panel("CPU of the client, s / min", series(lambda each: each.cpu)),
        Panel("End of the job to event, p50, ms", series(lambda each: each.latency and each.latency[0], ())),
        Panel("Event loop's lag, p99, ms", series(lambda each: each.lag[1], ())),
    ]
    plot("waiting", "jobs that are waited for", panels)
    figure("waiting", "What waiting costs, by the number of jobs")
