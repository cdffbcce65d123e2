"""Places of jobs in queues: right, shared by all that wait, and unknown where they may not be known."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from airflow_trainer_provider.cluster.api.clock import ServerClock
from airflow_trainer_provider.cluster.informer.store import Store
from airflow_trainer_provider.cluster.queues import pace
from airflow_trainer_provider.cluster.queues import queue as module
from airflow_trainer_provider.cluster.queues.kueue import JOB_UID, WORKLOADS, workload_keys
from airflow_trainer_provider.cluster.queues.state import QueueState
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.job.queue.place import Shortage
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.job.status import JobPhase
from tests.unit.cluster.api_server import until
from tests.unit.cluster.queues.conftest import BEGIN, MESSAGE

CPU = Shortage(resource="cpu", flavor="x", total=8, used=7, free=1, needed=2)


async def test_a_job_knows_its_place(kueue):
    kueue.add("elsewhere", 0, queue="other")
    first, second = kueue.add("first", 1), kueue.add("second", 2)
    urgent = kueue.add("urgent", 9, priority=5)
    await kueue.follow(first, second, urgent)
    await kueue.positions(urgent=1, first=2, second=3)
    await until(lambda: kueue.place("first").missing)

    place = kueue.place("first")
    assert (place.name, place.cluster_queue, place.length, place.cluster_position) == ("q", "all", 3, 3)
    assert place.missing == (CPU,)
    assert place.estimate is None
    assert place.estimate_why.startswith("Too few admissions")
    status = kueue.statuses["first"][-1]
    assert (status.phase, status.reason, status.message) == (JobPhase.QUEUED, "SuspendedByKueue", MESSAGE)


async def test_jobs_move_up_as_soon_as_one_is_admitted(kueue, monkeypatch):
    monkeypatch.setattr(pace, "POSITIONS_EVERY", 60)
    first, second, third = (kueue.add(name, 1) for name in ("a", "b", "c"))
    await kueue.follow(first, second, third)
    await kueue.positions(a=1, b=2, c=3)
    kueue.admit("a", 30)
    await kueue.positions(b=1, c=2)

    assert kueue.place("c").length == 2
    assert kueue.place("c").cluster_position == 2
    assert kueue.place("a").position is None
    assert "has reserved quota" in kueue.place("a").estimate_why
    assert len(kueue.asked()) == 1


@pytest.mark.parametrize("jobs", [2, 40])
async def test_requests_do_not_grow_with_the_jobs(kueue, jobs):
    handles = [kueue.add(f"job-{number:02}", number) for number in range(jobs)]
    await kueue.follow(*handles)
    await kueue.positions(**{f"job-{number:02}": number + 1 for number in range(jobs)})
    before = len(kueue.asked("kueue.x-k8s.io"))
    await asyncio.sleep(0.5)

    # One for the jobs that wait and one for the quota, ten times.
    assert len(kueue.asked("kueue.x-k8s.io")) - before <= 22
    await until(lambda: len(kueue.asked("kueue.x-k8s.io")) - before >= 4)


async def test_a_queue_is_asked_while_a_job_waits(kueue):
    handle = kueue.add("j")
    await kueue.follow(handle, kueue.add("k", 1))
    await kueue.positions(j=1, k=2)
    kueue.tasks["k"].cancel()
    await asyncio.sleep(0.1)
    before = len(kueue.asked())
    await until(lambda: len(kueue.asked()) > before)

    await kueue.close()
    await asyncio.sleep(0.1)
    before = len(kueue.asked())
    await asyncio.sleep(0.3)
    assert len(kueue.asked()) == before
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "queue team/q"]

    await kueue.follow(handle)
    await until(lambda: len(kueue.asked()) > before)


async def test_a_job_without_its_workload_has_no_place(kueue):
    await kueue.follow(kueue.add("a"), kueue.add("b", 1))
    await kueue.positions(a=1, b=2)
    kueue.api.remove(WORKLOADS, "jaxjob-a")
    await kueue.positions(b=1)

    assert kueue.place("a") is None


async def test_a_queue_is_not_asked_while_all_that_wait_are_suspended(kueue):
    handle = kueue.add("j")
    kueue.api.update(WORKLOADS, "jaxjob-j", {"spec": {"active": False}})
    await kueue.follow(handle)
    await until(lambda: kueue.asked("workloads"))
    await asyncio.sleep(0.3)
    assert not kueue.asked("localqueues")

    kueue.api.update(WORKLOADS, "jaxjob-j", {"spec": {"active": True}})
    await kueue.positions(j=1)
    kueue.admit("j", 30)
    await kueue.positions(j=None)
    await asyncio.sleep(0.2)
    before = len(kueue.asked())
    await asyncio.sleep(0.3)
    assert len(kueue.asked()) == before


async def test_a_queue_is_asked_more_often_the_sooner_a_job_may_start(kueue, monkeypatch):
    monkeypatch.setattr(pace, "_NEAR", 1)
    monkeypatch.setattr(pace, "FAR", 3)
    for number, name in enumerate("abc"):
        kueue.add(name, number)
    await kueue.follow(kueue.add("far", 5))
    await kueue.positions(far=4)
    await until(lambda: kueue.place("far").missing)
    await asyncio.sleep(0.1)
    before = len(kueue.asked("kueue.x-k8s.io"))
    await asyncio.sleep(0.5)
    assert len(kueue.asked("kueue.x-k8s.io")) == before

    # The Workloads show it before the next question.
    for name in "abc":
        kueue.admit(name, 60)
    await kueue.positions(far=1)
    await until(lambda: len(kueue.asked()) >= 4)


class Forbidden:
    """A client of an account that may not ask."""

    clock = ServerClock()

    async def get_once(self, path, **query):
        raise ApiError("no", status=403)


async def test_a_change_costs_one_workload_and_other_tasks_have_their_turn(monkeypatch):
    monkeypatch.setattr(module, "_TOGETHER", 0.0)
    taken, turns = [], []
    monkeypatch.setattr(QueueState, "note_admission", lambda _, workload, __: taken.append(workload))

    def workload(number, version=1):
        metadata = {"uid": f"w-{number}", "resourceVersion": f"{version}", "labels": {JOB_UID: f"job-{number}"}}
        return {"metadata": metadata, "spec": {"queueName": "q"}}

    async def take_turns():
        while True:
            turns.append(len(taken))
            await asyncio.sleep(0)

    store = Store(workload_keys)
    await store.replace([workload(number) for number in range(1000)])
    turning = asyncio.create_task(take_turns())
    place = module.Queue(Forbidden(), store, "ns", "q").subscribe("job-0", Signal())
    await until(lambda: len(taken) == 1000)
    assert max(after - before for before, after in pairwise(turns)) <= 200

    store.put(workload(7, version=2))
    store.remove(workload(8, version=3))
    await until(lambda: len(taken) >= 1002)
    await asyncio.sleep(0.1)
    turning.cancel()
    place.close()
    assert sorted(each["metadata"]["uid"] for each in taken[1000:]) == ["w-7", "w-8"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (403, "may not get localqueues/pendingworkloads in visibility.kueue.x-k8s.io."),
        (404, "there is no such queue, or Kueue's visibility API is not installed."),
    ],
)
async def test_a_refusal_is_said_and_asked_again_much_later(kueue, code, why):
    kueue.api.answer(code, "GET", "/pendingworkloads")
    await kueue.follow(kueue.add("a"), kueue.add("b"))
    await until(lambda: kueue.place("a") and kueue.place("b"))
    await asyncio.sleep(0.5)

    for name in "ab":
        assert kueue.place(name).position is None
        assert kueue.place(name).estimate_why.endswith(why)
    assert len(kueue.asked()) == 1


async def test_refused_credentials_are_said(kueue):
    kueue.api.answer(401, "GET", "/pendingworkloads")
    await kueue.follow(kueue.add("a"))
    await until(lambda: kueue.place("a") and "credentials" in kueue.place("a").estimate_why)

    assert kueue.place("a").estimate_why == "The position is not known: the connection's credentials are refused."


async def test_an_outage_is_survived(kueue):
    await kueue.follow(kueue.add("a"), kueue.add("b", 1))
    await kueue.positions(a=1, b=2)
    kueue.api.answer(503, "GET", "/pendingworkloads", times=1)
    seen = len(kueue.statuses["b"])
    await asyncio.sleep(0.3)
    assert {status.queue.position for status in kueue.statuses["b"][seen:]} <= {2}

    kueue.api.answer(503, "GET", "/pendingworkloads")
    await kueue.positions(b=None)
    assert kueue.place("b").estimate_why == "The position is not known: Kueue's visibility API does not answer."
    kueue.api.heal()
    await kueue.positions(b=2)


async def test_answers_that_cannot_be_read_do_not_end_the_wait(kueue, caplog):
    kueue.api.objects.patch(("clusterqueues", "", "all"), {"spec": {"resourceGroups": ["none"]}})
    await kueue.follow(kueue.add("a"))
    await until(lambda: "The answers on queue q cannot be read" in caplog.text)
    kueue.admit("a", 5)
    await asyncio.sleep(0.3)

    assert not kueue.tasks["a"].done()
    assert kueue.place("a") is None
    assert caplog.text.count("cannot be read") == 1


async def test_without_the_right_for_the_quota_kueues_words_are_what_is_known(kueue):
    quota = kueue.api.answer(403, "GET", "/clusterqueues/")
    await kueue.follow(kueue.add("a"), kueue.add("b", 1))
    await kueue.positions(b=2)
    await until(lambda: quota.hits)
    await asyncio.sleep(0.3)

    assert kueue.place("b").missing == (CPU.model_copy(update={"total": None, "used": None}),)
    assert quota.hits == 1


async def test_the_quota_of_a_queue_that_is_not_known_any_more_is_not_shown(kueue, monkeypatch):
    monkeypatch.setattr(module, "QUEUE_EVERY", 0.05)
    await kueue.follow(kueue.add("a"))
    await until(lambda: kueue.place("a") and kueue.place("a").missing == (CPU,))
    kueue.api.answer(403, "GET", "/localqueues/q$")
    await until(lambda: kueue.place("a").cluster_queue is None)

    assert kueue.place("a").missing == (CPU.model_copy(update={"total": None, "used": None}),)


async def test_jobs_of_other_namespaces_do_not_count(kueue):
    # Kueue lists those of a queue of this name elsewhere.
    kueue.api.objects.insert(
        "localqueues",
        {"metadata": {"name": "q", "namespace": "elsewhere"}, "spec": {"clusterQueue": "all"}},
    )
    kueue.add("theirs", 0, namespace="elsewhere")
    await kueue.follow(kueue.add("ours", 1))
    await kueue.positions(ours=1)

    assert (kueue.place("ours").length, kueue.place("ours").cluster_position) == (1, 2)


async def test_a_queue_may_be_made_after_its_jobs(kueue, monkeypatch):
    monkeypatch.setattr("airflow_trainer_provider.cluster.queues.asked.NOT_FOUND", 0.05)
    await kueue.follow(kueue.add("j", queue="late"))
    await until(lambda: kueue.place("j"))
    assert "there is no such queue" in kueue.place("j").estimate_why

    kueue.api.add(module.LOCAL_QUEUES, "late", spec={"clusterQueue": "all"})
    await kueue.positions(j=1)
    await until(lambda: kueue.place("j").cluster_queue == "all")


async def test_a_job_far_behind_is_not_notified_of_each_step(kueue, monkeypatch):
    monkeypatch.setattr(module, "FAR", 2)
    await kueue.follow(*(kueue.add(name, number) for number, name in enumerate("abcde")))
    await kueue.positions(a=1, c=3, e=5)
    kueue.admit("a", 60)
    await kueue.positions(b=1, c=2)
    assert (kueue.position("d"), kueue.position("e")) == (4, 5)

    kueue.admit("b", 70)
    kueue.admit("c", 70)
    await kueue.positions(d=1, e=2)


async def test_the_start_is_estimated_from_the_admissions_of_the_queue(kueue):
    """The cluster's clock is an hour ahead; the estimate is by the clock of this machine."""
    kueue.api.ahead = timedelta(hours=1)
    now = datetime.now(timezone.utc)
    there = (now + kueue.api.ahead - BEGIN).total_seconds()
    for number in range(8):
        kueue.add(f"done-{number}", there - 1000)
        kueue.admit(f"done-{number}", there - 60 * number)
    await kueue.follow(kueue.add("first", there - 30), kueue.add("second", there - 20))
    await until(lambda: kueue.place("second") and kueue.place("second").estimate)

    estimate = kueue.place("second").estimate
    assert estimate.earliest < now + timedelta(seconds=120) < estimate.latest < now + timedelta(seconds=180)
    assert estimate.basis == "From the last 8 admissions to this queue: one every 60 s."
    assert kueue.place("second").estimate_why is None


async def test_an_estimate_that_hardly_moves_is_the_same(kueue):
    there = (datetime.now(timezone.utc) - BEGIN).total_seconds()
    for number in range(8):
        kueue.add(f"done-{number}", there - 1000)
        kueue.admit(f"done-{number}", there - 60 * number)
    await kueue.follow(kueue.add("j", there - 30))
    await until(lambda: kueue.place("j") and kueue.place("j").estimate and kueue.place("j").missing)
    seen = len(kueue.statuses["j"])
    await asyncio.sleep(1)

    assert len(kueue.statuses["j"]) == seen
