"""Ending a job ends this very job, as its task wants it ended, and only while no later try waits for it.

Each case has the job's annotations and a concurrent change, then the expected writes and the remaining job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations.end import end, withdraw
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes

KIND = KINDS["jaxjob"]
TRY = Identity(dag_id="mnist", run_id="monday", task_id="train", map_index=2, try_number=3)
MONDAY = datetime(2026, 11, 23, tzinfo=timezone.utc)
MARK, SUSPEND, DELETE = "PATCH jaxjobs/j", "PATCH jaxjobs/j", "DELETE jaxjobs/j"
Act = Callable[[FakeKubernetes], Any]


def adopted(api):
    api.update(KIND.resource, "j", {"metadata": {"annotations": {labels.OWNER: "4"}}})


def touched(api):
    api.update(KIND.resource, "j", {"status": {"replicaStatuses": {}}})


def gone(api):
    api.remove(KIND.resource, "j")


def replaced(api):
    gone(api)
    add_job(api, "jaxjob", "j", metadata=ours("j"))


def meanwhile(act: Act, before: str) -> Act:
    """Another client does something just before a request."""
    return lambda api: api.before(before, "/jaxjobs/j$", lambda: act(api))


def busy(count: int) -> Act:
    """The controller changes the job before each of the first requests."""
    return lambda api: api.before(
        "PATCH", "/jaxjobs/j$", lambda: api.update(KIND.resource, "j", tick(api)), times=count
    )


def tick(api):
    return {"status": {"at": api.objects.version}}


@dataclass(frozen=True)
class Case:
    """A job of try 3 that try 3 ends.

    :param given: its annotations.
    :param happens: a concurrent change.
    :param owner: which try ends it, if not 3.
    :param resumable: whether it may be suspended.
    :param writes: the requests that change something.
    :param ended: what is reported.
    :param left: whether a job of the name is there afterwards, and is not marked; None for none.
    """

    writes: list[str]
    ended: bool = True
    left: str | None = None
    given: dict[str, str] = field(default_factory=dict)
    happens: Act = lambda api: None
    owner: int | None = 3
    resumable: bool = True


ENDS = {
    "it is deleted": Case([MARK, DELETE]),
    "whoever waits for it": Case([MARK, DELETE], owner=None),
    "an earlier try's client leaves it": Case([], False, "as it was", owner=2),
    "a later try adopts it": Case([MARK], False, "as it was", happens=meanwhile(adopted, "PATCH")),
    "its status changes": Case([MARK, MARK, DELETE], happens=meanwhile(touched, "PATCH")),
    "its status changes again and again": Case([MARK] * 6 + [DELETE], happens=busy(5)),
    "it goes before it is marked": Case([MARK], happens=meanwhile(gone, "PATCH")),
    "it goes before it is deleted": Case([MARK, DELETE], happens=meanwhile(gone, "DELETE")),
    "its name is reused before it is marked": Case([MARK], left="as it was", happens=meanwhile(replaced, "PATCH")),
    "its name is reused before it is deleted": Case(
        [MARK, DELETE], left="as it was", happens=meanwhile(replaced, "DELETE")
    ),
    "who marked it was killed": Case([DELETE], given={labels.CANCELLED: "before"}),
    "the answer to the mark is lost": Case(
        [MARK, MARK, DELETE], happens=lambda api: api.lose_answer("PATCH", "/jaxjobs/j$")
    ),
    "the answer to the deletion is lost": Case(
        [MARK, DELETE, DELETE], happens=lambda api: api.lose_answer("DELETE", "/jaxjobs/j$")
    ),
    "the API server is busy": Case(
        [MARK, MARK, DELETE], happens=lambda api: api.answer(429, "PATCH", "/jaxjobs/j$", times=1, Retry_After="0")
    ),
    "it is suspended and kept": Case([MARK, SUSPEND], left="suspended", given={labels.ON_KILL: "suspend"}),
    "who marked it was killed before it was suspended": Case(
        [SUSPEND], left="suspended", given={labels.ON_KILL: "suspend", labels.CANCELLED: "before"}
    ),
    "for good": Case([MARK, DELETE], resumable=False),
    "for good where it would be suspended": Case([MARK, DELETE], given={labels.ON_KILL: "suspend"}, resumable=False),
    "for good where it is suspended": Case(
        [MARK, DELETE], given={labels.ON_KILL: "suspend", labels.CANCELLED: "before"}, resumable=False
    ),
    "for good after the client was killed that marked it": Case(
        [DELETE], given={labels.ON_KILL: "delete", labels.CANCELLED: "before"}, resumable=False
    ),
    "a later try adopts it before it is ended for good": Case(
        [MARK], False, "as it was", {labels.ON_KILL: "suspend"}, meanwhile(adopted, "PATCH"), resumable=False
    ),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
async def test_a_job_is_ended(api, case):
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **case.given))
    case.happens(api)

    ended = await end(
        await api.cluster(), JobObject(KIND, main), "the task is failed", case.owner, resumable=case.resumable
    )

    assert (ended, api.writes) == (case.ended, case.writes)
    assert how_it_is(api) == case.left


def how_it_is(api):
    """How the job of the name is left."""
    if not api.names("jaxjobs"):
        return None
    left = api.get(KIND.resource, "j")
    suspended = left["spec"].get("runPolicy", {}).get("suspend")
    if suspended and labels.CANCELLED in left["metadata"]["annotations"]:
        return "suspended"
    assert labels.CANCELLED not in left["metadata"]["annotations"]
    return "as it was"


async def test_the_reason_is_written_down_before_the_deletion_and_both_mean_this_job_only(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))["metadata"]

    await end(await api.cluster(), JobObject(KIND, {"metadata": main}), "the task is failed", 3)

    mark = {"resourceVersion": main["resourceVersion"], "annotations": {labels.CANCELLED: "the task is failed"}}
    assert api.patches == [("jaxjobs/j", {"metadata": mark})]
    assert api.deletes == [("jaxjobs/j", {"uid": main["uid"]})]


async def test_a_job_that_may_not_be_ended_is_an_error(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    api.answer(403, "DELETE", "/jaxjobs/")

    with pytest.raises(ApiError, match="403"):
        await end(await api.cluster(), JobObject(KIND, main), "the task is failed", 3)


async def test_a_job_whose_end_for_good_is_interrupted_is_found_and_not_resumed(api):
    metadata = ours("j", **{labels.ON_KILL: "suspend"})
    metadata["labels"][labels.TASK] = TRY.key
    main = add_job(api, "jaxjob", "j", metadata=metadata)
    api.answer(403, "DELETE", "/jaxjobs/")
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)
    with pytest.raises(ApiError):
        await backend.cancel(JobObject(KIND, main).handle("kube"), "it cannot start", resumable=False)
    api.heal()

    (handle,) = await backend.find(TRY)
    assert (await backend.task_of(handle)).is_same_task(TRY)
    await backend.cancel(handle, "the task is failed")

    assert api.writes[-1] == DELETE
    assert how_it_is(api) is None


@pytest.mark.parametrize(("resumable", "left"), [(True, "suspended"), (False, None)])
async def test_a_job_that_is_suspended_for_its_next_try_is_deleted_only_for_good(api, resumable, left):
    """Its task is marked failed, and a moment later its run is over: the job is ended twice."""
    given = {labels.ON_KILL: "suspend", labels.ON_FINISH: "delete"}
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **given))
    handle = JobObject(KIND, main).handle("kube")
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)
    await backend.cancel(handle, "the task is failed")
    assert how_it_is(api) == "suspended"
    api.update(KIND.resource, "j", {"status": with_condition("Suspended")})
    assert (await backend.status(handle)).phase is JobPhase.CANCELLED

    assert await backend.cancel(handle, "its run is over", resumable=resumable)
    await backend.acknowledge(handle)

    assert how_it_is(api) == left


@pytest.mark.parametrize("role", ["trainer-worker", "trainer-triggerer", "trainer-listener"])
@pytest.mark.parametrize("on_kill", ["delete", "suspend"])
async def test_each_part_of_airflow_has_the_rights_to_find_and_end_a_job(api, role, on_kill):
    metadata = ours("j", **{labels.ON_KILL: on_kill})
    metadata["labels"][labels.TASK] = TRY.key
    add_job(api, "jaxjob", "j", metadata=metadata)
    backend = ClusterBackend("training-operator", await api.cluster("kube", role), NAMESPACE)

    (handle,) = await backend.find(TRY)
    assert await backend.cancel(handle, "the task is failed")

    assert how_it_is(api) == {"delete": None, "suspend": "suspended"}[on_kill]


WITHDRAWS = {
    "it is deleted": Case([DELETE]),
    "also where it would be suspended": Case([DELETE], given={labels.ON_KILL: "suspend"}),
    "its status changes": Case([DELETE, DELETE], happens=meanwhile(touched, "DELETE")),
    "another try adopts it": Case([DELETE], False, "as it was", happens=meanwhile(adopted, "DELETE")),
    "it goes": Case([DELETE], happens=meanwhile(gone, "DELETE")),
    "its name is reused": Case([DELETE], left="as it was", happens=meanwhile(replaced, "DELETE")),
}


@pytest.mark.parametrize("case", WITHDRAWS.values(), ids=WITHDRAWS)
async def test_a_job_is_withdrawn(api, case):
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **case.given))
    case.happens(api)

    withdrawn = await withdraw(await api.cluster(), JobObject(KIND, main))

    assert (withdrawn, api.writes) == (case.ended, case.writes)
    assert how_it_is(api) == case.left


SUCCEEDED = with_condition("Succeeded")
TERMINATING = {"deletionTimestamp": "2026-11-21T07:01:00Z", "finalizers": ["test/holds"]}
MARKED = {labels.CANCELLED: "the task is failed"}
#: Which try looks; what the job's status, metadata and annotations are; and whether the job is found.
FINDS = {
    "an earlier try, whose job it is not any more": (2, {}, {}, {}, False),
    "its own try": (3, {}, {}, {}, True),
    "a later try": (4, {}, {}, {}, True),
    "the job has ended": (3, SUCCEEDED, {}, {}, False),
    "the job is terminating": (3, {}, TERMINATING, {}, False),
    "who marked it was killed": (3, {}, {}, MARKED, True),
    "who marked it was killed, and it has ended since": (3, SUCCEEDED, {}, MARKED, True),
    "it is marked and terminating": (3, {}, TERMINATING, MARKED, False),
    "who marked it was killed before it was suspended": (3, {}, {}, {**MARKED, labels.ON_KILL: "suspend"}, True),
}


@pytest.mark.parametrize(("try_number", "status", "metadata", "given", "found"), FINDS.values(), ids=FINDS)
async def test_a_task_finds_the_job_that_it_has_to_end(api, try_number, status, metadata, given, found):
    own = {**ours("j", **given), **metadata}
    own["labels"][labels.TASK] = TRY.key
    add_job(api, "jaxjob", "j", metadata=own, status=status)
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)

    handles = await backend.find(TRY.model_copy(update={"try_number": try_number}))

    assert [handle.name for handle in handles] == ["j"] * found


async def test_a_task_of_a_deleted_run_does_not_find_the_job_of_the_run_that_has_its_id_now(api):
    now = TRY.model_copy(update={"run_started_at": MONDAY + timedelta(hours=1), "try_number": 1})
    own = ours("j", **{labels.IDENTITY: now.model_dump_json(), labels.OWNER: "1"})
    own["labels"][labels.TASK] = TRY.key
    add_job(api, "jaxjob", "j", metadata=own)
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)

    assert await backend.find(TRY.model_copy(update={"run_started_at": MONDAY})) == []
    assert [handle.name for handle in await backend.find(now)] == ["j"]


@pytest.mark.parametrize(("owner", "ended"), [(2, False), (3, True), (4, True)])
async def test_a_handle_ends_no_later_trys_job(api, owner, ended):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    handle = JobObject(KIND, main).handle("kube").model_copy(update={"owner": owner})
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)

    assert await backend.cancel(handle, "the task is failed") == ended
    assert how_it_is(api) == (None if ended else "as it was")


FAILED = with_condition("Failed")
COLLECTED = {labels.COLLECTED: "true"}
#: How a job has ended, its annotations, which try ends it, and whether it is there afterwards.
ENDED = {
    "it has failed": (FAILED, {labels.ON_FINISH: "delete"}, 3, False),
    "it has failed, and is to be kept": (FAILED, {labels.ON_FINISH: "keep"}, 3, True),
    "it has failed, and its outcome is safe": (FAILED, {labels.ON_FINISH: "delete", **COLLECTED}, 3, True),
    "it has failed, and is a later try's": (FAILED, {labels.ON_FINISH: "delete"}, 2, True),
    "it has succeeded": (SUCCEEDED, {labels.ON_FINISH: "delete"}, 3, True),
}


@pytest.mark.parametrize("role", ["trainer-worker", "trainer-triggerer", "trainer-listener"])
@pytest.mark.parametrize(("status", "given", "owner", "is_left"), ENDED.values(), ids=ENDED)
async def test_a_job_that_has_failed_before_it_is_ended_is_finished(api, role, status, given, owner, is_left):
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **given), status=status)
    handle = JobObject(KIND, main).handle("kube").model_copy(update={"owner": owner})
    backend = ClusterBackend("training-operator", await api.cluster("kube", role), NAMESPACE)

    assert await backend.cancel(handle, "its time is over") is (owner == 3)

    assert api.names("jaxjobs") == ["j"] * is_left
    assert labels.CANCELLED not in str(api.patches)
