"""Submitting a task's job: exactly one trains, and it takes no other job's objects for its own."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, timezone
from unittest.mock import Mock

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations import create as create_module
from airflow_trainer_provider.cluster.operations import submit as submit_module
from airflow_trainer_provider.errors import ApiError, JobLost, PolicyViolation, SubmitError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import JOBS, PODS, SERVICES
from airflow_trainer_provider.kinds.manifest import plan_manifest
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.trainer.training_runtime import TRAINING_RUNTIMES
from airflow_trainer_provider.kinds.trainer.trainjob import TRAIN_JOBS
from airflow_trainer_provider.spec import parse_manifest_spec, parse_spec
from tests.fakes.jobs import MADE_AT, with_condition
from tests.fakes.kubernetes import NAMESPACE
from tests.unit.cluster.api_server import until

pytestmark = pytest.mark.timeout(20)
TRY = Identity(dag_id="d", run_id="r", task_id="t", try_number=1, deployment="prod", max_tries=2)
NAME = TRY.job_name("train")
#: Whether the task has a job already.
LOOK = "GET services"
NAME_2 = TRY.model_copy(update={"try_number": 2}).job_name("train")
#: The requests that create a job on plain Kubernetes, and with a runtime of its own.
NATIVE = ["POST services", "POST services", "POST jobs"]
TRAINER = ["POST trainingruntimes", "POST trainjobs"]
#: The backend, kind and name of an object, and the requests that change something until the next name is tried.
BEING_DELETED = {
    "the main object": ("native", SERVICES, NAME, ["POST services"] * 2 + [f"DELETE services/{NAME}", "POST services"]),
    "a Job": (
        "native",
        JOBS,
        f"{NAME}-worker",
        [*NATIVE, "POST jobs", f"DELETE services/{NAME}", *NATIVE[:2], f"DELETE services/{NAME}"],
    ),
    "a runtime": ("trainer", TRAINING_RUNTIMES, NAME, ["POST trainingruntimes"] * 3),
}
CREATED = {
    "native": [*NATIVE, f"PATCH services/{NAME}-2"],
    "trainer": [*TRAINER, f"PATCH trainingruntimes/{NAME}-2", f"PATCH trainjobs/{NAME}-2"],
}


@pytest.fixture
def gc_delay():
    return 0.0


def job(**fields):
    values = {"framework": "jax", "name": "train", "image": "i", "command": ["python", "t.py"], **fields}
    return plan_job(parse_spec(values))


async def submit(api, identity=TRY, *, backend="native", start=1, **fields):
    return await (await connect(api, backend)).submit(job(**fields), identity, start=start)


async def connect(api, backend="native"):
    return ClusterBackend(backend, await api.cluster(), NAMESPACE)


def succeed(api, name):
    """What the Job's controller says of a job that has succeeded."""
    status = {**with_condition("Complete", MADE_AT), "startTime": "2026-11-21T06:00:00Z"}
    api.update(JOBS, f"{name}-worker", {"status": status})


def fail(api, name):
    api.update(JOBS, f"{name}-worker", {"status": with_condition("Failed", MADE_AT)})


def second(**fields):
    return TRY.model_copy(update={"try_number": 2, **fields})


def delete_in_the_foreground(api, resource, name):
    """Have another client delete an object, which stays until what it owns is gone."""
    api.update(resource, name, {"metadata": {"finalizers": ["foregroundDeletion"]}})
    api.remove(resource, name)


def asked(api):
    """The requests for objects, in order; not those that ask what the cluster serves."""
    return [str(each) for each in api.requests if f"/namespaces/{NAMESPACE}/" in each.path]


def owners(api, plural):
    """Name of each object of a kind, and the uid of its owner."""
    found = api.objects.find(plural, NAMESPACE)
    return {each["metadata"]["name"]: each["metadata"].get("ownerReferences", [{}])[0].get("uid") for each in found}


@pytest.mark.parametrize("message", ["etcdserver: request is too large", "trying to send message larger than max"])
async def test_what_the_cluster_does_not_store_is_sent_once(api, monkeypatch, message):
    monkeypatch.setattr(create_module, "_DOUBT_BUDGET", 0.5)
    api.answer(500, "POST", "/jobs$", message=message)

    with pytest.raises(SubmitError, match="larger than what the cluster stores") as caught:
        await submit(api)

    assert not caught.value.retryable
    assert asked(api).count("POST jobs") == 1
    sent = next(json.dumps(each.body) for each in api.requests if each.method == "POST" and each.path.endswith("/jobs"))
    assert f"This Job of {len(sent)} bytes as JSON is larger" in str(caught.value)
    await until(lambda: not api.objects.find("services", NAMESPACE))


