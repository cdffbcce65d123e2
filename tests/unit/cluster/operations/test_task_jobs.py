"""What earlier tries of a task have left on a cluster ends before its next one starts, there or elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations import wait
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.kubeflow.training_operator import JAXJOB
from airflow_trainer_provider.kinds.objects import labels
from tests.fakes.jobs import add_job, with_condition
from tests.fakes.jobs import ours as of_any_task
from tests.fakes.kubernetes import NAMESPACE
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


def add_pods(api, **labelled):
    """Add a pod of the task that is terminating, and one that has ended."""
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "train"}]}
    for name, phase in (("p", "Running"), ("q", "Succeeded")):
        api.add(PODS, name, metadata={"labels": {**OURS, **labelled}}, spec=spec, status={"phase": phase})
    api.remove(PODS, "p")


@pytest.mark.parametrize("next_one", [end_earlier, submit], ids=["elsewhere", "there"])
async def test_pods_whose_job_is_gone_already_are_waited_for(api, next_one):
    first = (await submit(api)).handle
    add_pods(api)
    await ClusterBackend("native", await api.cluster(), NAMESPACE).cancel(first, "the task was cleared")
    before = api.names("services")

    next_try = asyncio.create_task(next_one(api, second()))
    await asyncio.sleep(0.2)
    assert not next_try.done()
    assert api.names("services") == before
    api.end_pod("p")

    await next_try


async def test_pods_that_do_not_end_are_named_with_the_way_out_and_nothing_starts(api, monkeypatch):
    monkeypatch.setattr(wait, "_GONE_SECONDS", -0.9)
    add_pods(api)

    with pytest.raises(SubmitError, match=r"their pods p do not end; nothing was .* kubectl delete pod --force"):
        await submit(api, second())

    assert api.names("services") == []


async def test_the_pods_of_a_job_that_the_same_try_starts_at_this_moment_are_not_waited_for(api):
    other = []

    async def start_it():
        other.append((await submit(api, second())).handle)
        metadata = {"labels": {**OURS, labels.JOB: other[0].name}}
        api.add(PODS, "p", metadata=metadata, spec={"containers": []}, status={"phase": "Running"})

    look = api.before("GET", "/pods$", start_it)

    submission = await submit(api, second())

    assert look.hits == 1
    assert submission.handle.uid == other[0].uid
    assert submission.adopted == "this try has already started it"
