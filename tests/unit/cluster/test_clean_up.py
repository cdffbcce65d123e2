"""Only what is over, old enough and of this Airflow goes: jobs whose outcome is safe, and parts that nothing owns."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.job.backend import CleanUp
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import SERVICES
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.trainer.training_runtime import TRAINING_RUNTIMES
from tests.fakes.jobs import MADE_AT, add_job, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE

HERE = "https://airflow.example"
#: Jobs of the fake cluster ended at 07:01.
LATER = datetime(2026, 11, 21, 8, tzinfo=timezone.utc)
SAFE = {labels.COLLECTED: "true"}
ENDED = with_condition("Succeeded")


def wanted(**fields):
    return CleanUp(**{"deployment": HERE, "before": LATER, **fields})


def metadata(name, annotations, deployment=HERE, **more):
    identity = Identity(dag_id="mnist", run_id="monday", task_id="train", deployment=deployment)
    return {**ours(name, **{labels.IDENTITY: identity.model_dump_json(), **annotations}), **more}


async def cleaned(api, backend="training-operator", **fields):
    found = await ClusterBackend(backend, await api.cluster(), NAMESPACE).clean_up(wanted(**fields))
    return [(each.kind, each.name) for each in found]


@pytest.mark.parametrize(
    ("annotations", "status", "fields", "goes"),
    [
        (SAFE, ENDED, {}, True),
        (SAFE, with_condition("Failed"), {}, True),
        ({labels.RELEASED: "true"}, ENDED, {}, True),
        # Its task still waits, or another try takes its result.
        ({}, ENDED, {}, False),
        (SAFE, {}, {}, False),
        ({labels.RELEASED: "true"}, {}, {}, False),
        ({**SAFE, labels.CANCELLED: "enough"}, ENDED, {}, False),
        (SAFE, ENDED, {"before": datetime(2026, 11, 21, 7, tzinfo=timezone.utc)}, False),
        (SAFE, ENDED, {"deployment": "https://another.example"}, False),
        (SAFE, ENDED, {"selector": f"{labels.JOB}=j"}, True),
        (SAFE, ENDED, {"selector": f"{labels.JOB}=another"}, False),
    ],
)
async def test_a_job_goes_where_it_is_over_old_and_of_this_airflow(api, annotations, status, fields, goes):
    add_job(api, "jaxjob", "j", metadata=metadata("j", annotations), status=status)
    add_pod(api, "j", phase="Running" if not status else "Succeeded")

    assert await cleaned(api, **fields) == ([("jaxjob", "j")] if goes else [])
    assert api.writes == (["DELETE jaxjobs/j"] if goes else [])


@pytest.mark.parametrize("role", ["trainer-worker", "trainer-triggerer", "trainer-listener"])
@pytest.mark.parametrize(("key", "backend"), [("jaxjob", "training-operator"), ("mpijob-v2beta1", "mpi-operator")])
async def test_a_failed_job_goes_whose_task_was_over_before_it_collected_the_outcome(api, role, key, backend):
    """A task is marked failed right after its job has failed: whoever ends the job may not do all that is asked."""
    given = {labels.ON_FINISH: "keep", labels.TTL: "3600", labels.CLEAN_PODS: "All"}
    main = add_job(api, key, "j", metadata=metadata("j", given), status=with_condition("Failed"))
    add_pod(api, "j", key, phase="Failed")
    ending = ClusterBackend(backend, await api.cluster("listener", role), NAMESPACE)
    handle = JobObject(KINDS[key], main).handle("listener")

    assert await ending.cancel(handle, "the task is failed")
    once = len(api.writes)
    assert await ending.cancel(handle, "its run is over")

    assert len(api.writes) == once
    assert await cleaned(api, backend) == [(key, "j")]


async def test_a_result_that_the_next_try_takes_stays_where_its_task_was_over_first(api):
    main = add_job(api, "jaxjob", "j", metadata=metadata("j", {labels.ON_FINISH: "keep"}), status=ENDED)
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)

    await backend.cancel(JobObject(KINDS["jaxjob"], main).handle("kube"), "the task is failed")

    assert await cleaned(api) == []


@pytest.mark.parametrize("made", [{}, metadata("j", SAFE, None)], ids=["by something else", "by the command line"])
async def test_a_job_of_no_task_stays(api, made):
    add_job(api, "jaxjob", "j", metadata=made, status=ENDED)

    assert await cleaned(api) == []
    assert api.writes == []


async def test_what_would_go_is_only_listed(api):
    add_job(api, "jaxjob", "j", metadata=metadata("j", SAFE), status=ENDED)
    part(api, "left")
    add_job(api, "jaxjob", "runs", metadata=metadata("runs", {}), status={})

    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)
    (found,) = await backend.clean_up(wanted(list_only=True))

    assert api.writes == []
    assert found.to_json() == {
        "kind": "jaxjob",
        "name": "j",
        "location": NAMESPACE,
        "since": "2026-11-21T07:01:00+00:00",
        "phase": "succeeded",
        "task": found.identity.model_dump(mode="json"),
    }
    assert str(found) == f"jaxjob {NAMESPACE}/j, succeeded at 2026-11-21 07:01:00 UTC"


async def test_a_job_that_another_try_takes_over_meanwhile_stays(api):
    add_job(api, "jaxjob", "j", metadata=metadata("j", SAFE), status=ENDED)
    resource = KINDS["jaxjob"].resource
    api.before(
        "DELETE", "/jaxjobs/j$", lambda: api.update(resource, "j", {"metadata": {"annotations": {labels.OWNER: "4"}}})
    )

    assert await cleaned(api) == []
    assert api.names("jaxjobs") == ["j"]


def part(api, name, resource=TRAINING_RUNTIMES, job=None, deployment=HERE, **more):
    own = {labels.MANAGED_BY: labels.PREFIX, labels.JOB: job or name}
    marks = {labels.SUBMISSION: "x", labels.DEPLOYMENT: deployment}
    metadata = {"labels": own, "annotations": marks, "creationTimestamp": MADE_AT, **more}
    return api.add(resource, name, metadata=metadata)


async def test_what_an_interrupted_submit_has_left_goes_and_nothing_that_is_owned_or_may_be_yet(api):
    part(api, "left")
    part(api, "left-node-0-0", SERVICES, job="left")
    part(api, "of-another", deployment="https://another.example")
    part(api, "owned", ownerReferences=[{"kind": "TrainJob", "name": "owned", "uid": "1", "apiVersion": "v1"}])
    # Its submit was interrupted before the main object came to own it: the next try completes it.
    part(api, "begun")
    add_job(api, "trainjob", "begun", metadata=metadata("begun", {}))
    now = datetime.now(timezone.utc)
    for name, minutes in {"new": 59, "left-too": 61}.items():
        part(api, name, creationTimestamp=f"{now - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}")

    # Its submit may be under way, whatever age is asked for.
    found = await cleaned(api, "trainer", before=now)

    left = [("TrainingRuntime", "left"), ("TrainingRuntime", "left-too"), ("Service", "left-node-0-0")]
    assert sorted(found) == sorted(left)
    assert api.names("trainingruntimes") == ["begun", "new", "of-another", "owned"]
    deletions = ["DELETE trainingruntimes/left", "DELETE trainingruntimes/left-too", "DELETE services/left-node-0-0"]
    assert sorted(api.writes) == sorted(deletions)