async def test_a_new_job_is_created_with_all_parts_owned_by_its_main_object(api):
    handle = (await submit(api)).handle

    assert handle.name == NAME
    assert asked(api) == [LOOK, "POST services", LOOK, "POST services", "POST jobs", f"PATCH services/{NAME}"]
    assert owners(api, "jobs") == {f"{NAME}-worker": handle.uid}


@pytest.mark.parametrize(("framework", "after"), [("jax", []), ("mpi", ["POST configmaps", "POST secrets"])])
async def test_what_has_to_be_there_first_has_its_owner_before_the_look(api, framework, after):
    handle = (await submit(api, backend="trainer", framework=framework)).handle

    begun = ["POST trainingruntimes", "POST trainjobs", f"PATCH trainingruntimes/{NAME}"]
    assert asked(api) == ["GET trainjobs", *begun, "GET trainjobs", *after, f"PATCH trainjobs/{NAME}"]
    assert owners(api, "trainingruntimes") == {NAME: handle.uid}


@pytest.mark.parametrize(("given", "admitted"), [({}, [3]), ({"num_nodes": 3}, [])])
async def test_a_job_is_admitted_with_what_its_runtime_adds_before_anything_is_created(api, given, admitted):
    steps = {"spec": {"replicatedJobs": [{"name": "node", "template": {}}]}}
    api.add(TRAINING_RUNTIMES, "mine", spec={"mlPolicy": {"numNodes": 3}, "template": steps})
    backend, seen = await connect(api, "trainer"), []

    def admit(whole):
        seen.append(len(whole.nodes))
        assert {each for each in asked(api) if not each.startswith("GET")} == set()

    await backend.submit(job(runtime_ref="TrainingRuntime/mine", **given), TRY, admit=admit)

    assert seen == admitted


async def test_nothing_is_created_of_a_job_that_is_not_admitted_with_what_its_runtime_adds(api):
    steps = {"spec": {"replicatedJobs": [{"name": "node", "template": {}}]}}
    api.add(TRAINING_RUNTIMES, "mine", spec={"mlPolicy": {"numNodes": 3}, "template": steps})
    backend = await connect(api, "trainer")

    with pytest.raises(PolicyViolation):
        await backend.submit(job(runtime_ref="TrainingRuntime/mine"), TRY, admit=Mock(side_effect=PolicyViolation([])))

    assert {each for each in asked(api) if not each.startswith("GET")} == set()


@pytest.mark.parametrize(
    ("backend", "main", "before", "after"),
    [("native", "services", "", "jobs"), ("trainer", "trainjobs", "trainingruntimes", "secrets")],
)
async def test_a_first_try_that_finds_another_job_creates_no_part_that_comes_after_the_main_object(
    api, backend, main, before, after
):
    """Where a later try starts a job at the same moment, no pod of the first one must start, not even briefly."""
    theirs, left = [], set()

    async def start_theirs():
        theirs.append((await submit(api, second(), backend=backend, framework="mpi")).handle.uid)
        left.update(api.objects.all)
        api.requests.clear()

    api.before("POST", f"/{before or main}$", start_theirs)

    with pytest.raises(SubmitError, match="try 1 is out of date and starts nothing"):
        await submit(api, backend=backend, framework="mpi")
    api.collect_garbage()

    begun = [f"POST {main}", f"PATCH {before}/{NAME}"] if before else []
    given_up = [f"DELETE {main}/{NAME}", "GET pods"]
    assert asked(api) == [*begun, f"GET {main}", *given_up, f"GET {main}"]
    assert set(api.objects.all) == left
    assert set(owners(api, after).values()) == set(theirs)


@pytest.mark.parametrize(("backend", "main"), [("native", "services"), ("trainer", "trainjobs")])
async def test_a_first_try_whose_task_has_another_job_creates_nothing(api, backend, main):
    """A controller may start the pods of a main object before it is deleted again."""
    await submit(api, second(), backend=backend)
    api.requests.clear()

    with pytest.raises(SubmitError, match="try 1 is out of date and starts nothing"):
        await submit(api, backend=backend)

    assert {each.split()[0] for each in asked(api)} == {"GET"}
    assert len(api.objects.find(main, NAMESPACE, f"{labels.OURS},{labels.TASK}={TRY.key}")) == 1


async def test_a_submit_that_was_killed_before_the_parts_is_completed_by_the_same_try(api):
    rule = api.before("GET", "/services$", lambda: asyncio.sleep(3600), skip=1)
    killed = asyncio.create_task(submit(api))
    await rule.reached.wait()
    killed.cancel()
    api.heal()
    main = api.get(SERVICES, NAME)
    assert (api.names("services"), api.names("jobs")) == ([NAME], [])

    again = await submit(api)

    assert (again.handle.uid, again.adopted) == (main["metadata"]["uid"], "try 1 started it, and it still runs")
    assert owners(api, "jobs") == {f"{NAME}-worker": again.handle.uid}
    assert api.get(SERVICES, NAME)["metadata"]["annotations"][labels.COMPLETE] == "true"


