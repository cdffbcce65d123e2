"""Jobs that are there: found, suspended, resumed and deleted, and what is never done to them."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations import suspension, wait
from airflow_trainer_provider.cluster.state.kueue import WORKLOADS
from airflow_trainer_provider.errors import ApiError, JobLost, ManageError, SpecError
from airflow_trainer_provider.hooks.jobs import get, overviews, search
from airflow_trainer_provider.job.backend import Wanted
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import EVENTS, JOBS, PODS, SERVICES
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import BACKENDS, KINDS
from airflow_trainer_provider.timeouts import with_timeout
from tests.fakes.jobs import add_job, add_native, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE
from tests.unit.cluster.api_server import TIMEOUT

QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}
JAXJOBS = KINDS["jaxjob"].resource.plural


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(suspension, "_WORKLOAD_SECONDS", 0)


@pytest.fixture
async def backends(api):
    """All of a cluster's, by name."""
    cluster = await api.cluster()
    return {name: ClusterBackend(name, cluster, NAMESPACE) for name in BACKENDS}


def _workload(api, managed, **spec):
    metadata = {"labels": {"kueue.x-k8s.io/job-uid": managed["metadata"]["uid"]}}
    return api.add(WORKLOADS, f"workload-of-{managed['metadata']['name']}", metadata=metadata, spec=spec)


async def _get(backends, name="j", kind=None):
    return await get(backends.values(), name, kind)


async def _suspend(backends, *, wait=True):
    backend, handle = await _get(backends)
    return await backend.suspend(handle, wait=wait)


async def _resume(backends):
    backend, handle = await _get(backends)
    return await backend.resume(handle)


async def _overviews(backends):
    return await overviews(backends.values())


async def test_all_jobs_are_listed_but_no_service_that_is_none(api, backends):
    api.missing.add("pytorchjobs")
    add_job(api, "jaxjob", "theirs", metadata={"creationTimestamp": "2026-11-21T06:00:00Z"})
    add_native(api, "ours")
    api.add(SERVICES, "website")
    api.add(SERVICES, "ours-worker-0", metadata={"labels": {labels.JOB: "ours"}})

    found = await _overviews(backends)

    assert [(job.backend, job.name) for job in found] == [("training-operator", "theirs"), ("native", "ours")]


async def test_a_job_of_kubernetes_own_is_found_by_its_name_unless_it_is_part_of_another(api, backends):
    api.add(JOBS, "j", spec={"completions": 1})
    api.add(
        JOBS,
        "part",
        spec={"completions": 1},
        metadata={"ownerReferences": [{"kind": "JobSet", "name": "s", "uid": "u"}]},
    )

    backend, handle = await _get(backends)
    assert backend.title(handle) == "job j in namespace team"
    with pytest.raises(JobLost):
        await _get(backends, "part")
    assert await _overviews(backends) == []


async def test_a_name_that_nothing_has_is_reported(api, backends):
    api.missing.add("pytorchjobs")
    api.add(SERVICES, "j")

    with pytest.raises(JobLost, match="no training job called j in namespace team"):
        await _get(backends)


async def test_a_name_that_several_have_is_reported_with_their_kinds_and_one_can_be_chosen(api, backends):
    add_job(api, "jaxjob", "j")
    add_job(api, "trainjob", "j", metadata={"uid": "another"})

    with pytest.raises(ManageError, match=r"say which kind, of jaxjob j in .*, trainjob j in"):
        await _get(backends)

    _, handle = await _get(backends, kind="JAXJob")
    assert handle.location == "jaxjob/team/kube"
    _, handle = await get([backends["trainer"]], "j")
    assert handle.location == "trainjob/team/kube"


async def test_a_kind_that_there_is_not(api, backends):
    known = "JAXJob, Job, MPIJob, PaddleJob, PyTorchJob, TFJob, TrainJob, XGBoostJob"
    with pytest.raises(SpecError, match=f"allowed: {known}"):
        await _get(backends, kind="JAXJobs")


async def test_a_handle_finds_its_job_and_no_other_of_that_name(api, backends):
    add_job(api, "jaxjob", "j")
    backend, handle = await _get(backends)

    assert (await backend.describe(handle)).overview.name == "j"
    with pytest.raises(JobLost, match="another job has its name now"):
        await backend.suspend(handle.model_copy(update={"uid": "before"}))
    api.remove(KINDS["jaxjob"].resource, "j")
    with pytest.raises(JobLost, match="JAXJob in namespace team was deleted"):
        await backend.describe(handle)


