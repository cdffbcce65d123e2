"""What is shown of a job on plain Kubernetes whose Job is gone: deleted by hand, or taken by its time to live."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import JOBS, SERVICES
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import MADE_AT, add_native, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE

_LOST = "a Job of j was deleted; whether it had succeeded is not known"
_PART = "Job j-worker was deleted before it had ended"


def _submitted(api, **annotations):
    """A job of one Job, all of whose objects were created."""
    add_native(api, "j")
    written = ours("j", **{labels.COMPLETE: "true", **annotations})["annotations"]
    api.update(SERVICES, "j", {"metadata": {"annotations": written}})


async def _shown(api):
    """What `describe` shows of the job, and what `list` does."""
    backend = ClusterBackend("native", await api.cluster(), NAMESPACE)
    described = await backend.describe(JobObject(KINDS["native"], api.get(SERVICES, "j")).handle("kube"))
    (listed,) = await backend.overviews()
    return described, listed.status


@pytest.mark.parametrize("status", [{"active": 1}, with_condition("Complete", MADE_AT)], ids=["trained", "complete"])
@pytest.mark.parametrize("pod", [None, "Running", "Succeeded"])
async def test_a_job_whose_job_is_gone_is_lost(api, status, pod):
    _submitted(api)
    api.update(JOBS, "j-worker", {"status": status})
    if pod is not None:
        add_pod(api, "j", "native", pod)
    assert (await _shown(api))[1].reason != "Deleted"
    api.remove(JOBS, "j-worker")

    described, listed = await _shown(api)

    for found in (described.overview.status, listed):
        assert (found.phase, found.reason, found.message) == (JobPhase.FAILED, "Deleted", _LOST)
    assert (described.diagnosis.reason, described.diagnosis.retry_can_help) == ("Deleted", "yes")


@pytest.mark.parametrize(
    ("annotations", "phase", "message"),
    [
        ({labels.PART_DELETED: _PART}, JobPhase.FAILED, _PART),
        # It was suspended with its task, and nothing of it is left to go on.
        ({labels.CANCELLED: "the task is failed", labels.ON_KILL: "suspend"}, JobPhase.CANCELLED, "the task is failed"),
    ],
)
async def test_what_is_written_on_a_job_says_why_its_job_is_gone(api, annotations, phase, message):
    _submitted(api, **annotations)
    api.remove(JOBS, "j-worker")

    described, listed = await _shown(api)

    assert (described.overview.status.phase, described.overview.status.message) == (phase, message)
    assert (listed.phase, listed.message) == (phase, message)


async def test_a_job_of_which_one_of_two_jobs_is_gone_goes_on(api):
    _submitted(api, **{labels.GROUPS: '{"chief": 1, "worker": 1}'})
    second = {"airflow-trainer-provider/first-rank": "1", "batch.kubernetes.io/job-completion-index": "0"}
    add_pod(api, "j", "native", labels={KINDS["native"].pod_label: "j", **second})

    described, listed = await _shown(api)

    assert described.overview.status.phase not in (JobPhase.QUEUED, JobPhase.FAILED)
    assert described.overview.running == 1
    assert listed.phase is described.overview.status.phase