@pytest.mark.parametrize("is_gone", [True, False])
async def test_no_part_is_created_for_a_main_object_that_another_client_has_ended(api, is_gone):
    def end():
        if is_gone:
            api.remove(SERVICES, NAME)
        else:
            api.update(SERVICES, NAME, {"metadata": {"annotations": {labels.CANCELLED: "the task is failed"}}})

    api.before("GET", "/services$", end, skip=1)

    with pytest.raises(SubmitError, match="was deleted while it was submitted"):
        await submit(api)

    assert asked(api) == [LOOK, "POST services", LOOK]


async def test_a_job_that_a_later_try_adopts_before_its_parts_exist_is_that_trys(api):
    adopting = api.before("GET", "/services$", lambda: submit(api, second()), skip=1)

    with pytest.raises(SubmitError, match="try 1 is out of date"):
        await submit(api)
    api.collect_garbage()

    assert adopting.hits == 1
    main = api.get(SERVICES, NAME)
    assert main["metadata"]["annotations"][labels.OWNER] == "2"
    assert owners(api, "jobs") == {f"{NAME}-worker": main["metadata"]["uid"]}


@pytest.mark.parametrize("gc_delay", [None])
async def test_a_second_start_takes_no_dying_object_of_the_first_for_its_own(api):
    """What infrastructure_retries does: the first job is deleted, its Jobs are still there, and the next one starts."""
    first = (await submit(api)).handle
    fail(api, first.name)
    await (await connect(api)).acknowledge(first)
    assert api.names("services") == [f"{NAME}-worker-0"]  # owned, and not collected yet
    assert api.names("jobs") == [f"{NAME}-worker"]

    again = (await submit(api, start=2)).handle
    api.collect_garbage()

    assert again.name == f"{NAME}-2"
    assert owners(api, "jobs") == {f"{NAME}-2-worker": again.uid}
    assert await (await connect(api)).status(again)


async def test_a_submit_whose_runtime_another_try_deletes_waits_for_no_webhook_to_see_it(api):
    refusal = 'admission webhook "validator" denied the request: spec.runtimeRef: Invalid value: not found'
    api.before("POST", "/trainjobs$", lambda: api.remove(TRAINING_RUNTIMES, NAME))
    api.answer(400, "POST", "/trainjobs$", message=refusal)

    with pytest.raises(SubmitError, match=r"was deleted while it was submitted: .* try 1 is out of date"):
        await submit(api, backend="trainer")

    assert api.names("trainingruntimes") == []


async def test_a_webhook_is_waited_for_that_has_not_seen_the_runtime(api):
    refusal = 'admission webhook "validator" denied the request: spec.runtimeRef: Invalid value: not found'
    api.answer(400, "POST", "/trainjobs$", message=refusal, times=1)

    handle = (await submit(api, backend="trainer")).handle

    assert owners(api, "trainingruntimes") == {NAME: handle.uid}


@pytest.mark.parametrize("gc_delay", [None])
async def test_the_same_try_run_by_hand_again_passes_over_names_that_are_still_taken(api):
    first = (await submit(api)).handle
    succeed(api, first.name)
    await (await connect(api)).acknowledge(first)

    again = (await submit(api)).handle
    api.collect_garbage()

    assert again.name == f"{NAME}-2"
    assert owners(api, "jobs") == {f"{NAME}-2-worker": again.uid}


@pytest.mark.parametrize("gc_delay", [None])
async def test_a_derived_runtime_that_is_being_collected_is_not_used(api):
    first = (await submit(api, backend="trainer")).handle
    api.remove(TRAIN_JOBS, first.name)

    again = (await submit(api, backend="trainer", start=1)).handle
    api.collect_garbage()

    assert again.name == f"{NAME}-2"
    assert owners(api, "trainingruntimes") == {f"{NAME}-2": again.uid}


async def test_an_object_of_the_same_name_that_is_not_ours_is_left_alone(api):
    theirs = api.add(JOBS, f"{NAME}-worker", spec={"completions": 7})

    handle = (await submit(api)).handle
    api.collect_garbage()

    assert handle.name == f"{NAME}-2"
    assert api.objects.get(("jobs", NAMESPACE, f"{NAME}-worker"))["metadata"] == theirs["metadata"]
    assert api.names("services") == [f"{NAME}-2", f"{NAME}-2-worker-0"]


