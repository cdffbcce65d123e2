"""Which earlier job of a task its next try takes over, and which it ends.

Each case names what the job is when try 4 submits the same job, and what becomes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.cluster.operations import wait
from airflow_trainer_provider.cluster.operations.order import Order
from airflow_trainer_provider.cluster.operations.submit import Submitter
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import JOBS, Rendered
from airflow_trainer_provider.kinds.native.read import FIRST_RANK, WAITED_FOR
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import MADE_AT, add_job, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE

KIND = KINDS["jaxjob"]
MONDAY = datetime(2026, 11, 23, 2, tzinfo=timezone.utc)
TRY = Identity(
    dag_id="mnist", run_id="monday", task_id="train", map_index=2, try_number=4, max_tries=5, run_started_at=MONDAY
)
HAND_OVER, END, FINISH = ["PATCH jaxjobs/j"], ["PATCH jaxjobs/j", "DELETE jaxjobs/j"], ["DELETE jaxjobs/j"]
NEW = ["POST jaxjobs"]
#: Noting that no later try takes its result.
GIVE_UP = ["PATCH jaxjobs/j"]
SUSPEND = {labels.ON_KILL: "suspend"}
CANCELLED = {labels.CANCELLED: "the task is failed"}
COLLECTED = {labels.COLLECTED: "true"}
RELEASED = {labels.RELEASED: "true"}


def by(**fields):
    """The annotation of a job that another try of the task submitted."""
    return {labels.IDENTITY: TRY.model_copy(update={"try_number": 3, **fields}).model_dump_json()}


OTHER_RUN = by(run_started_at=MONDAY - timedelta(hours=1), try_number=6)
QUEUED_AGAIN = by(run_started_at=MONDAY - timedelta(hours=1))
CLEARED = by(max_tries=2)
#: Airflow gives a run that had ended another start where a task of it is cleared.
CLEARED_LATER = by(max_tries=2, run_started_at=MONDAY - timedelta(hours=1))
STOPPED = {"runPolicy": {"suspend": True}}
PREVIOUS_PODS = {
    "that run": {},
    "that are terminating": {"deletionTimestamp": "2026-11-21T07:02:00Z"},
    "that have failed and are terminating": {"phase": "Failed", "deletionTimestamp": "2026-11-21T07:02:00Z"},
}


@dataclass(frozen=True)
class Case:
    """A job of try 3.

    :param writes: the requests that change something.
    :param adopted: what is reported of its adoption; None where a new job is started.
    :param given: its annotations.
    :param ended: the condition that it has ended with.
    :param spec: its spec.
    """

    writes: list[str]
    adopted: str | None = None
    given: dict[str, str] = field(default_factory=dict)
    ended: str | None = None
    spec: dict = field(default_factory=dict)


CASES = {
    "it runs": Case(HAND_OVER, "try 3 started it, and it still runs"),
    "it was to outlive its task": Case(HAND_OVER, "it still runs", RELEASED),
    "it has succeeded": Case(HAND_OVER, "its result has not been collected", ended="Succeeded"),
    "its result is collected, and it is kept": Case(NEW, given=COLLECTED, ended="Succeeded"),
    "its result is collected, and it was to be deleted": Case(
        FINISH + NEW, given={**COLLECTED, labels.ON_FINISH: "delete"}, ended="Succeeded"
    ),
    "it has failed, and is kept": Case(NEW, ended="Failed"),
    "it has failed, and is to be deleted": Case(FINISH + NEW, given={labels.ON_FINISH: "delete"}, ended="Failed"),
    "it is another job": Case(END + NEW, given={labels.DIGEST: "another"}),
    "another job has succeeded": Case(GIVE_UP + NEW, given={labels.DIGEST: "another"}, ended="Succeeded"),
    "another job has succeeded, and is to be deleted": Case(
        FINISH + GIVE_UP + NEW, given={labels.DIGEST: "another", labels.ON_FINISH: "delete"}, ended="Succeeded"
    ),
    "its task was cleared": Case(END + NEW, given=CLEARED),
    "its task was cleared, and it has succeeded": Case(
        HAND_OVER, "its result has not been collected", CLEARED, ended="Succeeded"
    ),
    "its task was cleared after its run had ended, and it has succeeded": Case(
        HAND_OVER, "its result has not been collected", CLEARED_LATER, ended="Succeeded"
    ),
    "its task did not wait for it and was cleared, and it has succeeded": Case(
        GIVE_UP + NEW, given={**CLEARED, **RELEASED}, ended="Succeeded"
    ),
    "its task did not wait for it and is tried again, and it has succeeded": Case(
        HAND_OVER, "its result has not been collected", RELEASED, ended="Succeeded"
    ),
    "its task did not wait for it, was cleared, and would resume it": Case(
        END + NEW, given={**CLEARED, **RELEASED, **SUSPEND}
    ),
    "its run was queued again": Case(HAND_OVER, "it still runs", QUEUED_AGAIN),
    "its run was deleted": Case(END + NEW, given=OTHER_RUN),
    "its run was deleted, and its fifth try had it": Case(END + NEW, given={**OTHER_RUN, labels.OWNER: "7"}),
    "its run was deleted, and it has succeeded": Case(GIVE_UP + NEW, given=OTHER_RUN, ended="Succeeded"),
    "its run was deleted, and it was to be suspended": Case(END + NEW, given={**SUSPEND, **OTHER_RUN}),
    "its run was deleted, and it is suspended": Case(
        END + NEW, given={**SUSPEND, **CANCELLED, **OTHER_RUN}, spec=STOPPED
    ),
    "it was to be suspended, and is another job": Case(
        ["PATCH jaxjobs/j", "PATCH jaxjobs/j", *NEW], given={**SUSPEND, labels.DIGEST: "another"}
    ),
    "it is cancelled, and not deleted yet": Case(FINISH + NEW, given=CANCELLED),
    "it is marked, and not suspended yet": Case(HAND_OVER, "it was suspended, and resumes", {**SUSPEND, **CANCELLED}),
    "it is suspended": Case(HAND_OVER * 2, "it was suspended, and resumes", {**SUSPEND, **CANCELLED}, spec=STOPPED),
    "its training exited with 0 when it was suspended": Case(
        END + NEW, given={**SUSPEND, **CANCELLED}, ended="Succeeded", spec=STOPPED
    ),
    "another client suspended it": Case(HAND_OVER, "it still runs", SUSPEND, spec=STOPPED),
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    # A second resume would wait for the pods of the first.
    monkeypatch.setattr(wait, "_GONE_SECONDS", -1)


def order(kind=KIND):
    def render(name, facts):
        metadata = {"name": name, "labels": {labels.MANAGED_BY: labels.PREFIX, labels.TASK: TRY.key}}
        annotations = {labels.IDENTITY: TRY.model_dump_json(), labels.OWNER: "4", labels.DIGEST: "same"}
        main = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "spec": {}}
        return Rendered({**main, "metadata": {**metadata, "annotations": annotations}})

    return Order(kind=kind, identity=TRY, digest="same", name="new", render=render)


def add_earlier(api, case):
    metadata = ours("j", **{labels.DIGEST: "same", labels.COMPLETE: "true", **case.given})
    metadata["labels"][labels.TASK] = TRY.key
    status = with_condition(case.ended) if case.ended else {"conditions": []}
    return add_job(api, "jaxjob", "j", metadata=metadata, status=status, spec={"jaxReplicaSpecs": {}, **case.spec})


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_an_earlier_job(api, case):
    add_earlier(api, case)

    job, adopted = await Submitter(await api.cluster(), NAMESPACE, order()).submit()

    assert (job.name, api.writes) == ("j" if case.adopted else "new", case.writes)
    assert (adopted is None) == (case.adopted is None)
    assert (case.adopted or "") in (adopted or "")
    if adopted:
        left = job.main["metadata"]["annotations"]
        assert (left[labels.OWNER], left.get(labels.RELEASED), left.get(labels.CANCELLED)) == ("4", None, None)


@pytest.mark.parametrize("case", [CASES["it runs"], CASES["it is suspended"]], ids=["runs", "suspended"])
async def test_a_job_that_its_controller_changes_at_this_moment_is_taken_over_all_the_same(api, case):
    add_earlier(api, case)
    api.before("PATCH", "/jaxjobs/j$", lambda: api.update(KIND.resource, "j", {"status": {"changed": True}}))

    job, _ = await Submitter(await api.cluster(), NAMESPACE, order()).submit()

    assert (job.name, api.writes) == ("j", ["PATCH jaxjobs/j", *case.writes])


async def test_a_suspended_job_is_handed_over_before_it_goes_on(api):
    main = add_earlier(api, CASES["it is suspended"])

    await Submitter(await api.cluster(), NAMESPACE, order()).submit()

    annotations = {labels.OWNER: "4", labels.RELEASED: None, labels.CANCELLED: None}
    version = main["metadata"]["resourceVersion"]
    assert api.patches == [
        ("jaxjobs/j", {"metadata": {"resourceVersion": version, "annotations": annotations}}),
        ("jaxjobs/j", {"spec": {"runPolicy": {"suspend": False}}}),
    ]


@pytest.mark.parametrize("pod", PREVIOUS_PODS.values(), ids=PREVIOUS_PODS)
async def test_a_suspended_job_goes_on_once_the_previous_pods_are_gone(api, pod, monkeypatch):
    monkeypatch.setattr(wait, "_GONE_SECONDS", 10)
    add_earlier(api, CASES["it is suspended"])
    add_pod(api, "j", **pod)
    looks = []

    def look():
        looks.append(api.writes)
        if len(looks) == 3:
            api.end_pod("j-worker-0")

    api.before("PATCH", "/jaxjobs/j$", lambda: api.before("GET", "/pods$", look, times=None))

    await Submitter(await api.cluster(), NAMESPACE, order()).submit()

    assert looks == [HAND_OVER] * 3
    assert api.writes == HAND_OVER * 2


@pytest.mark.parametrize("later", [{labels.OWNER: "5"}, by(try_number=1, run_started_at=MONDAY + timedelta(hours=1))])
@pytest.mark.parametrize("case", [case for case in CASES.values() if labels.IDENTITY not in case.given])
async def test_a_later_trys_job_is_left_alone(api, case, later):
    before = add_earlier(api, case)
    api.update(KIND.resource, "j", {"metadata": {"annotations": later}})

    with pytest.raises(SubmitError, match="try 4 is out of date and starts nothing"):
        await Submitter(await api.cluster(), NAMESPACE, order()).submit()

    assert api.writes == []
    assert api.get(KIND.resource, "j")["metadata"]["uid"] == before["metadata"]["uid"]


async def test_the_next_job_starts_once_the_pods_of_the_ended_one_have_ended(api, monkeypatch):
    monkeypatch.setattr(wait, "_GONE_SECONDS", 10)
    add_earlier(api, CASES["it is another job"])
    add_pod(api, "j")
    looks = []

    def look():
        looks.append(api.names("jaxjobs"))
        if len(looks) == 3:
            api.end_pod("j-worker-0")

    api.before("DELETE", "/jaxjobs/j$", lambda: api.before("GET", "/pods$", look, times=None))

    await Submitter(await api.cluster(), NAMESPACE, order()).submit()

    # The last one is for the pods of jobs that were gone before.
    assert looks == [[]] * 4
    assert api.names("jaxjobs") == ["new"]


async def test_of_a_failed_job_of_several_jobs_nothing_runs_beside_the_next_one(api, monkeypatch):
    monkeypatch.setattr(wait, "_GONE_SECONDS", 10)
    kept = {
        labels.DIGEST: "same",
        labels.COMPLETE: "true",
        labels.ON_FINISH: "keep",
        labels.GROUPS: '{"chief": 1, "worker": 1}',
    }
    metadata = ours("j", **kept)
    metadata["labels"][labels.TASK] = TRY.key
    main = add_job(api, "native", "j", metadata=metadata)
    owner = {"apiVersion": "v1", "kind": "Service", "name": "j", "uid": main["metadata"]["uid"]}
    parts = {"chief": {"active": 1, "startTime": MADE_AT}, "worker": with_condition("Failed")}
    for rank, (role, status) in enumerate(parts.items()):
        part = {labels.JOB: "j", FIRST_RANK: str(rank), WAITED_FOR: "true"}
        metadata = {"labels": part, "creationTimestamp": MADE_AT, "ownerReferences": [owner]}
        api.add(JOBS, f"j-{role}", metadata=metadata, spec={"completions": 1}, status=status)
    add_pod(api, "j", "native")
    api.before("PATCH", "/jobs/j-chief$", lambda: api.end_pod("j-worker-0"))

    job, why = await Submitter(await api.cluster(), NAMESPACE, order(KINDS["native"])).submit()

    assert (job.name, why) == ("new", None)
    assert api.writes.index("PATCH jobs/j-chief") < api.writes.index("POST services")
    assert api.get(JOBS, "j-chief")["spec"]["suspend"] is True
