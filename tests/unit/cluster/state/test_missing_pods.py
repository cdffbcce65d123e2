"""Why pods are missing, or wait, is said by events; these are asked for only then."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.state import watcher
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.kinds.base import EVENTS, PODS
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.timeouts import with_timeout
from tests.fakes.jobs import add_job, add_pod, ours
from tests.fakes.kubernetes import NAMESPACE

KIND = KINDS["jaxjob"]
_FORBIDDEN = 'Error creating: pods "j-worker-1" is forbidden: no PriorityClass with name x was found'
_TWO = {labels.GROUPS: '{"worker": 2}'}
_CREATING = {"waiting": {"reason": "ContainerCreating"}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(watcher, "_EVENTS_AFTER", 0.0)
    monkeypatch.setattr(watcher, "_TOGETHER", 0.0)


def _warn(api, reason, message, kind, name, uid=""):
    about = {"kind": kind, "name": name, "namespace": NAMESPACE, "uid": uid}
    at = {"firstTimestamp": "2026-11-21T07:00:00Z", "lastTimestamp": "2026-11-21T07:02:00Z"}
    api.add(EVENTS, f"{name}.1", type="Warning", reason=reason, message=message, involvedObject=about, **at)


@pytest.mark.parametrize("read_first", [False, True])
async def test_a_pod_that_is_refused_beside_one_that_runs_is_named(api, read_first):
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **_TWO))
    add_pod(api, "j")
    _warn(api, "FailedCreatePod", _FORBIDDEN, "JAXJob", "j")

    found = await _until(api, main, "FailedCreatePod", read_first)

    assert (found.phase.value, found.message) == ("starting", _FORBIDDEN)
    assert found.refused_at.isoformat() == "2026-11-21T07:02:00+00:00"


@pytest.mark.parametrize("read_first", [False, True])
async def test_a_volume_that_cannot_be_mounted_is_named(api, read_first):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    pod = add_pod(api, "j", phase="Pending", state=_CREATING)
    _warn(api, "FailedMount", 'configmap "none" not found', "Pod", "j-worker-0", pod["metadata"]["uid"])

    found = await _until(api, main, "FailedMount", read_first)

    assert (found.phase.value, found.message) == ("starting", 'worker-0: configmap "none" not found')


async def test_a_job_that_runs_and_one_that_has_ended_ask_for_no_events(api):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    add_pod(api, "j")
    job = JobObject(KIND, main).handle("kube")
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)

    async with aclosing(backend.watch(job)) as statuses:
        assert (await anext(statuses)).phase.value == "running"
        following = anext(statuses)
        api.update(PODS, "j-worker-0", {"status": {"phase": "Failed", "containerStatuses": []}})
        ended = [{"type": "Failed", "status": "True", "reason": "JAXJobFailed", "message": "it has failed"}]
        api.update(KIND.resource, "j", {"status": {"conditions": ended}, "metadata": {"annotations": _TWO}})
        assert (await with_timeout(following, 30)).phase.value == "failed"
    assert (await backend.status(job)).phase.value == "failed"
    assert not [request for request in api.requests if "/events" in request.path]


async def _until(api, main, reason, read_first):
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)
    job = JobObject(KIND, main).handle("kube")
    if read_first:
        return await backend.status(job)

    async def wait():
        async with aclosing(backend.watch(job)) as statuses:
            async for status in statuses:
                if status.reason == reason:
                    return status
        raise AssertionError("the job has ended")

    return await with_timeout(wait(), 30)