@pytest.mark.parametrize("code", [None, 502, 504])
@pytest.mark.parametrize("path", ["/services$", "/jobs$", "/secrets$", "/configmaps$"])
async def test_an_object_whose_answer_was_lost_is_found_by_its_mark(api, path, code):
    lost = api.lose_answer("POST", path, code=code)

    handle = (await submit(api, framework="mpi")).handle

    assert lost.hits
    assert handle.name == NAME
    assert owners(api, "jobs") == {f"{NAME}-launcher": handle.uid, f"{NAME}-worker": handle.uid}
    assert len(api.names("secrets")) == len(api.names("configmaps")) == 1


@pytest.mark.parametrize(("backend", "resource", "name", "until_then"), BEING_DELETED.values(), ids=BEING_DELETED)
@pytest.mark.parametrize("gc_delay", [None])
async def test_an_object_that_is_being_deleted_is_not_used_though_it_has_the_mark(
    api, backend, resource, name, until_then
):
    api.lose_answer("POST", f"/{resource.plural}$")
    api.before("GET", f"/{resource.plural}/{name}$", lambda: delete_in_the_foreground(api, resource, name))

    handle = (await submit(api, backend=backend)).handle

    assert handle.name == f"{NAME}-2"
    assert api.writes == until_then + CREATED[backend]


@pytest.mark.parametrize("fields", [{}, {"on_kill_action": "suspend"}], ids=["delete", "suspend"])
async def test_a_job_is_replaced_where_a_part_of_it_is_being_deleted_before_its_submit_is_complete(api, fields):
    rule = api.before("PATCH", f"/services/{NAME}$", lambda: asyncio.sleep(3600))
    interrupted = asyncio.create_task(submit(api, **fields))
    await rule.reached.wait()
    interrupted.cancel()
    api.heal()
    delete_in_the_foreground(api, JOBS, f"{NAME}-worker")
    before = len(api.writes)

    again = await submit(api, second(), **fields)

    assert (again.handle.name, again.adopted) == (NAME_2, None)
    completing = [f"PATCH services/{NAME}", "POST services", "POST jobs"]
    ending_it = [f"PATCH services/{NAME}", f"DELETE services/{NAME}"]
    assert api.writes[before:] == [*completing, *ending_it, *NATIVE, f"PATCH services/{NAME_2}"]


async def test_a_submit_waits_for_the_main_object_that_another_one_of_its_try_is_about_to_create(api):
    looking = api.before("GET", f"/trainjobs/{NAME}$", lambda: None)
    creating = api.before("POST", "/trainjobs$", looking.reached.wait)
    first = asyncio.create_task(submit(api, backend="trainer"))
    await creating.reached.wait()

    again = await submit(api, backend="trainer")

    assert (again.adopted, again.handle) == ("this try has already started it", (await first).handle)
    assert api.names("trainjobs") == api.names("trainingruntimes") == [NAME]


def left_runtime(api, *, task=TRY.key, job=NAME, owner="1", **more):
    """The runtime that a submit has created which was killed before it created its TrainJob."""
    own = {labels.MANAGED_BY: labels.PREFIX, labels.TASK: task, labels.JOB: job}
    api.add(TRAINING_RUNTIMES, NAME, metadata={"labels": own, "annotations": {labels.OWNER: owner}, **more})


async def test_a_main_object_that_does_not_come_is_waited_for_no_longer_than_a_submit_takes(api, monkeypatch):
    # Creation times are whole seconds, so the submit waits for one second less, and for less on a busy machine.
    monkeypatch.setattr(submit_module, "_UNDER_WAY_SECONDS", 3.5)
    monkeypatch.setattr(submit_module, "_LOOK_SECONDS", 0.05)
    left_runtime(api)

    assert (await submit(api, backend="trainer")).handle.name == f"{NAME}-2"

    assert asked(api).count(f"GET trainjobs/{NAME}") > 1


@pytest.mark.parametrize(
    "left",
    [
        {"creationTimestamp": MADE_AT},
        {"deletionTimestamp": MADE_AT, "finalizers": ["test/holds"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "TrainJob", "name": NAME, "uid": "gone"}]},
        {"owner": "2"},
        {"task": "another"},
        {"job": "another"},
    ],
    ids=["old", "terminating", "of a main object", "of another try", "of another task", "of another job"],
)
@pytest.mark.parametrize("gc_delay", [None])
async def test_a_name_that_no_submit_of_this_try_has_just_taken_is_passed_over_at_once(api, left):
    left_runtime(api, **left)

    assert (await submit(api, backend="trainer")).handle.name == f"{NAME}-2"

    assert asked(api).count(f"GET trainjobs/{NAME}") == 1


