"""What becomes of a job whose outcome is safe.

Each case names what the job's annotations ask for, and which requests change something.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations.end import finish
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.kinds.base import JOBS, SECRETS
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE

KIND = KINDS["jaxjob"]
DELETED = ["DELETE jaxjobs/j"]
TTL = {labels.TTL: "60"}


def key(secret):
    return {labels.PRIVATE_KEY: secret}


@dataclass(frozen=True)
class Case:
    """An ended job.

    :param action: its ``on_finish_action``; None where it says nothing.
    :param succeeded: how it ended.
    :param writes: the requests that change something.
    :param given: more of its annotations.
    """

    action: str | None
    succeeded: bool
    writes: list[str]
    given: dict[str, str] = field(default_factory=dict)


FINISHES = {
    "delete, succeeded": Case("delete", True, DELETED),
    "delete, failed": Case("delete", False, DELETED),
    "delete_succeeded, succeeded": Case("delete_succeeded", True, DELETED),
    "delete_succeeded, failed": Case("delete_succeeded", False, []),
    "keep, succeeded": Case("keep", True, []),
    "keep, failed": Case("keep", False, []),
    "no action": Case(None, True, []),
    "kept for a while": Case("keep", True, ["PATCH jaxjobs/j"], TTL),
    "failed and kept for a while": Case("delete_succeeded", False, ["PATCH jaxjobs/j"], TTL),
    "deleted before its time": Case("delete", True, DELETED, TTL),
    "the private key of a job that is kept goes": Case("keep", True, ["DELETE secrets/j-ssh"], key("j-ssh")),
    "of a failed one, too": Case("delete_succeeded", False, ["DELETE secrets/j-ssh"], key("j-ssh")),
    "also the one that Trainer creates": Case("keep", True, ["DELETE secrets/j-mpi-ssh-auth"], key("j-mpi-ssh-auth")),
    "another Secret stays, whatever the annotation says": Case("keep", True, [], key("password")),
    "also that of a job whose name begins in the same way": Case("keep", True, [], key("j-2-ssh")),
    "a deleted job takes its key along": Case("delete", True, DELETED, key("j-ssh")),
}


@pytest.mark.parametrize("case", FINISHES.values(), ids=FINISHES)
async def test_an_ended_job_is_finished(api, case):
    for name in ("j-ssh", "j-mpi-ssh-auth", "j-2-ssh", "password"):
        api.add(SECRETS, name)
    action = {labels.ON_FINISH: case.action} if case.action else {}
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **action, **case.given))

    await finish(await api.cluster(), JobObject(KIND, main), succeeded=case.succeeded)

    assert api.writes == case.writes
    assert all(conditions == {"uid": main["metadata"]["uid"]} for name, conditions in api.deletes if "jobs" in name)
    if "PATCH jaxjobs/j" in case.writes:
        uid, spec = main["metadata"]["uid"], {"runPolicy": {"ttlSecondsAfterFinished": 60}}
        assert api.patches == [("jaxjobs/j", {"metadata": {"uid": uid}, "spec": spec})]


async def test_a_kind_without_a_time_to_live_goes_with_a_job_that_has_one(api):
    main = add_job(api, "native", "j", metadata=ours("j", **TTL))
    job = JobObject(KINDS["native"], main)

    # The second time, as after a lost answer.
    for _ in range(2):
        await finish(await api.cluster(), job, succeeded=True)

    timer = api.get(JOBS, f"expiry-{job.uid}")
    assert timer["spec"]["ttlSecondsAfterFinished"] == 60
    assert (timer["spec"]["completions"], timer["spec"]["parallelism"]) == (0, 0)
    # The API server accepts this and OnFailure for a Job, and no other.
    assert timer["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    (owner,) = api.get(job.resource, "j")["metadata"]["ownerReferences"]
    metadata = timer["metadata"]
    assert owner == {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}


async def test_all_pods_of_a_kept_job_go_and_no_others(api, caplog):
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **{labels.CLEAN_PODS: "All"}))
    for job in ("j", "another"):
        add_pod(api, job, phase="Succeeded")

    await finish(await api.cluster(), JobObject(KIND, main), succeeded=True)

    assert api.writes == ["DELETE pods/j-worker-0"]


@pytest.mark.parametrize(
    ("key", "asked", "method", "path"),
    [
        ("native", TTL, "POST", "/jobs$"),
        ("native", TTL, "PATCH", "/services/j$"),
        ("jaxjob", {labels.CLEAN_PODS: "All"}, "DELETE", "/pods/"),
    ],
)
async def test_what_may_not_be_tidied_up_does_not_fail_the_task(api, caplog, key, asked, method, path):
    main = add_job(api, key, "j", metadata=ours("j", **asked))
    add_pod(api, "j", phase="Succeeded")
    api.answer(403, method, path, message="that is forbidden")

    await finish(await api.cluster(), JobObject(KINDS[key], main), succeeded=True)

    assert "that is forbidden" in caplog.text


async def test_a_key_that_cannot_be_deleted_does_not_fail_the_task(api, caplog):
    main = add_job(api, "jaxjob", "j", metadata=ours("j", **key("j-ssh")))
    api.answer(403, "DELETE", "/secrets/", message="secrets is forbidden")

    await finish(await api.cluster(), JobObject(KIND, main), succeeded=True)

    assert "j-ssh" in caplog.text
    assert "secrets is forbidden" in caplog.text


def meanwhile(act):
    """Another client does something just before the outcome is noted."""
    return lambda api: api.before("PATCH", "/jaxjobs/j$", lambda: act(api))


def adopted(api):
    api.update(KIND.resource, "j", {"metadata": {"annotations": {labels.OWNER: "4"}}})


def touched(api):
    api.update(KIND.resource, "j", {"status": {"changed": True}})


def gone(api):
    api.remove(KIND.resource, "j")


def replaced(api):
    gone(api)
    add_job(api, "jaxjob", "j", metadata=ours("j"))


NOTE = "PATCH jaxjobs/j"
#: A concurrent change, the try that collects the outcome, the expected writes, and the remaining jobs.
COLLECTS = {
    "its owner's is noted, and finished": (lambda api: None, 3, [NOTE, *DELETED], []),
    "a try that has lost it leaves it": (lambda api: None, 2, [], ["j"]),
    "a later try adopts it": (meanwhile(adopted), 3, [NOTE], ["j"]),
    "its status changes": (meanwhile(touched), 3, [NOTE, NOTE, *DELETED], []),
    "the answer is lost": (lambda api: api.lose_answer("PATCH", "/jaxjobs/"), 3, [NOTE, NOTE, NOTE, *DELETED], []),
    "it is gone": (gone, 3, [], []),
    "it goes": (meanwhile(gone), 3, [NOTE], []),
    "its name is reused": (meanwhile(replaced), 3, [NOTE], ["j"]),
}


@pytest.mark.parametrize(("happens", "owner", "writes", "left"), COLLECTS.values(), ids=COLLECTS)
async def test_an_outcome_that_is_safe_is_noted_by_its_owner(api, happens, owner, writes, left):
    metadata = ours("j", **{labels.ON_FINISH: "delete_succeeded"})
    main = add_job(api, "jaxjob", "j", metadata=metadata, status=with_condition("Succeeded"))
    handle = JobObject(KIND, main).handle("kube").model_copy(update={"owner": owner})
    happens(api)

    await ClusterBackend("training-operator", await api.cluster(), NAMESPACE).acknowledge(handle)

    assert (api.writes, api.names("jaxjobs")) == (writes, left)
    assert all(patch["metadata"]["annotations"] == {labels.COLLECTED: "true"} for _, patch in api.patches)
    if left:
        assert labels.COLLECTED not in api.get(KIND.resource, "j")["metadata"]["annotations"]
