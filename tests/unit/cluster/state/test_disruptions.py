"""A pod that is taken away and whose training exits with 0 then, as the watch of its job sees it."""

from __future__ import annotations

import json

import pytest

from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.timeouts import with_timeout
from tests.fakes.jobs import add_job, add_pod, ours
from tests.unit.cluster.api_server import TIMEOUT, until
from tests.unit.cluster.operations.test_last_status import KIND, Watching, backend_of, end_of, has_ended


def taken_away(api):
    """Ask for the pod's deletion; its training exits with 0, and the kubelet lets it go."""
    by = {"deletionTimestamp": "2026-11-21T07:01:20Z", "deletionGracePeriodSeconds": 30}
    api.update(PODS, "j-worker-0", {"metadata": by})
    api.update(PODS, "j-worker-0", {"status": end_of("Succeeded", reason="Completed")})
    by = {"deletionTimestamp": "2026-11-21T07:01:00Z", "deletionGracePeriodSeconds": 0}
    api.update(PODS, "j-worker-0", {"metadata": by})


def written(api):
    return (api.get(KIND.resource, "j")["metadata"].get("annotations") or {}).get(labels.DISRUPTED)


@pytest.mark.parametrize("goes", [False, True])
async def test_the_job_has_failed_also_for_who_reads_it_later(api, goes):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_pod(api, "j")
    async with Watching(api, main) as watching:
        await until(lambda: watching.statuses)
        taken_away(api)
        await until(lambda: written(api))
        if goes:
            api.end_pod("j-worker-0")
        has_ended(api, "Succeeded")
        await with_timeout(watching.task, TIMEOUT)

    for last in (watching.statuses[-1], await (await backend_of(api)).status(watching.handle)):
        assert (last.phase, last.reason, last.first_failed) == (JobPhase.FAILED, "Deleted", "worker-0")
    assert json.loads(written(api))["worker-0"]["end"]["exit_code"] == 0


async def test_an_end_that_is_seen_together_with_its_jobs_is_written_down_too(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_pod(api, "j")
    async with Watching(api, main) as watching:
        await until(lambda: watching.statuses)
        taken_away(api)
        has_ended(api, "Succeeded")
        await with_timeout(watching.task, TIMEOUT)

    assert watching.statuses[-1].phase is JobPhase.FAILED
    assert written(api)


async def test_nothing_is_written_of_a_job_that_is_cancelled(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **{labels.CANCELLED: "the test wants it"}))
    add_pod(api, "j")
    async with Watching(api, main) as watching:
        await until(lambda: watching.statuses)
        taken_away(api)
        has_ended(api, "Succeeded")
        await with_timeout(watching.task, TIMEOUT)

    assert watching.statuses[-1].phase is JobPhase.CANCELLED
    assert written(api) is None