async def test_a_runtime_that_an_interrupted_try_has_left_is_deleted_by_the_next(api):
    rule = api.before("POST", "/trainjobs$", lambda: asyncio.sleep(3600))
    interrupted = asyncio.create_task(submit(api, backend="trainer"))
    await rule.reached.wait()
    interrupted.cancel()
    assert api.names("trainingruntimes") == [NAME]
    api.heal()

    await submit(api, second(), backend="trainer")

    assert api.names("trainingruntimes") == [second().job_name("train")]


@pytest.mark.parametrize(("try_number", "is_left"), [("1", False), ("2", True), ("3", True), ("x", True)])
async def test_a_runtime_without_an_owner_is_deleted_if_an_earlier_try_has_left_it(api, try_number, is_left):
    own = {labels.MANAGED_BY: labels.PREFIX, labels.TASK: TRY.key}
    api.add(TRAINING_RUNTIMES, "left", metadata={"labels": own, "annotations": {labels.OWNER: try_number}})

    await submit(api, second(), backend="trainer")

    assert ("left" in api.names("trainingruntimes")) == is_left


async def test_a_task_gets_its_job_where_what_an_earlier_try_left_cannot_be_listed(api, caplog):
    api.answer(403, "GET", "/trainingruntimes$")

    assert (await submit(api, second(), backend="trainer")).handle.name == second().job_name("train")
    assert "were not deleted" in caplog.text


async def test_a_later_try_deletes_no_finished_job_that_is_kept(api):
    first = (await submit(api, on_finish_action="keep")).handle
    succeed(api, first.name)
    await (await connect(api)).acknowledge(first)

    await submit(api, second(), backend="trainer")

    assert first.name in api.names("services")


async def test_a_finished_job_that_is_kept_costs_the_next_job_no_second_attempt(api):
    backend = await connect(api)
    first = (await submit(api, name="other", on_finish_action="keep")).handle
    succeed(api, first.name)
    await backend.acknowledge(first)

    again = (await submit(api)).handle

    assert again.name == NAME
    assert not any(write.startswith("DELETE") for write in api.writes)


async def test_the_next_try_completes_a_submit_that_was_interrupted(api):
    rule = api.before("POST", "/jobs$", lambda: asyncio.sleep(3600))
    interrupted = asyncio.create_task(submit(api))
    await rule.reached.wait()
    interrupted.cancel()
    api.heal()

    again = await submit(api, second())

    assert (again.handle.name, again.handle.owner) == (NAME, 2)
    assert owners(api, "jobs") == {f"{NAME}-worker": again.handle.uid}
    main = api.objects.get(("services", NAMESPACE, NAME))
    assert main["metadata"]["annotations"][labels.COMPLETE] == "true"


async def test_a_part_that_is_being_deleted_completes_no_interrupted_submit(api):
    first = (await submit(api)).handle
    api.update(SERVICES, NAME, {"metadata": {"annotations": {labels.COMPLETE: None}}})
    api.update(JOBS, f"{NAME}-worker", {"metadata": {"finalizers": ["test/holds"]}})
    api.remove(JOBS, f"{NAME}-worker")

    again = (await submit(api, second())).handle

    assert again.uid != first.uid
    assert owners(api, "jobs")[f"{NAME_2}-worker"] == again.uid


async def test_the_next_try_adopts_the_job_and_an_earlier_one_cannot_end_it_any_more(api):
    first = (await submit(api)).handle

    again = await submit(api, second())

    assert (again.handle.uid, again.handle.owner) == (first.uid, 2)
    assert "try 1 started it" in again.adopted
    assert not await (await connect(api)).cancel(first, "a worker that has lost contact")
    await (await connect(api)).acknowledge(first)
    assert api.names("services") == [NAME, f"{NAME}-worker-0"]
    assert labels.COLLECTED not in api.objects.get(("services", NAMESPACE, NAME))["metadata"]["annotations"]


async def test_of_two_tries_that_adopt_at_once_the_later_one_owns_the_job(api):
    await submit(api)
    third = TRY.model_copy(update={"try_number": 3})
    api.before("PATCH", f"/services/{NAME}", lambda: submit(api, third))

    with pytest.raises(SubmitError, match="try 2 is out of date"):
        await submit(api, second())

    assert api.objects.get(("services", NAMESPACE, NAME))["metadata"]["annotations"][labels.OWNER] == "3"