async def test_suspending_waits_until_the_pods_are_gone_and_does_it_once(api, backends):
    add_job(api, "jaxjob", "j")
    add_pod(api, "j")
    looks = []

    def look():
        looks.append(len(api.patches))
        if len(looks) == 4:
            api.end_pod("j-worker-0")

    api.before("GET", "/pods$", look, times=None)

    assert await _suspend(backends) == "Suspended jaxjob j in namespace team."
    assert api.patches == [(f"{JAXJOBS}/j", {"spec": {"runPolicy": {"suspend": True}}})]
    assert looks == [0, 1, 1, 1]
    assert await _suspend(backends) == "The jaxjob j in namespace team was suspended already."
    assert len(api.patches) == 1


async def test_suspending_without_waiting_leaves_the_pods_to_the_controller(api, backends):
    add_job(api, "jaxjob", "j")
    add_pod(api, "j")

    assert (await _suspend(backends, wait=False)).startswith("Suspended")


async def test_pods_that_do_not_go_are_named(api, backends, monkeypatch):
    monkeypatch.setattr(wait, "_GONE_SECONDS", -1.5)
    add_job(api, "jaxjob", "j")
    add_pod(api, "j")

    with pytest.raises(ManageError, match="j in namespace team has not stopped: pods j-worker-0 are still there"):
        await _suspend(backends)


async def test_a_suspended_job_goes_on_once_its_pods_are_gone(api, backends):
    add_job(api, "jaxjob", "j", metadata=ours("j"), spec={"runPolicy": {"suspend": True}})
    add_pod(api, "j")

    resuming = asyncio.create_task(_resume(backends))
    await asyncio.sleep(0.2)
    assert api.writes == []
    api.end_pod("j-worker-0")

    assert (await with_timeout(resuming, TIMEOUT)).startswith("Resumed")
    assert api.writes == [f"PATCH {JAXJOBS}/j"]


@pytest.mark.parametrize("what", [_suspend, _resume])
async def test_a_job_that_has_ended_is_neither_suspended_nor_resumed(api, backends, what):
    add_job(api, "jaxjob", "j", status=with_condition("Succeeded", reason="R"))

    with pytest.raises(ManageError, match=r"j has ended \(succeeded\)") as caught:
        await what(backends)

    assert not caught.value.retryable
    assert api.writes == []


async def test_parts_that_have_ended_are_left_alone(api, backends):
    add_native(api, "j")
    done = {"spec": {"completions": 1}, "status": with_condition("Complete", reason="R")}
    api.add(JOBS, "j-ps", metadata={"labels": {labels.JOB: "j"}}, **done)

    await _suspend(backends, wait=False)

    assert api.patches == [("jobs/j-worker", {"spec": {"suspend": True}})]


async def test_what_a_queue_of_kueue_lets_run_is_suspended_by_its_workload_only(api, backends):
    _workload(api, add_job(api, "jaxjob", "j", metadata={"labels": QUEUE}))
    _workload(api, add_job(api, "jaxjob", "another", metadata={"labels": QUEUE}))

    await _suspend(backends, wait=False)

    assert api.patches == [("workloads/workload-of-j", {"spec": {"active": False}})]
    assert (await _suspend(backends, wait=False)).endswith("was suspended already.")


async def test_each_part_on_plain_kubernetes_has_a_workload_of_its_own(api, backends):
    add_native(api, "j", queue="gpus", suspend=True)
    _workload(api, api.get(JOBS, "j-worker"), active=False)

    assert (await _resume(backends)).startswith("Resumed")

    assert api.patches == [("workloads/workload-of-j-worker", {"spec": {"active": True}})]


async def test_a_job_that_waits_in_its_queue_is_not_suspended(api, backends):
    _workload(api, add_job(api, "jaxjob", "j", metadata={"labels": QUEUE}, spec={"runPolicy": {"suspend": True}}))

    assert (await _resume(backends)).endswith("is not suspended.")
    assert api.writes == []


async def test_a_queue_that_is_not_managed_is_reported(api, backends):
    add_job(api, "jaxjob", "j", metadata={"labels": QUEUE})

    with pytest.raises(ManageError, match="JAXJob j carries the name of a queue, and Kueue has no Workload for it"):
        await _suspend(backends)


async def test_without_kueue_a_queues_name_means_nothing(api, backends):
    api.missing.add("workloads")
    add_job(api, "jaxjob", "j", metadata={"labels": QUEUE})

    await _suspend(backends, wait=False)

    assert api.patches == [(f"{JAXJOBS}/j", {"spec": {"runPolicy": {"suspend": True}}})]


