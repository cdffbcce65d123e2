"""The claims of a job's volumes: created once, owned or kept, and never another's."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import PERSISTENT_VOLUME_CLAIMS, SERVICES
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.spec import parse_spec
from tests.fakes.kubernetes import NAMESPACE

pytestmark = pytest.mark.timeout(20)
TRY = Identity(dag_id="d", run_id="r", task_id="t", try_number=1, deployment="prod", max_tries=2)
NAME = TRY.job_name("train")
CLAIMS = "persistentvolumeclaims"
OWNED = {"mount_path": "/scratch", "new_claim": {"size": "10Gi"}}
KEPT = {"mount_path": "/kept", "name": "checkpoints", "new_claim": {"size": "10Gi", "keep": True}}
#: The main object of each backend.
MAIN = {"native": "services", "trainer": "trainjobs", "training-operator": "jaxjobs"}


@pytest.fixture
def gc_delay():
    return 0.0


async def submit(api, *volumes, identity=TRY, backend="native"):
    fields = {"framework": "jax", "name": "train", "image": "i", "command": ["python", "t.py"], "volumes": volumes}
    connected = ClusterBackend(backend, await api.cluster(), NAMESPACE)
    return (await connected.submit(plan_job(parse_spec(fields)), identity)).handle


def second(**fields):
    return TRY.model_copy(update={"try_number": 2, **fields})


def owners(api, name):
    return [each["uid"] for each in api.get(PERSISTENT_VOLUME_CLAIMS, name)["metadata"].get("ownerReferences", ())]


@pytest.mark.parametrize("backend", MAIN)
async def test_a_claim_of_the_job_belongs_to_the_main_object_and_goes_with_it(api, backend):
    handle = await submit(api, OWNED, backend=backend)

    assert owners(api, f"{NAME}-scratch") == [handle.uid]
    created = [each for each in api.writes if each.startswith("POST")]
    # Its pods wait for it, so it comes before them where this provider decides that.
    assert created.index(f"POST {CLAIMS}") == created.index(f"POST {MAIN[backend]}") + 1
    (main,) = api.objects.find(MAIN[backend], NAMESPACE, f"{labels.OURS},{labels.TASK}={TRY.key}")
    assert main["metadata"]["annotations"][labels.COMPLETE] == "true"
    api.objects.delete((MAIN[backend], NAMESPACE, NAME))
    api.collect_garbage()
    assert api.names(CLAIMS) == []


async def test_a_submit_that_was_killed_before_the_claim_is_completed_by_the_next_try(api):
    rule = api.before("GET", "/services$", lambda: asyncio.sleep(3600), skip=1)
    killed = asyncio.create_task(submit(api, OWNED))
    await rule.reached.wait()
    killed.cancel()
    api.heal()

    handle = await submit(api, OWNED, identity=second())

    assert handle.name == NAME
    assert owners(api, f"{NAME}-scratch") == [handle.uid]
    assert api.names("jobs") == [f"{NAME}-worker"]


async def test_a_claim_of_another_job_is_not_taken_for_the_jobs_own(api):
    api.add(PERSISTENT_VOLUME_CLAIMS, f"{NAME}-scratch", spec={})

    handle = await submit(api, OWNED)

    assert handle.name == f"{NAME}-2"
    assert owners(api, f"{NAME}-scratch") == []
    assert owners(api, f"{NAME}-2-scratch") == [handle.uid]


async def test_a_claim_that_is_kept_comes_first_and_stays_when_the_job_goes(api):
    await submit(api, KEPT)

    assert api.writes[:2] == [f"POST {CLAIMS}", "POST services"]
    assert owners(api, "checkpoints") == []
    api.remove(SERVICES, NAME)
    api.collect_garbage()
    assert api.names(CLAIMS) == ["checkpoints"]


async def test_a_later_job_uses_a_kept_claim_again_and_leaves_it_as_it_is(api):
    await submit(api, KEPT)
    before = api.get(PERSISTENT_VOLUME_CLAIMS, "checkpoints")

    handle = await submit(api, KEPT, identity=TRY.model_copy(update={"run_id": "another"}))

    assert handle.name != NAME
    assert api.get(PERSISTENT_VOLUME_CLAIMS, "checkpoints") == before
    assert api.names(CLAIMS) == ["checkpoints"]


async def test_the_next_try_does_not_sweep_a_kept_claim_away(api):
    api.answer(403, "POST", "/trainjobs$", times=1)
    with pytest.raises(SubmitError):
        await submit(api, KEPT, backend="trainer")

    await submit(api, KEPT, backend="trainer", identity=second())

    assert api.names(CLAIMS) == ["checkpoints"]


@pytest.mark.parametrize(
    ("spec", "marked", "reason"),
    [
        ({}, {}, "it was not created by new_claim with keep: name it as claim to use it, or rename the volume"),
        (
            {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}},
            {labels.MANAGED_BY: labels.PREFIX, labels.KEPT: "true"},
            "it has access modes ReadWriteMany and not ReadWriteOnce, volumeMode None and not Filesystem, "
            "5Gi and not 10Gi: ask for what it has, rename the volume, or delete the claim",
        ),
    ],
    ids=["of others", "another one"],
)
async def test_a_kept_claim_that_cannot_be_used_fails_the_submit_before_anything_is_created(api, spec, marked, reason):
    api.add(PERSISTENT_VOLUME_CLAIMS, "checkpoints", spec=spec, metadata={"labels": marked})

    with pytest.raises(SubmitError) as caught:
        await submit(api, KEPT)

    assert str(caught.value) == f"PersistentVolumeClaim checkpoints exists in namespace {NAMESPACE}, and {reason}."
    assert not caught.value.retryable
    assert api.writes == [f"POST {CLAIMS}"]


async def test_a_kept_claim_that_is_being_deleted_fails_the_submit_until_it_is_gone(api):
    await submit(api, KEPT)
    api.update(PERSISTENT_VOLUME_CLAIMS, "checkpoints", {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}})
    api.remove(PERSISTENT_VOLUME_CLAIMS, "checkpoints")

    with pytest.raises(SubmitError, match=r"checkpoints exists .* it is being deleted: try again") as caught:
        await submit(api, KEPT, identity=TRY.model_copy(update={"run_id": "another"}))

    assert caught.value.retryable


async def test_a_kept_claim_of_which_the_api_server_did_not_say_that_it_was_created_is_found(api):
    api.lose_answer("POST", f"/{CLAIMS}$")

    await submit(api, KEPT)

    assert api.names(CLAIMS) == ["checkpoints"]
    assert api.writes.count(f"POST {CLAIMS}") == 2


async def test_a_namespace_without_room_for_a_claim_keeps_nothing_of_the_job(api):
    api.answer(403, "POST", f"/{CLAIMS}$", message="exceeded quota: disks")

    with pytest.raises(SubmitError, match="no quota left for this PersistentVolumeClaim"):
        await submit(api, OWNED)

    api.collect_garbage()
    assert (api.names("services"), api.names("jobs")) == ([], [])