@pytest.mark.parametrize(("image", "name"), [("i", NAME_2), ("another", f"{NAME_2}-2")])
async def test_of_one_try_in_two_processes_one_job_is_left_and_it_is_of_the_spec_that_was_asked_for(api, image, name):
    api.before("POST", "/services$", lambda: submit(api, second(), image=image))

    submission = await submit(api, second())
    api.collect_garbage()

    assert submission.handle.name == name
    assert (submission.adopted is None) == (image == "another")
    assert api.names("jobs") == [f"{name}-worker"]


async def test_a_task_that_was_cleared_trains_again(api):
    first = (await submit(api)).handle

    again = await submit(api, second(max_tries=3))
    api.collect_garbage()

    assert again.adopted is None
    assert again.handle.uid != first.uid
    assert api.names("jobs") == [f"{again.handle.name}-worker"]


@pytest.mark.parametrize("max_tries", [3, None])
async def test_a_cleared_task_takes_a_result_that_was_not_collected(api, max_tries):
    first = (await submit(api)).handle
    succeed(api, first.name)

    again = await submit(api, second(max_tries=max_tries))

    assert again.handle.uid == first.uid
    assert "its result has not been collected" in again.adopted


async def test_a_cleared_task_resumes_a_job_that_is_suspended_and_not_deleted(api):
    first = (await submit(api, on_kill_action="suspend")).handle

    again = await submit(api, second(max_tries=3), on_kill_action="suspend")

    assert again.handle.uid == first.uid


async def test_a_job_that_was_marked_cancelled_and_not_yet_suspended_goes_on(api):
    first = (await submit(api, on_kill_action="suspend")).handle
    api.update(SERVICES, NAME, {"metadata": {"annotations": {labels.CANCELLED: "the task is failed"}}})

    again = await submit(api, second(), on_kill_action="suspend")

    assert again.handle.uid == first.uid
    assert labels.CANCELLED not in api.objects.get(("services", NAMESPACE, NAME))["metadata"]["annotations"]


async def test_a_job_of_a_version_that_recorded_neither_deployment_nor_tries_is_still_found(api):
    old = Identity(dag_id="d", run_id="r", task_id="t", try_number=1)
    first = (await submit(api, old)).handle

    again = await submit(api, second())

    assert again.handle.uid == first.uid


async def test_two_deployments_that_share_a_namespace_have_a_job_each(api):
    production = (await submit(api)).handle
    staging = (await submit(api, TRY.model_copy(update={"deployment": "staging"}))).handle

    assert production.name != staging.name
    assert len(api.names("jobs")) == 2
    later = second(deployment="staging")
    assert [each.uid for each in await (await connect(api)).find(later)] == [staging.uid]


async def test_a_task_whose_key_collides_with_another_tasks_leaves_that_ones_job_alone(api, monkeypatch):
    other = Identity(dag_id="other", run_id="r", task_id="t", deployment="prod")
    monkeypatch.setattr(Identity, "key", property(lambda self: "0123456789"))
    monkeypatch.setattr(Identity, "keys", property(lambda self: ("0123456789",)))
    theirs = (await submit(api, other)).handle

    ours = (await submit(api, second())).handle

    assert ours.uid != theirs.uid
    assert await (await connect(api)).find(TRY) == []


async def test_an_object_with_malformed_annotations_disturbs_no_other_task(api):
    annotations = {labels.IDENTITY: "x", labels.OWNER: "x"}
    own = {labels.MANAGED_BY: labels.PREFIX, labels.TASK: TRY.key}
    api.add(SERVICES, "broken", metadata={"labels": own, "annotations": annotations})

    assert (await submit(api, second())).handle.uid


async def test_a_cancelled_job_that_was_not_deleted_is_found_and_ended(api):
    """The client that cancelled it was killed between its two requests."""
    backend = await connect(api)
    first = (await submit(api)).handle
    rule = api.before("DELETE", "/services/", lambda: asyncio.sleep(3600))
    killed = asyncio.create_task(backend.cancel(first, "the task is failed"))
    await rule.reached.wait()
    killed.cancel()
    api.heal()

    found = await backend.find(TRY)
    assert [each.uid for each in found] == [first.uid]
    assert await backend.cancel(found[0], "the task is failed")

    await until(lambda: api.names("services") == api.names("jobs") == [])


async def test_a_job_that_terminates_already_is_not_ended_again(api):
    backend = await connect(api)
    first = (await submit(api)).handle
    api.update(SERVICES, NAME, {"metadata": {"finalizers": ["test/holds"]}})
    await backend.cancel(first, "once")

    assert await backend.find(TRY) == []


async def test_a_job_is_deleted_by_its_uid_only(api):
    backend = await connect(api)
    first = (await submit(api)).handle

    def replace():
        api.remove(SERVICES, NAME)
        api.add(SERVICES, NAME)

    api.before("DELETE", f"/services/{NAME}", replace)
    assert await backend.cancel(first, "the task is failed")
    api.collect_garbage()

    assert api.names("services") == [NAME]


