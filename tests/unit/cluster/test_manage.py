"""Jobs that are there: found, suspended, resumed and deleted, and what is never done to them."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster import manage, suspension
from airflow_trainer_provider.cluster.describe import describe, overviews
from airflow_trainer_provider.cluster.kueue import WORKLOADS
from airflow_trainer_provider.errors import JobLost, ManageError, SpecError
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import EVENTS, JOBS, SERVICES
from airflow_trainer_provider.kinds.registry import KINDS
from tests.unit.cluster.fake_cluster import NAMESPACE, FakeCluster, add_job, add_native, add_pod, ours

QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}
JAXJOBS = KINDS["jaxjob"].resource.plural


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    for module in (manage, suspension):
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0)
    monkeypatch.setattr(suspension, "_WORKLOAD_SECONDS", 0)


def _condition(kind, reason="R"):
    return {
        "conditions": [{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": "2026-11-21T07:01:00Z"}]
    }


def _workload(cluster, uid, **spec):
    return cluster.add(WORKLOADS, f"workload-of-{uid}", metadata={"labels": {"kueue.x-k8s.io/job-uid": uid}}, spec=spec)


async def _get(cluster, name="j"):
    return await manage.get(cluster, NAMESPACE, name)


async def test_all_jobs_are_listed_but_no_service_that_is_none():
    cluster = FakeCluster("pytorchjobs")
    add_job(cluster, "jaxjob", "theirs", metadata={"creationTimestamp": "2026-11-21T06:00:00Z"})
    add_native(cluster, "ours")
    cluster.add(SERVICES, "website")
    cluster.add(SERVICES, "ours-worker-0", metadata={"labels": {labels.JOB: "ours"}})

    found = await manage.jobs(cluster, NAMESPACE)

    assert [(job.backend, job.name) for job in found] == [("training-operator", "theirs"), ("native", "ours")]


async def test_a_job_of_kubernetes_own_is_found_by_its_name_unless_it_is_part_of_another():
    cluster = FakeCluster()
    cluster.add(JOBS, "j", spec={"completions": 1})
    cluster.add(JOBS, "part", spec={"completions": 1}, metadata={"ownerReferences": [{"kind": "JobSet", "name": "s"}]})

    assert (await _get(cluster)).kind.key == "job"
    with pytest.raises(JobLost):
        await _get(cluster, "part")
    assert await manage.jobs(cluster, NAMESPACE) == []


async def test_a_name_that_nothing_has_is_told():
    cluster = FakeCluster("pytorchjobs")
    cluster.add(SERVICES, "j")

    with pytest.raises(JobLost, match="no training job called j in namespace team"):
        await _get(cluster)


async def test_a_name_that_several_have_is_told_with_their_kinds_and_one_can_be_chosen():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j")
    add_job(cluster, "trainjob", "j", metadata={"uid": "another"})

    with pytest.raises(ManageError, match="say which kind, of trainjob, jaxjob"):
        await _get(cluster)

    job = await manage.get(cluster, NAMESPACE, "j", kind="JAXJob")
    assert job.kind.key == "jaxjob"
    job = await manage.get(cluster, NAMESPACE, "j", backend="trainer")
    assert job.kind.key == "trainjob"


async def test_a_kind_that_there_is_not():
    with pytest.raises(SpecError, match="allowed: JAXJob, Job, MPIJob"):
        await manage.get(FakeCluster(), NAMESPACE, "j", kind="JAXJobs")


async def test_a_handle_finds_its_job_and_no_other_of_that_name():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j")
    handle = (await _get(cluster)).handle("fake")

    assert (await manage.of_handle(cluster, handle)).name == "j"
    with pytest.raises(JobLost, match="another job has its name now"):
        await manage.of_handle(cluster, handle.model_copy(update={"uid": "before"}))
    await cluster.delete(KINDS["jaxjob"].resource, NAMESPACE, "j")
    with pytest.raises(JobLost, match="namespace team has no jaxjob of its name"):
        await manage.of_handle(cluster, handle)


async def test_suspending_waits_until_the_pods_are_gone_and_does_it_once():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j")
    add_pod(cluster, "j")
    looks = []

    def look():
        looks.append(len(cluster.patches()))
        if len(looks) == 4:
            del cluster.objects["pods", NAMESPACE, "j-worker-0"]

    cluster.before_pods = look

    assert await manage.suspend(cluster, await _get(cluster))
    assert cluster.patches() == [(JAXJOBS, "j", {"spec": {"runPolicy": {"suspend": True}}})]
    assert looks == [0, 1, 1, 1]
    assert not await manage.suspend(cluster, await _get(cluster))
    assert len(cluster.patches()) == 1


async def test_suspending_without_waiting_leaves_the_pods_to_the_controller():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j")
    add_pod(cluster, "j")

    assert await manage.suspend(cluster, await _get(cluster), wait=False)


async def test_pods_that_do_not_go_are_named(monkeypatch):
    monkeypatch.setattr(suspension, "_GONE_SECONDS", -1.5)
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j")
    add_pod(cluster, "j")

    with pytest.raises(ManageError, match="j in namespace team has not stopped: pods j-worker-0 are still there"):
        await manage.suspend(cluster, await _get(cluster))


@pytest.mark.parametrize("what", [manage.suspend, manage.resume])
async def test_a_job_that_has_ended_is_neither_suspended_nor_resumed(what):
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j", status=_condition("Succeeded"))

    with pytest.raises(ManageError, match=r"j has ended \(succeeded\)") as caught:
        await what(cluster, await _get(cluster))

    assert not caught.value.retryable
    assert cluster.asked == []


async def test_parts_that_have_ended_are_left_alone():
    cluster = FakeCluster()
    add_native(cluster, "j")
    done = cluster.add(
        KINDS["native"].children[0],
        "j-ps",
        metadata={"labels": {labels.JOB: "j"}},
        spec={"completions": 1},
        status=_condition("Complete"),
    )

    await manage.suspend(cluster, await _get(cluster), wait=False)

    assert cluster.patches() == [("jobs", "j-worker", {"spec": {"suspend": True}})]
    assert done["spec"] == {"completions": 1}


async def test_what_a_queue_of_kueue_lets_run_is_suspended_by_its_workload_only():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j", metadata={"labels": QUEUE})
    _workload(cluster, "uid-of-j")
    _workload(cluster, "another")

    await manage.suspend(cluster, await _get(cluster), wait=False)

    assert cluster.patches() == [("workloads", "workload-of-uid-of-j", {"spec": {"active": False}})]
    assert not await manage.suspend(cluster, await _get(cluster), wait=False)


async def test_each_part_on_plain_kubernetes_has_a_workload_of_its_own():
    cluster = FakeCluster()
    add_native(cluster, "j", queue="gpus")
    _workload(cluster, "uid-of-j-worker", active=False)
    cluster.objects["jobs", NAMESPACE, "j-worker"]["spec"]["suspend"] = True

    assert await manage.resume(cluster, await _get(cluster))

    assert cluster.patches() == [("workloads", "workload-of-uid-of-j-worker", {"spec": {"active": True}})]


async def test_a_job_that_waits_in_its_queue_is_not_suspended():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j", metadata={"labels": QUEUE}, spec={"runPolicy": {"suspend": True}})
    _workload(cluster, "uid-of-j")

    assert not await manage.resume(cluster, await _get(cluster))
    assert cluster.asked == []


async def test_a_queue_that_nobody_manages_is_told():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j", metadata={"labels": QUEUE})

    with pytest.raises(ManageError, match="JAXJob j carries the name of a queue, and Kueue has no Workload for it"):
        await manage.suspend(cluster, await _get(cluster))


async def test_without_kueue_a_queues_name_means_nothing():
    cluster = FakeCluster("workloads")
    add_job(cluster, "jaxjob", "j", metadata={"labels": QUEUE})

    await manage.suspend(cluster, await _get(cluster), wait=False)

    assert cluster.patches() == [(JAXJOBS, "j", {"spec": {"runPolicy": {"suspend": True}}})]


async def test_resuming_waits_for_the_pods_of_before_also_for_those_that_have_failed_on_their_way_out():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j", spec={"runPolicy": {"suspend": True}, "jaxReplicaSpecs": {"Worker": {}}})
    add_pod(cluster, "j", phase="Failed", deletionTimestamp="2026-11-21T07:02:00Z")
    looks = []

    def look():
        looks.append(len(cluster.patches()))
        if len(looks) == 3:
            del cluster.objects["pods", NAMESPACE, "j-worker-0"]

    cluster.before_pods = look

    assert await manage.resume(cluster, await _get(cluster))

    assert set(looks) == {0}
    assert cluster.patches() == [(JAXJOBS, "j", {"spec": {"runPolicy": {"suspend": False}}})]
    assert not await manage.resume(cluster, await _get(cluster))


async def test_a_job_that_was_suspended_with_its_task_is_no_longer_cancelled_once_it_goes_on():
    cluster = FakeCluster()
    metadata = ours("j", **{labels.CANCELLED: "the task was killed", labels.ON_KILL: "suspend"})
    suspended = {"runPolicy": {"suspend": True}, "jaxReplicaSpecs": {"Worker": {}}}
    add_job(cluster, "jaxjob", "j", metadata=metadata, spec=suspended, status=_condition("Suspended"))
    assert (await describe(cluster, await _get(cluster))).overview.status.phase is JobPhase.CANCELLED

    assert await manage.resume(cluster, await _get(cluster))

    (_, _, first), (_, _, second) = cluster.patches()
    assert first == {"metadata": {"uid": "uid-of-j", "annotations": {labels.CANCELLED: None}}}
    assert second == {"spec": {"runPolicy": {"suspend": False}}}


async def test_deleting_tells_who_waits_for_the_job_and_deletes_no_other():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j", metadata=ours("j"))
    job = await _get(cluster)

    assert await manage.delete(cluster, job, "deleted by me")

    told = {"metadata": {"uid": "uid-of-j", "annotations": {labels.CANCELLED: "deleted by me"}}}
    assert cluster.asked == [("patch", JAXJOBS, "j", told), ("delete", JAXJOBS, "j", "uid-of-j")]
    assert not await manage.delete(cluster, job, "deleted by me")
    add_job(cluster, "jaxjob", "j", metadata={**ours("j"), "uid": "later"})
    assert not await manage.delete(cluster, job, "deleted by me")
    assert (JAXJOBS, NAMESPACE, "j") in cluster.objects


async def test_a_job_that_something_else_made_is_deleted_as_it_is():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j")

    await manage.delete(cluster, await _get(cluster), "deleted by me")

    assert cluster.asked == [("delete", JAXJOBS, "j", "uid-of-j")]


async def test_deleting_can_wait_until_the_pods_are_gone():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j")
    add_pod(cluster, "j")
    looks = []

    def look():
        looks.append(cluster.objects.keys())
        if len(looks) == 3:
            del cluster.objects["pods", NAMESPACE, "j-worker-0"]

    job = await _get(cluster)
    cluster.before_pods = look

    assert await manage.delete(cluster, job, "deleted by me", wait=True)
    assert len(looks) == 3


async def test_a_deleted_job_that_does_not_go_is_told(monkeypatch):
    monkeypatch.setattr(manage, "_GONE_SECONDS", -1.5)
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j")
    add_pod(cluster, "j")

    with pytest.raises(ManageError, match="is deleted, and not gone yet: j-worker-0"):
        await manage.delete(cluster, await _get(cluster), "deleted by me", wait=True)


async def test_overviews_tell_each_job_its_own_pods_and_workload():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "runs")
    add_pod(cluster, "runs")
    add_job(cluster, "jaxjob", "queues", metadata={"labels": QUEUE}, status=_condition("Suspended"))
    _workload(cluster, "uid-of-queues")
    add_native(cluster, "held", queue="gpus", suspend=True)
    _workload(cluster, "uid-of-held-worker", active=False)

    found = {each.name: each for each in await overviews(cluster, NAMESPACE)}

    assert [(name, each.status.phase.value, each.running, each.replicas) for name, each in sorted(found.items())] == [
        ("held", "suspended", 0, 1),
        ("queues", "queued", 0, 1),
        ("runs", "running", 1, 1),
    ]
    assert found["held"].identity.task_id == "train"
    assert found["runs"].identity is None


async def test_a_failed_job_is_described_with_its_verdict_and_its_warnings():
    cluster = FakeCluster()
    add_job(cluster, "jaxjob", "j", status=_condition("Failed", "BackoffLimitExceeded"))
    cluster.add(
        EVENTS,
        "e",
        type="Warning",
        reason="FailedCreatePod",
        message="exceeded quota",
        involvedObject={"kind": "JAXJob", "name": "j"},
        lastTimestamp="2026-11-21T07:02:00Z",
        count=3,
    )

    found = await describe(cluster, await _get(cluster))

    assert found.overview.framework == "jax"
    assert found.warnings == (("2026-11-21T07:02:00Z", "JAXJob j: FailedCreatePod: exceeded quota (3 times)"),)
    assert found.diagnosis.reason == "BackoffLimitExceeded"
    assert found.to_json()["diagnosis"]["retry_can_help"] == "unknown"
