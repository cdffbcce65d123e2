"""The pods of an earlier job of the same name, which take their grace period to go, are not the job's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.cluster.describe import job_statuses
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.own_pods import is_own
from airflow_trainer_provider.cluster.state.snapshot import parts_of
from tests.fakes.jobs import add_job, add_pod, ours
from tests.fakes.kubernetes import NAMESPACE
from tests.unit.cluster.api_server import until
from tests.unit.cluster.operations.test_last_status import KIND, Watching

BEFORE, AT, AFTER = "2026-11-21T06:00:00Z", "2026-11-21T07:00:00Z", "2026-11-21T07:00:01Z"
SHORTLY_BEFORE = "2026-11-21T06:59:55Z"
DELETED = {"deletionTimestamp": "2026-11-21T07:00:00Z"}


def controller(kind: str, uid: str, **fields: Any) -> dict[str, Any]:
    reference = {"apiVersion": KIND.resource.api_version, "kind": kind, "uid": uid, "controller": True, **fields}
    return {"ownerReferences": [reference]}


@pytest.mark.parametrize(
    ("metadata", "own"),
    [
        (controller("JAXJob", "new"), True),
        (controller("JAXJob", "earlier"), False),
        (controller("JAXJob", "new") | DELETED | {"creationTimestamp": BEFORE}, True),
        (controller("JAXJob", "earlier", controller=False), True),
        (controller("Job", "other"), True),
        (controller("Job", "other") | DELETED | {"creationTimestamp": BEFORE}, False),
        ({"creationTimestamp": BEFORE}, False),
        ({"creationTimestamp": SHORTLY_BEFORE}, True),
        (controller("Job", "other") | {"creationTimestamp": BEFORE}, False),
        (controller("JAXJob", "new") | {"creationTimestamp": BEFORE}, True),
        (DELETED | {"creationTimestamp": BEFORE}, False),
        (DELETED | {"creationTimestamp": AT}, True),
        (DELETED, True),
    ],
    ids=[
        "of this job",
        "of the earlier job",
        "of this job, by a clock that is behind",
        "an owner that is no controller",
        "of a controller of another kind",
        "of a controller of another kind, older and terminating",
        "older",
        "older, as clocks differ",
        "of a controller of another kind, older",
        "of this job, older",
        "older and terminating",
        "of the same second and terminating",
        "terminating",
    ],
)
def test_a_pod_is_the_jobs_unless_it_can_only_be_an_earlier_jobs(metadata, own):
    job = JobObject(KIND, {"metadata": {"name": "j", "uid": "new", "creationTimestamp": AT}})

    assert is_own(job, {"metadata": {"creationTimestamp": AFTER, **metadata}}) is own


def add_earlier(api):
    """A pod of an earlier job, which has failed and goes."""
    state = {"terminated": {"exitCode": 7, "reason": "Error"}}
    add_pod(api, "j", phase="Failed", state=state, creationTimestamp=BEFORE, **DELETED)


async def test_the_watch_does_not_take_the_end_of_an_earlier_jobs_pod_for_the_jobs(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_earlier(api)
    async with Watching(api, main) as watching:
        await until(lambda: watching.statuses)
        api.end_pod("j-worker-0")
        add_pod(api, "j")
        await until(lambda: any(each.node for each in watching.statuses[-1].replicas))

    assert {each.exit_code for status in watching.statuses for each in status.replicas} <= {None}
    assert {status.first_failed for status in watching.statuses} == {None}


async def test_the_list_of_jobs_and_the_parts_of_one_leave_out_an_earlier_jobs_pod(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_earlier(api)
    cluster = await api.cluster()
    job = JobObject(KIND, main)

    ((_, status),) = await job_statuses(cluster, [KIND], NAMESPACE)
    assert {each.exit_code for each in status.replicas} <= {None}
    pods, _ = await parts_of(cluster, job)
    assert pods == []
