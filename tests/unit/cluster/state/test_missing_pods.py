"""Why pods are missing, or wait, is said by events; these are asked for only then."""

from __future__ import annotations

import json
from contextlib import aclosing
from datetime import timedelta

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.state import watcher
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.job.monitor import Monitor
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


def _warn(api, reason, message, kind, name, uid="", type="Warning"):
    about = {"kind": kind, "name": name, "namespace": NAMESPACE, "uid": uid}
    at = {"firstTimestamp": "2026-11-21T07:00:00Z", "lastTimestamp": "2026-11-21T07:02:00Z"}
    api.add(EVENTS, f"{name}.1", type=type, reason=reason, message=message, involvedObject=about, **at)


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


@pytest.mark.parametrize("read_first", [False, True])
async def test_the_image_that_a_node_pulls_is_named(api, read_first):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    pod = add_pod(api, "j", phase="Pending", state=_CREATING)
    pull = 'Pulling image "registry.example/train:1"'
    _warn(api, "Pulling", pull, "Pod", "j-worker-0", pod["metadata"]["uid"], type="Normal")

    found = await _until(api, main, None, read_first, f"worker-0: {pull}")

    assert (found.text(), found.refused_at) == (f"starting (worker-0: {pull})", None)


_USED_UP = "is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=1, limited: pods=1"
_STEP, _ROLE = {"jobset.sigs.k8s.io/replicatedjob-name": "node"}, "training.kubeflow.org/job-role"
#: Of each kind: the backend, the groups, what its controller writes on the pod that there is, and on the one that it
#: cannot create, and how it says so.
_REFUSED = {
    "native": ("native", {"worker": 2}, {}, {}, ("FailedCreate", "Job", "j-worker", "j-worker-1-x7k2p")),
    "trainjob": ("trainer", {"worker": 2}, _STEP, _STEP, ("FailedCreate", "Job", "j-node-0", "j-node-0-1-x7k2p")),
    "jaxjob": ("training-operator", {"worker": 2}, {}, {}, ("FailedCreatePod", "JAXJob", "j", "j-worker-1")),
    "mpijob-v2beta1": (
        "mpi-operator",
        {"worker": 2},
        {_ROLE: "worker"},
        {_ROLE: "worker"},
        ("MPIJobFailed", "MPIJob", "j", "j-worker-1"),
    ),
    "mpijob-v2beta1, its launcher": (
        "mpi-operator",
        {"launcher": 1, "worker": 1},
        {_ROLE: "worker"},
        {_ROLE: "launcher"},
        ("FailedCreate", "Job", "j-launcher", "j-launcher-x7k2p"),
    ),
}


@pytest.mark.parametrize("case", _REFUSED)
async def test_a_job_whose_quota_lets_in_some_of_its_pods_says_why_it_waits_until_the_quota_is_free(api, case):
    (name, groups, there, missing, event), key = _REFUSED[case], case.partition(",")[0]
    main = add_job(api, key, "j", metadata=ours("j", **{labels.GROUPS: json.dumps(groups)}))
    backend, job = ClusterBackend(name, await api.cluster(), NAMESPACE), JobObject(KINDS[key], main).handle("kube")
    _add_pod(api, key, 0, there)
    _warn_of_quota(api, *event)

    found = await backend.status(job)
    assert (found.phase.value, found.reason) == ("starting", event[0])
    assert found.message.endswith(_USED_UP)
    assert not _is_given_up(Monitor(None), found)
    # Unless its task has said how long it may take to start.
    assert _is_given_up(Monitor(3000), found)

    _add_pod(api, key, 1, missing)
    found = await backend.status(job)
    assert (found.phase.value, found.reason) == ("running", None)


def _is_given_up(monitor, refused):
    """Whether a job is given up that the cluster refuses a pod for an hour."""
    monitor.observe(refused, refused.refused_at)
    at = refused.refused_at + timedelta(hours=1)
    given_up = monitor.observe(refused.model_copy(update={"refused_at": at}), at)
    assert given_up is None or given_up.message.endswith(_USED_UP)
    return given_up is not None


def _warn_of_quota(api, reason, kind, name, pod):
    what = "worker pod created failed" if reason == "MPIJobFailed" else "Error creating"
    _warn(api, reason, f'{what}: pods "{pod}" {_USED_UP}', kind, name)


def _add_pod(api, key, index, own):
    counted = {
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": str(index),
        "airflow-trainer-provider/first-rank": "0",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    add_pod(api, "j", key, index=index, labels={KINDS[key].pod_label: "j", **counted, **own})


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


async def _until(api, main, reason, read_first, message=None):
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)
    job = JobObject(KIND, main).handle("kube")
    if read_first:
        return await backend.status(job)

    async def wait():
        async with aclosing(backend.watch(job)) as statuses:
            async for status in statuses:
                if status.reason == reason and message in (None, status.message):
                    return status
        raise AssertionError("the job has ended")

    return await with_timeout(wait(), 30)