async def test_a_released_job_says_so_until_a_later_try_adopts_it(api):
    backend = await connect(api)
    first = (await submit(api)).handle
    await backend.release(first)
    assert await backend.is_released(first)

    again = (await submit(api, second())).handle

    assert not await backend.is_released(again)


async def test_a_job_that_a_later_try_adopts_at_this_moment_is_not_released(api):
    backend = await connect(api)
    first = (await submit(api)).handle
    api.before("PATCH", f"/services/{NAME}$", lambda: adopt_as(api, NAME, second()))

    await backend.release(first)

    assert not await backend.is_released(first)


async def test_pods_of_the_replaced_job_are_waited_for(api):
    first = (await submit(api)).handle
    pod = {"labels": {labels.JOB: first.name}}
    api.add(PODS, "p", metadata=pod, spec={"terminationGracePeriodSeconds": 1, "containers": [{"name": "train"}]})
    api.remove(PODS, "p")  # terminating

    submitting = asyncio.create_task(submit(api, second(max_tries=9)))
    await asyncio.sleep(0.2)
    assert not submitting.done()
    api.objects.end_pod(("pods", NAMESPACE, "p"))

    assert (await submitting).handle.uid != first.uid


async def test_a_part_that_is_refused_leaves_nothing_behind(api):
    api.answer(403, "POST", "/jobs$", message="no")

    with pytest.raises(SubmitError):
        await submit(api)
    assert asked(api) == [LOOK, "POST services", LOOK, "POST services", "POST jobs", f"DELETE services/{NAME}"]
    api.collect_garbage()

    assert api.names("services") == []


@pytest.mark.parametrize("gc_delay", [None])
async def test_the_name_of_a_part_that_is_taken_leaves_nothing_of_the_attempt(api):
    api.add(JOBS, f"{NAME}-worker")

    handle = (await submit(api)).handle
    api.collect_garbage()

    job_taken = ["POST services", "POST jobs", f"GET jobs/{NAME}-worker", f"DELETE services/{NAME}"]
    # The part of the first attempt is not collected yet.
    service_taken = [
        "POST services",
        f"GET services/{NAME}-worker-0",
        f"DELETE services/{NAME}",
        f"GET services/{NAME}",
    ]
    whole = ["POST services", "POST services", "POST jobs", f"PATCH services/{NAME}-2"]
    before = [LOOK, "POST services", LOOK, *job_taken, LOOK, "GET pods"]
    assert asked(api) == [*before, "POST services", *service_taken, *whole, LOOK]
    assert handle.name == f"{NAME}-2"
    assert api.names("services") == [f"{NAME}-2", f"{NAME}-2-worker-0"]


@pytest.mark.parametrize("identity", [TRY, TRY.model_copy(update={"try_number": 2})], ids=["first", "later"])
async def test_a_job_whose_parts_are_refused_is_left_to_a_later_try_that_has_adopted_it(api, identity):
    name, third = identity.job_name("train"), TRY.model_copy(update={"try_number": 3})
    api.answer(403, "POST", "/jobs$", message="no")
    api.before("DELETE", f"/services/{name}$", lambda: adopt_as(api, name, third))

    with pytest.raises(SubmitError):
        await submit(api, identity)

    assert api.get(SERVICES, name)["metadata"]["annotations"][labels.OWNER] == "3"


async def test_a_runtime_that_cannot_get_its_owner_is_deleted_with_its_job(api):
    api.answer(403, "PATCH", "/trainingruntimes/", message="no")

    with pytest.raises(SubmitError):
        await submit(api, backend="trainer")

    assert (api.names("trainjobs"), api.names("trainingruntimes")) == ([], [])


async def test_a_runtime_of_another_job_is_not_deleted_when_a_submit_fails(api):
    theirs = api.add(TRAINING_RUNTIMES, NAME)
    api.answer(403, "POST", "/trainjobs$", message="no")

    with pytest.raises((SubmitError, ApiError)):
        await submit(api, backend="trainer")

    assert api.objects.get(("trainingruntimes", NAMESPACE, NAME))["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert api.names("trainingruntimes") == [NAME]


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "by its handle"])
async def test_a_job_that_was_deleted_by_its_own_ttl_is_not_trained_a_second_time(api, is_seen):
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {}}}}
    job = plan_manifest(parse_manifest_spec({"manifest": manifest}))
    backend = await connect(api)
    handle = (await backend.submit(job, TRY)).handle
    # A policy of the cluster adds it.
    api.update(JOBS, handle.name, {"spec": {"ttlSecondsAfterFinished": 1}})
    if is_seen:
        await backend.status(handle)
    else:
        handle = (await backend.submit(job, second())).handle
        backend = await connect(api)
    api.remove(JOBS, handle.name)

    with pytest.raises(JobLost, match="Whether it succeeded is not known") as caught:
        await backend.status(handle)

    assert not caught.value.retryable


