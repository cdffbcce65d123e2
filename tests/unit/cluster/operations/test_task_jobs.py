"""What earlier tries of a task have left on a cluster ends before its next one starts, there or elsewhere."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations import wait
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.kubeflow.training_operator import JAXJOB
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, with_condition
from tests.fakes.jobs import ours as of_any_task
from tests.fakes.kubernetes import NAMESPACE
from tests.unit.cluster.api_server import until
from tests.unit.cluster.operations.test_submit import TRY, second, submit

pytestmark = pytest.mark.timeout(20)
OURS = {labels.MANAGED_BY: labels.PREFIX, labels.TASK: TRY.key}
SUSPENDED = {labels.CANCELLED: "the task is failed", labels.ON_KILL: "suspend"}


def ours(**annotations):
    """The metadata of the task's job."""
    known = {labels.IDENTITY: TRY.model_dump_json(), labels.OWNER: "1", **annotations}
    metadata = of_any_task("j", **known)
    return {**metadata, "labels": {**metadata["labels"], **OURS}}


async def end_earlier(api, identity):
    # Whatever its backend, all kinds of jobs of the task are meant.
    await ClusterBackend("native", await api.cluster(), NAMESPACE).end_earlier(identity)


@pytest.mark.parametrize(
    ("condition", "annotations", "is_left"),
    [
        ("Running", {}, False),
        ("Suspended", SUSPENDED, False),
        ("Failed", {labels.ON_FINISH: "delete"}, False),
        ("Failed", {labels.ON_FINISH: "keep"}, True),
        ("Succeeded", {labels.ON_FINISH: "delete"}, False),
        ("Succeeded", {labels.ON_FINISH: "keep"}, True),
    ],
)
async def test_a_job_in_each_state_ends_as_it_says_itself(api, condition, annotations, is_left):
    add_job(api, "jaxjob", "j", metadata=ours(**annotations), status=with_condition(condition))

    await end_earlier(api, second())

    assert api.names("jaxjobs") == (["j"] if is_left else [])


async def test_a_later_trys_job_is_left_alone(api):
    add_job(api, "jaxjob", "j", metadata=ours(**{labels.OWNER: "3"}), status=with_condition("Running"))

    with pytest.raises(SubmitError, match="Try 3 of this task already has job j; try 2 is out of date"):
        await end_earlier(api, second())

    assert api.names("jaxjobs") == ["j"]


async def test_a_job_that_a_later_try_adopts_at_this_moment_is_left_alone(api):
    add_job(api, "jaxjob", "j", metadata=ours(), status=with_condition("Running"))
    api.before(
        "PATCH",
        "/jaxjobs/j$",
        lambda: api.update(JAXJOB.resource, "j", {"metadata": {"annotations": {labels.OWNER: "3"}}}),
    )

    with pytest.raises(SubmitError, match="A later try of this task has adopted job j"):
        await end_earlier(api, second())

    assert api.names("jaxjobs") == ["j"]


def add_pods(api, *names, **labelled):
    """Add pods of the task that run."""
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "train"}]}
    for name in names or ("p",):
        api.add(PODS, name, metadata={"labels": {**OURS, **labelled}}, spec=spec, status={"phase": "Running"})


def say_conditions(api, name, **conditions):
    found = [{"type": kind, "status": status} for kind, status in conditions.items()]
    api.update(PODS, name, {"status": {"conditions": found}})


@pytest.mark.parametrize("next_one", [end_earlier, submit], ids=["elsewhere", "there"])
async def test_pods_whose_job_is_gone_already_are_waited_for(api, next_one):
    first = (await submit(api)).handle
    add_pods(api, "p", "q")
    api.remove(PODS, "p")
    api.update(PODS, "q", {"status": {"phase": "Succeeded"}})
    await ClusterBackend("native", await api.cluster(), NAMESPACE).cancel(first, "the task was cleared")
    before = api.names("services")

    next_try = asyncio.create_task(next_one(api, second()))
    await asyncio.sleep(0.2)
    assert not next_try.done()
    assert api.names("services") == before
    api.end_pod("p")

    await next_try


async def test_the_log_names_the_pods_that_are_waited_for(api, caplog):
    add_pods(api, *(f"p-{number}" for number in range(7)))
    caplog.set_level(logging.INFO)

    next_try = asyncio.create_task(submit(api, second()))
    await until(lambda: caplog.messages)
    for number in range(7):
        api.end_pod(f"p-{number}")
    await next_try

    assert caplog.messages == [
        "Waiting until pods of earlier tries have ended: p-0, p-1, p-2, p-3, p-4 and 2 more.",
    ]


async def test_pods_that_do_not_end_are_named_with_the_way_out_and_nothing_starts(api, monkeypatch):
    assert wait._GONE_SECONDS == 60
    monkeypatch.setattr(wait, "_GONE_SECONDS", -0.9)
    add_pods(api)

    with pytest.raises(SubmitError, match=r"their pods p do not end; nothing was .* kubectl delete pod --force"):
        await submit(api, second())

    assert api.names("services") == []


