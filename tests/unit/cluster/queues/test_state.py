"""What is known of a queue at one moment. The queue is made up."""

from __future__ import annotations

import json

import pytest

from airflow_trainer_provider.cluster.queues import pending as module
from airflow_trainer_provider.cluster.queues.pending import Pending, PendingJobs, pending_jobs
from airflow_trainer_provider.cluster.queues.state import Position, Positions, QueueState, positions_of
from airflow_trainer_provider.job.queue.place import Estimate
from tests.unit.cluster.queues.conftest import BEGIN, MESSAGE, at, reserved

NOW = BEGIN.timestamp()
NEVER = "insufficient quota for cpu in flavor x, request > maximum capacity (3 > 500m)"


def workload(uid, created, status="False", since=None, priority=0, message=MESSAGE):
    since = created if since is None else since
    return {
        "metadata": {"uid": uid, "creationTimestamp": at(created)},
        "spec": {"queueName": "q", "priority": priority},
        "status": reserved(status, since, message),
    }


def state_of(*positions, admitted=(), is_whole=True, **fields):
    by_uid = {uid: Position(at + 1, at + 1) for at, uid in enumerate(positions)}
    state = QueueState("q", positions=Positions(by_uid, len(by_uid) if is_whole else None), **fields)
    for each in admitted:
        state.note_admission(each, 0.0)
    return state


def regular(priority=0):
    """Eight jobs that waited, and were admitted a minute apart, the last one now."""
    return [workload(f"done-{number}", -1000, "True", -60 * number, priority) for number in range(8)]


def test_those_that_were_admitted_since_are_left_out():
    pending = PendingJobs((Pending("a", 3), Pending("b", 5), Pending("c", 6), Pending("unseen", 9)), is_whole=True)
    workloads = {"a": workload("a", 0, "True", 5), "b": workload("b", 1), "c": workload("c", 2, "True", 6)}

    found = positions_of(pending, workloads)
    assert found == Positions({"b": Position(1, 4), "unseen": Position(2, 7)}, length=2)


def test_those_that_were_suspended_since_are_left_out():
    pending = PendingJobs((Pending("a", 1), Pending("b", 2)), is_whole=True)
    suspended = workload("a", 0)
    suspended["spec"]["active"] = False

    assert positions_of(pending, {"a": suspended}) == Positions({"b": Position(1, 1)}, length=1)


@pytest.mark.parametrize("others", [(None, None), ("a", "a")], ids=["for no object", "for one object"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_whatever_waits_before_a_job_counts(others, is_whole):
    pending = PendingJobs((*(Pending(uid, at) for at, uid in enumerate(others, 1)), Pending("mine", 3)), is_whole)
    found = positions_of(pending, {})

    assert found.by_uid["mine"] == Position(3, 3)
    assert found.by_uid.get("a") in (None, Position(1, 1))
    assert set(found.by_uid) == {"mine", *others} - {None}
    assert found.length == (3 if is_whole else None)


def test_a_regular_queue_has_an_estimate():
    place = state_of("j", admitted=regular()).place("j", workload("j", -30), NOW + 1)

    assert isinstance(place.estimate, Estimate)
    assert place.estimate_why is None


@pytest.mark.parametrize(
    ("job", "others", "why"),
    [
        (workload("j", -30, message=NEVER), regular(), "more than all of the queue's quota"),
        # Since a minute before it, and later in the order.
        (workload("j", -120), [*regular(), workload("small", -90, "True", -1)], "Jobs that came later were admitted"),
        (workload("j", -120, priority=9), regular(), "Jobs that came later were admitted"),
    ],
    ids=["too large", "passed over by a later one", "passed over by a lesser one"],
)
def test_a_job_that_does_not_follow_the_order_has_no_estimate(job, others, why):
    place = state_of("j", admitted=others).place("j", job, NOW + 1)

    assert (place.position, place.estimate) == (1, None)
    assert why in place.estimate_why


@pytest.mark.parametrize(
    "job",
    [
        # Of the same second, which Kueue has in no order.
        workload("j", -1000),
        # It has higher priority, and came only after them.
        workload("j", 0, priority=9),
        # It had run itself meanwhile.
        workload("j", -2000, since=0),
    ],
    ids=["at the same time", "came later", "evicted"],
)
def test_a_job_that_others_did_not_pass_over_has_one(job):
    assert state_of("j", admitted=regular()).place("j", job, NOW + 1).estimate


@pytest.mark.parametrize(
    ("fields", "job", "why"),
    [
        ({"why_unknown": "No user may ask."}, workload("j", 0), "No user may ask."),
        ({}, workload("j", 0), "Kueue does not list the job among those that wait in the queue."),
        ({"is_whole": False}, workload("j", 0), "The job is not among the first 1,000 in the queue."),
        ({}, workload("j", 0, "True"), "The queue has reserved quota for the job"),
        ({"why_unknown": "No user may ask."}, workload("j", 0, "True"), "The queue has reserved quota for the job"),
    ],
)
def test_an_unknown_position_has_a_reason(fields, job, why):
    place = state_of("another", **fields).place("j", job, NOW)

    assert (place.position, place.length, place.cluster_position, place.estimate) == (None, None, None, None)
    assert place.estimate_why.startswith(why)


def test_a_list_that_is_cut_has_no_length():
    place = state_of("j", is_whole=False).place("j", workload("j", 0), NOW)

    assert (place.position, place.length, place.where()) == (1, None, "position 1 in queue q")


class Listed:
    """A client whose answer has these items."""

    def __init__(self, *items):
        self.items = items

    async def get_once(self, path, **query):
        self.asked = (path, query)
        return {"items": list(self.items)}


def item(name, position, created=0, priority=0):
    owner = {"uid": f"uid-{name}"}
    metadata = {"name": name, "namespace": "team", "creationTimestamp": at(created), "ownerReferences": [owner]}
    return {"metadata": metadata, "priority": priority, "positionInClusterQueue": position}


async def test_jobs_that_kueue_takes_as_equal_have_the_same_order_each_time():
    one = Listed(item("b", 0), item("a", 1), item("late", 2, created=1))
    other = Listed(item("a", 0), item("b", 1), item("late", 2, created=1))

    found = [await pending_jobs(each, "team", "q") for each in (one, other)]

    assert found[0] == found[1]
    assert found[0].jobs == (Pending("uid-a", 1), Pending("uid-b", 2), Pending("uid-late", 3))
    assert one.asked == (
        "/apis/visibility.kueue.x-k8s.io/v1beta1/namespaces/team/localqueues/q/pendingworkloads",
        {"limit": "1000"},
    )


async def test_what_belongs_to_no_object_is_in_the_list():
    loose = item("a", 0)
    del loose["metadata"]["ownerReferences"]

    found = await pending_jobs(Listed(loose, item("b", 1, created=1)), "team", "q")
    assert found.jobs == (Pending(None, 1), Pending("uid-b", 2))


async def test_an_answer_of_the_most_items_may_not_be_whole(monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)

    assert (await pending_jobs(Listed(item("a", 0)), "team", "q")).is_whole
    assert not (await pending_jobs(Listed(item("a", 0), item("b", 1)), "team", "q")).is_whole


def test_a_place_is_plain_json():
    place = state_of("j", admitted=regular()).place("j", workload("j", -30), NOW + 1)

    assert json.loads(place.model_dump_json())["missing"][0]["resource"] == "cpu"