async def test_resuming_waits_for_the_previous_pods_also_for_those_that_have_failed_on_their_way_out(api, backends):
    add_job(api, "jaxjob", "j", spec={"runPolicy": {"suspend": True}, "jaxReplicaSpecs": {"Worker": {}}})
    add_pod(api, "j", phase="Failed", deletionTimestamp="2026-11-21T07:02:00Z")
    looks = []

    def look():
        looks.append(len(api.patches))
        if len(looks) == 3:
            api.end_pod("j-worker-0")

    api.before("GET", "/pods$", look, times=None)

    assert (await _resume(backends)).startswith("Resumed")

    assert set(looks) == {0}
    assert api.patches == [(f"{JAXJOBS}/j", {"spec": {"runPolicy": {"suspend": False}}})]
    assert (await _resume(backends)).endswith("is not suspended.")


async def test_a_job_that_was_suspended_with_its_task_is_no_longer_cancelled_once_it_goes_on(api, backends):
    metadata = ours("j", **{labels.CANCELLED: "the task was killed", labels.ON_KILL: "suspend"})
    suspended = {"runPolicy": {"suspend": True}, "jaxReplicaSpecs": {"Worker": {}}}
    main = add_job(
        api, "jaxjob", "j", metadata=metadata, spec=suspended, status=with_condition("Suspended", reason="R")
    )
    backend, handle = await _get(backends)
    assert (await backend.status(handle)).phase is JobPhase.CANCELLED

    assert (await _resume(backends)).startswith("Resumed")

    (_, first), (_, second) = api.patches
    assert first == {"metadata": {"uid": main["metadata"]["uid"], "annotations": {labels.CANCELLED: None}}}
    assert second == {"spec": {"runPolicy": {"suspend": False}}}


async def test_deleting_notifies_who_waits_for_the_job_and_deletes_no_other(api, backends):
    uid = add_job(api, "jaxjob", "j", metadata=ours("j"))["metadata"]["uid"]
    backend, handle = await _get(backends)

    assert await backend.delete(handle, "deleted by me", wait=False) == "Deleted jaxjob j in namespace team."

    patch = {"metadata": {"uid": uid, "annotations": {labels.CANCELLED: "deleted by me"}}}
    assert (api.patches, api.deletes) == ([(f"{JAXJOBS}/j", patch)], [(f"{JAXJOBS}/j", {"uid": uid})])
    with pytest.raises(JobLost):
        await backend.delete(handle, "deleted by me")
    add_job(api, "jaxjob", "j", metadata=ours("j"))
    with pytest.raises(JobLost, match="another job has its name now"):
        await backend.delete(handle, "deleted by me")
    assert labels.CANCELLED not in api.get(KINDS["jaxjob"].resource, "j")["metadata"]["annotations"]


async def test_a_job_that_something_else_made_is_deleted_as_it_is(api, backends):
    uid = add_job(api, "jaxjob", "j")["metadata"]["uid"]

    backend, handle = await _get(backends)
    await backend.delete(handle, "deleted by me", wait=False)

    assert api.writes == [f"DELETE {JAXJOBS}/j"]
    assert api.deletes == [(f"{JAXJOBS}/j", {"uid": uid})]


async def test_deleting_can_wait_until_the_pods_are_gone(api, backends):
    add_job(api, "jaxjob", "j")
    add_pod(api, "j")
    looks = []

    def look():
        looks.append(api.names(JAXJOBS))
        if len(looks) == 3:
            api.end_pod("j-worker-0")

    backend, handle = await _get(backends)
    api.before("GET", "/pods$", look, times=None)

    assert (await backend.delete(handle, "deleted by me")).startswith("Deleted")
    assert looks == [[]] * 3


async def test_a_deleted_job_that_does_not_go_is_reported(api, backends, monkeypatch):
    monkeypatch.setattr(wait, "_GONE_SECONDS", -1.5)
    add_job(api, "jaxjob", "j")
    add_pod(api, "j")

    backend, handle = await _get(backends)
    with pytest.raises(ManageError, match="is deleted, and not gone yet: j-worker-0"):
        await backend.delete(handle, "deleted by me")


@pytest.mark.parametrize("key", ["native", "trainjob", "jaxjob"])
@pytest.mark.parametrize("value", ["x", "[]", "{}", '["a"]', '{"a": "b"}', '{"worker": 1e99}', '{"worker": -1}', "-1"])
async def test_an_object_with_broken_annotations_breaks_no_others(api, backends, key, value):
    resource = KINDS[key].resource
    add_native(api, "j") if key == "native" else add_job(api, key, "j", metadata=ours("j"))
    add_pod(api, "j", key)
    add_job(api, "jaxjob", "good")
    right = api.get(resource, "j")["metadata"]["annotations"]
    for name in (labels.IDENTITY, labels.OWNER, labels.GROUPS, labels.FRAMEWORK):
        api.update(resource, "j", {"metadata": {"annotations": {**right, name: value}}})

        found = {each.name: each for each in await _overviews(backends)}

        assert found["good"].replicas == 1
        assert set(found) == {"good", "j"}
        assert (found["j"].identity is None) == (name == labels.IDENTITY)
        handles = await search(backends.values(), Wanted(selector=labels.OURS, every=True))
        assert [handle.name for handle in handles] == ["j"]