async def test_a_first_try_that_finds_another_job_leaves_its_own_to_the_try_that_has_adopted_it(api):
    """Three tries at once: the first is about to delete its job, and the third adopts it."""
    starting = api.before("POST", "/services$", lambda: submit(api, second(), name="other"))
    third = TRY.model_copy(update={"try_number": 3})
    adopting = api.before("DELETE", f"/services/{NAME}$", lambda: adopt_as(api, NAME, third))

    with pytest.raises(SubmitError, match="out of date"):
        await submit(api)

    assert (starting.hits, adopting.hits) == (1, 1)
    assert {NAME, second().job_name("other")} <= set(api.names("services"))


def adopt_as(api, name, identity):
    api.update(SERVICES, name, {"metadata": {"annotations": {labels.OWNER: str(identity.try_number)}}})


async def test_a_status_that_changes_meanwhile_does_not_keep_a_superfluous_job(api):
    api.before("POST", "/services$", lambda: submit(api, second(), name="other"))
    changed = {"status": {"changed": True}}
    changing = api.before("DELETE", f"/services/{NAME}$", lambda: api.update(SERVICES, NAME, changed))

    with pytest.raises(SubmitError, match="out of date"):
        await submit(api)
    api.collect_garbage()

    assert changing.hits == 1
    assert NAME not in api.names("services")


async def test_a_job_that_a_later_try_adopts_at_this_moment_is_not_ended(api):
    first = (await submit(api)).handle
    third = TRY.model_copy(update={"try_number": 3})
    api.before("PATCH", f"/services/{NAME}$", lambda: adopt_as(api, NAME, third))

    with pytest.raises(SubmitError, match="try 2 is out of date"):
        await submit(api, second(), image="another")

    main = api.objects.get(("services", NAMESPACE, first.name))
    assert labels.CANCELLED not in main["metadata"]["annotations"]


async def test_a_job_of_a_later_run_of_the_same_id_that_starts_at_this_moment_is_not_ended(api):
    start = datetime(2026, 11, 25, tzinfo=timezone.utc)
    later = TRY.model_copy(update={"run_started_at": start + timedelta(hours=1)})
    creating = api.before("POST", "/services$", lambda: submit(api, later, name="other"))

    with pytest.raises(SubmitError, match="try 2 is out of date and deleted its own"):
        await submit(api, second(run_started_at=start))
    api.collect_garbage()

    assert creating.hits == 1
    others = [name for name in api.names("services") if name.startswith(later.job_name("other"))]
    assert others == api.names("services") != []
    assert labels.CANCELLED not in api.objects.get(("services", NAMESPACE, others[0]))["metadata"]["annotations"]


async def test_a_first_try_deletes_what_a_deleted_run_of_its_id_has_suspended(api):
    start = datetime(2026, 11, 25, tzinfo=timezone.utc)
    earlier = TRY.model_copy(update={"run_started_at": start})
    suspended = (await submit(api, earlier, on_kill_action="suspend")).handle
    assert await (await connect(api)).cancel(suspended, "the run has failed")

    new = await submit(api, TRY.model_copy(update={"run_started_at": start + timedelta(hours=1)}))
    api.collect_garbage()

    assert (new.adopted, new.handle.uid == suspended.uid) == (None, False)
    # Its name may be that of the new one by now.
    left = [api.get(SERVICES, name)["metadata"]["uid"] for name in api.names("services")]
    assert suspended.uid not in left
    assert new.handle.uid in left


async def test_a_job_that_an_earlier_try_adopts_at_this_moment_is_ended_by_the_later_one(api):
    first = (await submit(api)).handle
    third = TRY.model_copy(update={"try_number": 3})
    api.before("PATCH", f"/services/{NAME}$", lambda: adopt_as(api, NAME, second()))

    again = (await submit(api, third, image="another")).handle
    api.collect_garbage()

    assert first.name not in api.names("services")
    assert api.names("jobs") == [f"{again.name}-worker"]


async def test_a_try_collects_the_job_that_it_has_adopted_after_it_watched_its_end(api):
    backend = await connect(api)
    first = (await submit(api)).handle
    succeed(api, first.name)
    async for _ in backend.watch(first):
        pass

    again = (await backend.submit(job(), second())).handle
    await backend.acknowledge(first)
    assert first.name in api.names("services")
    await backend.acknowledge(again)

    assert first.name not in api.names("services")
