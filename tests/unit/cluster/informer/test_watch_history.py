"""Whatever happens to objects and to connections, a watch knows in the end what the API server holds."""

from __future__ import annotations

import asyncio
import random

import pytest

from airflow_trainer_provider.cluster.informer import watch as module
from airflow_trainer_provider.cluster.informer.watch import by_label
from airflow_trainer_provider.kinds.base import PODS
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes
from tests.unit.cluster.api_server import until

JOBS = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    for name in ("BACKOFF_FIRST", "BACKOFF_MOST"):
        monkeypatch.setattr(module, name, 0.001)


def held(api):
    """Uid and version of each pod, by its job, as the API server holds them."""
    found = {job: {} for job in JOBS}
    for pod in api.objects.find("pods", NAMESPACE, "job"):
        found[pod["metadata"]["labels"]["job"]][pod["metadata"]["uid"]] = pod["metadata"]["resourceVersion"]
    return found


def known(subscriptions):
    """The same as the watch knows it."""
    return {
        job: {uid: pod["metadata"]["resourceVersion"] for uid, pod in each.objects.items()}
        for job, each in subscriptions.items()
    }


class Cluster:
    """What happens in a cluster.

    :param chance: decides what.
    """

    def __init__(self, api: FakeKubernetes, chance: random.Random) -> None:
        self.api, self.chance = api, chance

    def add(self):
        name = f"pod-{self.chance.randrange(8)}"
        if name not in self.api.names("pods"):
            self.api.add(PODS, name, metadata={"labels": {"job": self.chance.choice(JOBS)}}, status={})

    def change(self):
        self._with_one(lambda name: self.api.update(PODS, name, {"status": {"at": self.api.objects.version}}))

    def move(self):
        labels = {"job": self.chance.choice([*JOBS, None])}
        self._with_one(lambda name: self.api.update(PODS, name, {"metadata": {"labels": labels}}))

    def remove(self):
        self._with_one(self.api.end_pod)

    def break_off(self):
        self.api.cut_watches()

    def end(self):
        self.api.end_watches()

    def bookmark(self):
        self.api.bookmark()

    def compact(self):
        self.api.objects.compact()
        self.api.cut_watches()

    def be_faulty(self):
        self.api.answer(self.chance.choice([429, 500, 503]), "GET", "/pods$", times=2)
        self.api.cut_watches()

    def _with_one(self, act):
        if names := self.api.names("pods"):
            act(self.chance.choice(names))


HAPPENS = [Cluster.add] * 6 + [Cluster.change] * 4 + [Cluster.move, Cluster.remove] * 2
FAULTS = [Cluster.break_off, Cluster.end, Cluster.bookmark, Cluster.compact, Cluster.be_faulty]


@pytest.mark.parametrize("seed", range(5))
async def test_a_watch_knows_what_the_api_server_holds(api, seed):
    chance = random.Random(seed)
    happening = Cluster(api, chance)
    watch = (await api.cluster()).watches.of(PODS, NAMESPACE, "job", by_label("job"))
    subscriptions = {job: watch.subscribe(job) for job in JOBS}
    await subscriptions["a"].changed()

    for _ in range(150):
        chance.choice(HAPPENS)(happening)
        if chance.random() < 0.1:
            chance.choice(FAULTS)(happening)
        if chance.random() < 0.4:
            await asyncio.sleep(chance.random() * 0.01)

    await until(lambda: known(subscriptions) == held(api))
    for each in subscriptions.values():
        each.close()