@pytest.mark.parametrize(("seconds", "is_unreachable"), [(14, False), (15, True)])
def test_a_node_has_fifteen_seconds_after_the_grace_period_to_answer(seconds, is_unreachable):
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    pod = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": conditions}}
    now = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)

    assert wait.is_unreachable(pod, now) is is_unreachable


@pytest.mark.parametrize(
    "conditions",
    [
        [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}],
        [
            {"type": "Ready", "status": "False"},
            {"type": "ContainersReady", "status": "False"},
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
        ],
    ],
    ids=["ready", "not ready"],
)
async def test_pods_of_a_node_that_does_not_answer_hold_nothing_back_once_they_should_have_ended(
    api, caplog, conditions
):
    add_pods(api)
    api.update(PODS, "p", {"status": {"conditions": conditions}})
    api.remove(PODS, "p")
    next_try = asyncio.create_task(submit(api, second()))
    await asyncio.sleep(0.2)
    assert not next_try.done()

    # By the API server's clock a minute has passed.
    api.ahead = timedelta(minutes=1)
    await next_try

    assert [each.message for each in caplog.records if each.levelno == logging.WARNING] == [
        "Pods of earlier tries were to end, and may still run, as their nodes do not answer: p. They end once the "
        "nodes answer, and are forgotten where the nodes are deleted from the cluster."
    ]


@pytest.mark.parametrize(
    "conditions",
    [{"Ready": "True", "ContainersReady": "True"}, {"Ready": "False", "ContainersReady": "False"}, {}],
    ids=["ready", "not ready", "unknown"],
)
async def test_pods_that_should_have_ended_and_whose_node_answers_are_waited_for(api, monkeypatch, conditions):
    monkeypatch.setattr(wait, "_GONE_SECONDS", -0.9)
    add_pods(api)
    say_conditions(api, "p", **conditions)
    api.remove(PODS, "p")
    api.ahead = timedelta(minutes=1)

    with pytest.raises(SubmitError, match="their pods p do not end"):
        await submit(api, second())


async def test_pods_that_were_not_asked_to_end_are_waited_for_on_a_node_that_does_not_answer(api, monkeypatch):
    monkeypatch.setattr(wait, "_GONE_SECONDS", -0.9)
    add_pods(api)
    say_conditions(api, "p", Ready="False", ContainersReady="True")

    with pytest.raises(SubmitError, match="their pods p do not end"):
        await submit(api, second())


async def test_an_earlier_job_that_a_node_without_an_answer_holds_is_replaced(api, monkeypatch):
    # By the clock of this machine its time is not over while the test waits.
    monkeypatch.setattr(wait, "_UNREACHABLE_AFTER", timedelta(minutes=5))
    monkeypatch.setattr(wait, "_GONE_SECONDS", 2)
    first = (await submit(api, command=["python", "other.py"])).handle
    add_pods(api, **{KINDS["native"].pod_label: first.name})
    say_conditions(api, "p", Ready="False", ContainersReady="True")
    api.remove(PODS, "p")
    api.ahead = timedelta(minutes=10)

    assert (await submit(api, second())).handle.uid != first.uid


async def test_the_same_task_of_another_airflow_that_has_no_name_is_not_waited_for(api):
    other = TRY.model_copy(update={"deployment": ""})
    add_pods(api, **{labels.TASK: other.key, labels.JOB: other.job_name("train")})

    assert (await submit(api, second())).adopted is None

    assert api.names("pods") == ["p"]


async def test_the_second_start_of_a_try_waits_for_the_pods_of_its_first(api):
    add_pods(api)

    again = asyncio.create_task(submit(api, start=2))
    await asyncio.sleep(0.2)
    assert api.names("services") == []
    api.end_pod("p")

    assert (await again).handle.name == f"{TRY.job_name('train')}-2"


async def test_a_job_that_appears_while_pods_are_waited_for_is_adopted(api):
    add_pods(api)
    next_try = asyncio.create_task(submit(api, second()))
    await asyncio.sleep(0.2)
    other = (await submit(api)).handle
    api.end_pod("p")

    submission = await next_try

    assert (submission.handle.uid, submission.adopted) == (other.uid, "try 1 started it, and it still runs")


async def test_the_pods_of_a_job_that_the_same_try_starts_at_this_moment_are_not_waited_for(api):
    other = []

    async def start_it():
        other.append((await submit(api, second())).handle)
        add_pods(api, **{labels.JOB: other[0].name})

    look = api.before("GET", "/pods$", start_it)

    submission = await submit(api, second())

    assert look.hits == 1
    assert submission.handle.uid == other[0].uid
    assert submission.adopted == "this try has already started it"


async def test_terminating_pods_are_waited_for_without_a_look_for_their_jobs(api):
    add_pods(api)
    api.remove(PODS, "p")
    waiting = asyncio.create_task(end_earlier(api, second()))
    await until(lambda: sum(each.path.endswith("/pods") for each in api.requests) > 1)
    api.end_pod("p")
    await waiting

    after_pods = [each.path.rpartition("/")[2] for each in api.requests]
    first = after_pods.index("pods")
    assert set(after_pods[first:]) == {"pods"}
