"""What a seed decides of a storm: its jobs, how their pods live, and who reads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from airflow_trainer_provider.errors import ApiError
from tests.unit.cluster.logs.storm.nodes import NODES, TRAINING, Life

#: As many permits as the product has: more than there are containers.
ENOUGH = 500
#: Every so many storms has this many pods, or one or two more.
_LARGE, _PODS_OF_LARGE = 50, 200


@dataclass(frozen=True)
class Weather:
    """What is likely in a storm: of each of these, one value is drawn where it is needed.

    :param lags: how late the watch of the pods is, at most, in seconds.
    :param nodes: how nodes answer.
    :param pauses: before a line, in seconds.
    :param lines: how many a run writes.
    :param runs: how often a container is started.
    :param deleted: how long after its end a pod is deleted, in seconds; None for never.
    :param ends: how long after its last pod a job has ended, in seconds; below 0 so long after its begin.
    :param begins: when the first reader begins, in seconds.
    :param stalls: how likely it is that a line is not taken at once, and for how long.
    :param limits: how many logs are followed at a time.
    :param replicas: how many a job has: the least and the most.
    :param careless: whether who follows swallows a cancellation that comes together with a line.
    """

    lags: Sequence[float] = (0, 0, 0, 1, 5)
    nodes: Sequence[str] = (*["healthy"] * 9, *NODES)
    pauses: Sequence[float] = (0, 0, 0, 0.001, 0.25, 0.25, 1, 5, 20)
    lines: tuple[int, int] = (0, 30)
    runs: Sequence[int] = (1, 1, 1, 2, 2, 4)
    sidecar: float = 0.3
    deleted: Sequence[float | None] = (*[None] * 12, 0, 0.25, 2, 15, 60)
    ends: Sequence[float] = (0, 0, 0.25, 3, 30, 0, 3, 30, -5, -60, -200)
    begins: Sequence[float] = (*[0.0] * 7, 1.0, 20.0, 2_000.0)
    taken_over: float = 0.3
    stalls: Sequence[tuple[float, float]] = (*[(0.0, 0.0)] * 7, (0.3, 1.0), (0.02, 100.0), (0.05, 11.0))
    limits: Sequence[int] = (*[ENOUGH] * 4, 2, 3, 6)
    careless: Sequence[bool] = (False, False, True)
    replicas: tuple[int, int] = (1, 4)


_MIXED = Weather()
#: The first node does not answer, and the job is read after its end.
_ADOPTED = replace(
    _MIXED, nodes=("healthy", "dead", "slow"), begins=(2_000.0,), deleted=(None,), runs=(1, 2), limits=(ENOUGH,)
)
#: The watch of the pods is behind all the time, also at the job's end.
_BEHIND = replace(
    _MIXED,
    lags=(5,),
    nodes=("healthy",),
    pauses=(0, 0.25, 1),
    lines=(1, 5),
    runs=(1, 2, 2, 3),
    deleted=(None, 0, 0.25),
    ends=(0, 0.25),
    begins=(0.0,),
)
#: Pods go on after the job's end, and write at the very moments at which something is done about it.
_SURVIVED = replace(
    _MIXED,
    pauses=(0.25, 1, 2),
    lines=(500, 700),
    runs=(1,),
    ends=(-5, -60),
    begins=(0.0,),
    stalls=((0.0, 0.0),),
    careless=(True,),
)
#: Neither a pod's training nor its sidecar can be read for minutes.
_REFUSED = replace(
    _MIXED, nodes=("out", "healthy"), pauses=(1, 5, 20), lines=(10, 30), sidecar=1.0, limits=(ENOUGH,), lags=(0,)
)
#: Runs that end while their readers wait for a permit.
_CROWDED = replace(_MIXED, pauses=(0.25, 1), lines=(1, 6), runs=(1, 2, 2), limits=(1, 2), lags=(0, 5), replicas=(3, 8))
_WEATHERS = (_MIXED, _MIXED, _MIXED, _ADOPTED, _BEHIND, _SURVIVED, _REFUSED, _CROWDED)


@dataclass
class Reader:
    """Those who read a job's log, one after the other.

    :param begins: when the first one begins, in seconds.
    :param taken_over: so long after that it is cancelled; None for never.
    :param gap: so long after that the next one goes on, in seconds.
    :param stalls: how likely it is that a line is not taken at once, and for how long.
    """

    begins: float
    taken_over: float | None
    gap: float
    stalls: tuple[float, float]
    #: When each line came, whose it is, and its text.
    lines: list[tuple[float, str, str]] = field(default_factory=list)
    stalled_for: float = 0.0
    #: When the last one began.
    begun_at: float = 0.0


@dataclass
class Job:
    """A job, and what it comes to.

    :param replicas: for each of them its pods, which come one after the other.
    :param ends: so long after its last pod's end it has ended, in seconds; below 0 so long after its begin.
    """

    name: str
    replicas: list[list[Life]]
    ends: float
    reader: Reader
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ended_at: float = 0.0
    read_at: float = 0.0

    @property
    def containers(self) -> int:
        """How many containers all its pods have."""
        return sum(len(life.containers) for lives in self.replicas for life in lives)


class Plan:
    """A storm, before it begins.

    :param seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        chance = self._chance = random.Random(seed)
        self.seed = seed
        self._is_large = seed % _LARGE == _LARGE - 1
        weather = self._weather = _MIXED if self._is_large else _WEATHERS[seed % len(_WEATHERS)]
        self.limit = chance.choice(weather.limits)
        self.lag = chance.choice(weather.lags)
        self.careless = chance.choice(weather.careless)
        #: How an annotation is taken: after so many seconds, or with an error.
        self.saves = chance.choice((0, 0, 0.25, 10, 400, ApiError("no", status=403)))
        #: How many blocks of lines of a job may wait to be taken.
        self.waiting = chance.choice((1, 2, 32))
        self.jobs = [self._job("a")]
        if weather is _MIXED and not self._is_large and chance.random() < 0.3:
            self._add_neighbour()

    def _add_neighbour(self) -> None:
        """Add a job with few words, whose lines must not wait for those of the other, which takes none for long."""
        self.lag = 0
        self._weather = Weather(
            nodes=("healthy",), pauses=(5, 20), lines=(40, 60), runs=(1,), sidecar=0.0, deleted=(None,)
        )
        lives = [[self._life("b", index, 0)] for index in range(self._chance.randint(2, 4))]
        self.jobs.append(Job("b", lives, 3, Reader(0, None, 0, (0.0, 0.0))))
        other = self.jobs[0]
        other.ends, other.reader = 1_000, Reader(0, None, 0, (0.1, 1_000))
        self.limit, self.waiting = other.containers + self._chance.choice((1, 2)), 1

    def _job(self, name: str) -> Job:
        chance, weather = self._chance, self._weather
        begins = chance.choice(weather.begins)
        # Who reads after the end has nothing to wait for.
        ends = chance.choice([each for each in weather.ends if each >= 0 or not begins])
        # Together with what else happens, or in the middle of it.
        moment = chance.choice((chance.randint(0, 400) / 4, chance.uniform(0, 100)))
        taken_over = moment if chance.random() < weather.taken_over else None
        replicas = [self._pods(name, index) for index in range(chance.randint(*weather.replicas))]
        while self._is_large and sum(map(len, replicas)) < _PODS_OF_LARGE:
            replicas.append(self._pods(name, len(replicas)))
        reader = Reader(begins, taken_over, chance.choice((0, 0, 0.25, 30)), chance.choice(weather.stalls))
        return Job(name, replicas, ends, reader)

    def _pods(self, job: str, index: int) -> list[Life]:
        return [self._life(job, index, number) for number in range(self._chance.choice((1, 1, 2, 3)))]

    def _life(self, job: str, index: int, number: int) -> Life:
        chance, weather = self._chance, self._weather
        containers = {TRAINING: self._runs(chance.choice(weather.runs))}
        if chance.random() < weather.sidecar:
            containers["proxy"] = self._runs(1)
        if weather is _MIXED and chance.random() < 0.2:
            containers = {"init-data": self._runs(1), **containers}
        return Life(
            f"{job}-worker-{index}-{number}",
            job,
            index,
            containers,
            chance.choice((0, 0.25, 5, 20)),
            chance.choice(weather.nodes),
            chance.choice(weather.deleted),
            chance.choice((0, 0, 0.25, 10)),
        )

    def _runs(self, count: int) -> list[list[float]]:
        chance, (least, most) = self._chance, self._weather.lines
        most = 5 if self._is_large else most
        return [chance.choices(self._weather.pauses, k=chance.randint(least, most)) for _ in range(count)]