async def test_a_pod_with_broken_labels_breaks_no_others(api, backends):
    add_native(api, "j")
    add_pod(api, "j", "native")
    api.update(PODS, "j-worker-0", {"metadata": {"labels": {"airflow-trainer-provider/first-rank": "x"}}})

    assert [each.name for each in await _overviews(backends)] == ["j"]


async def test_overviews_show_each_job_with_its_own_pods_and_workload(api, backends):
    add_job(api, "jaxjob", "runs")
    add_pod(api, "runs")
    _workload(
        api,
        add_job(api, "jaxjob", "queues", metadata={"labels": QUEUE}, status=with_condition("Suspended", reason="R")),
    )
    add_native(api, "held", queue="gpus", suspend=True)
    _workload(api, api.get(JOBS, "held-worker"), active=False)

    found = {each.name: each for each in await _overviews(backends)}

    assert [(name, each.status.phase.value, each.running, each.replicas) for name, each in sorted(found.items())] == [
        ("held", "suspended", 0, 1),
        ("queues", "queued", 0, 1),
        ("runs", "running", 1, 1),
    ]
    assert found["held"].identity.task_id == "train"
    assert found["runs"].identity is None


async def test_a_failed_job_is_described_with_its_verdict_and_its_warnings(api, backends):
    add_job(api, "jaxjob", "j", status=with_condition("Failed", reason="BackoffLimitExceeded"))
    api.add(
        EVENTS,
        "e",
        type="Warning",
        reason="FailedCreatePod",
        message="exceeded quota",
        involvedObject={"kind": "JAXJob", "name": "j"},
        lastTimestamp="2026-11-21T07:02:00Z",
        count=3,
    )

    backend, handle = await _get(backends)
    found = await backend.describe(handle)

    assert found.overview.framework == "jax"
    assert found.warnings == (("2026-11-21T07:02:00Z", "JAXJob j: FailedCreatePod: exceeded quota (3 times)"),)
    assert found.diagnosis.reason == "BackoffLimitExceeded"
    assert found.to_json()["diagnosis"]["retry_can_help"] == "unknown"


async def test_a_cluster_that_does_not_answer_what_it_has_does_not_count_as_one_without_jobs(api, backends):
    add_job(api, "jaxjob", "j")
    api.answer(403, "GET", r"/apis/kubeflow\.org/v1$")

    with pytest.raises(ApiError, match="403 Forbidden"):
        await _get(backends)


async def test_a_warning_that_came_once_has_no_count(api, backends):
    add_job(api, "jaxjob", "j")
    about = {"involvedObject": {"kind": "JAXJob", "name": "j"}, "lastTimestamp": "2026-11-21T07:02:00Z"}
    api.add(EVENTS, "e", type="Warning", reason="FailedCreatePod", message="exceeded quota", **about)

    backend, handle = await _get(backends)
    ((_, text),) = (await backend.describe(handle)).warnings

    assert text == "JAXJob j: FailedCreatePod: exceeded quota"


async def test_a_job_whose_name_another_takes_while_it_is_deleted_is_gone(api, backends):
    add_job(api, "jaxjob", "j", metadata=ours("j"))
    backend, handle = await _get(backends)

    def replaced():
        api.remove(KINDS["jaxjob"].resource, "j")
        add_job(api, "jaxjob", "j", metadata=ours("j"))

    api.before("PATCH", f"/{JAXJOBS}/j$", replaced)

    assert await backend.delete(handle, "deleted by me") == "The jaxjob j in namespace team is gone already."
    assert api.deletes == []
    assert labels.CANCELLED not in api.get(KINDS["jaxjob"].resource, "j")["metadata"]["annotations"]


async def test_a_replica_that_has_ended_does_not_run(api, backends):
    add_job(api, "jaxjob", "j", metadata=ours("j", **{labels.GROUPS: '{"worker": 2}'}))
    add_pod(api, "j")
    ended = {"exitCode": 0, "startedAt": "2026-11-21T07:00:01Z", "finishedAt": "2026-11-21T07:00:59Z"}
    add_pod(api, "j", phase="Succeeded", index=1, state={"terminated": ended})

    (found,) = await overviews(backends.values())

    assert (found.running, found.replicas) == (1, 2)
