"""The fake API server is as strict as a real one: what it takes wrongly, no test on it can find."""

from __future__ import annotations

import aiohttp
import pytest

from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import EVENTS, JOBS, PODS, SECRETS, SERVICES
from airflow_trainer_provider.kinds.trainer.trainjob import TRAIN_JOBS
from tests.fakes.kubernetes import NAMESPACE

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}


@pytest.fixture
async def client(api):
    return (await api.cluster()).client


async def refused(call):
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value.status, caught.value.reason


async def test_a_new_object_gets_what_only_the_server_sets(api, client):
    given = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    sent = {**SERVICE, "metadata": {"name": "a", **given}, "status": {"mine": True}}

    made = await client.create(SERVICES, NAMESPACE, sent)

    assert made == api.get(SERVICES, "a")
    assert not given.items() & made["metadata"].items()
    assert int(made["metadata"]["resourceVersion"]) == api.objects.version
    assert "status" not in made


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({}, (409, "AlreadyExists")),
        ({"apiVersion": "batch/v1"}, (400, "BadRequest")),
        ({"metadata": {"name": "b", "resourceVersion": "1"}}, (400, "BadRequest")),
        ({"metadata": {"name": "b", "namespace": "elsewhere"}}, (400, "BadRequest")),
        ({"metadata": {"name": "B_"}}, (422, "Invalid")),
        ({"metadata": {}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "ownerReferences": [{"name": "o"}]}}, (422, "Invalid")),
    ],
)
async def test_a_wrong_object_is_not_created(api, client, change, answer):
    api.add(SERVICES, "a")

    for dry_run in (False, True):
        assert await refused(client.create(SERVICES, NAMESPACE, {**SERVICE, **change}, dry_run=dry_run)) == answer

    assert api.names("services") == ["a"]


async def test_a_namespace_or_a_resource_that_is_not_there_is_not_found(client, api):
    assert await refused(client.create(SERVICES, "elsewhere", SERVICE)) == (404, "NotFound")
    api.missing.add("trainjobs")
    assert await refused(client.list(TRAIN_JOBS, NAMESPACE)) == (404, "")


@pytest.mark.parametrize(
    ("metadata", "taken"),
    [
        ({"resourceVersion": "current"}, True),
        ({"resourceVersion": "1"}, False),
        ({"uid": "current"}, True),
        ({"uid": "another"}, False),
    ],
)
async def test_a_patch_of_another_version_or_object_is_a_conflict(api, client, metadata, taken):
    own = api.add(SERVICES, "a")["metadata"]
    wanted = {name: own[name] if value == "current" else value for name, value in metadata.items()}
    patching = client.patch(SERVICES, NAMESPACE, "a", {"metadata": {**wanted, "labels": {"x": "y"}}})

    if taken:
        assert (await patching)["metadata"]["resourceVersion"] > own["resourceVersion"]
    else:
        assert await refused(patching) == (409, "Conflict")
    assert ("labels" in api.get(SERVICES, "a")["metadata"]) == taken


async def test_a_patch_changes_no_status_and_no_name(api, client):
    api.add(SERVICES, "a", status={"ready": False})

    assert (await client.patch(SERVICES, NAMESPACE, "a", {"status": {"ready": True}}))["status"] == {"ready": False}
    assert await refused(client.patch(SERVICES, NAMESPACE, "a", {"metadata": {"name": "b"}})) == (400, "BadRequest")


@pytest.mark.parametrize("condition", ["uid", "resource_version"])
async def test_a_deletion_of_another_object_or_version_is_a_conflict(api, client, condition):
    api.add(SERVICES, "a")

    try:
        assert not await client.delete(SERVICES, NAMESPACE, "a", **{condition: "1"})
    except ApiError as error:
        assert (condition, error.status) == ("resource_version", 409)  # noqa: PT017
    assert api.names("services") == ["a"]


async def test_a_finalizer_holds_a_deleted_object_and_its_name(api, client):
    api.add(SERVICES, "a", metadata={"finalizers": ["test/holds"]})

    await client.delete(SERVICES, NAMESPACE, "a")
    assert "deletionTimestamp" in api.get(SERVICES, "a")["metadata"]
    assert await refused(client.create(SERVICES, NAMESPACE, SERVICE)) == (409, "AlreadyExists")
    api.update(SERVICES, "a", {"metadata": {"finalizers": None}})

    assert api.names("services") == []


async def test_what_is_owned_goes_when_the_garbage_collector_comes(api, client):
    owner = api.add(SERVICES, "a")["metadata"]
    reference = {"apiVersion": "v1", "kind": "Service", "name": "a"}
    api.add(JOBS, "owned", metadata={"ownerReferences": [{**reference, "uid": owner["uid"]}]})
    api.add(JOBS, "of-another-of-this-name", metadata={"ownerReferences": [{**reference, "uid": "another"}]})
    api.add(JOBS, "free")

    await client.delete(SERVICES, NAMESPACE, "a")
    assert len(api.names("jobs")) == 3
    api.collect_garbage()

    assert api.names("jobs") == ["free"]


async def test_a_pod_that_runs_terminates_until_the_kubelet_has_ended_it(api):
    api.add(PODS, "runs", spec={"terminationGracePeriodSeconds": 5})
    api.add(PODS, "has-ended", status={"phase": "Succeeded"})

    for name in ("runs", "has-ended"):
        api.remove(PODS, name)
    assert api.get(PODS, "runs")["metadata"]["deletionGracePeriodSeconds"] == 5
    assert api.names("pods") == ["runs"]
    api.end_pod("runs")

    assert api.names("pods") == []


@pytest.mark.parametrize(
    ("compacted", "found", "asked"),
    [
        (False, 60, [["limit"], ["continue", "limit"], ["continue", "limit"]]),
        (True, 59, [["limit"], ["continue", "limit"], []]),
    ],
)
async def test_a_list_comes_in_pages_of_one_moment_until_that_has_expired(api, client, compacted, found, asked):
    for number in range(60):
        api.add(SERVICES, f"a-{number:02}")

    def change():
        if len(api.requests) == 2:
            api.remove(SERVICES, "a-59")
            if compacted:
                api.objects.compact()

    api.before("GET", "/services$", change, times=None)

    assert len((await client.list(SERVICES, NAMESPACE)).items) == found
    assert [sorted(request.query) for request in api.requests] == asked


@pytest.mark.parametrize(
    ("labels", "fields", "found"),
    [
        ("app", "", ["a", "b"]),
        ("app=x", "", ["a"]),
        ("app!=x", "", ["b", "c"]),
        ("!app", "", ["c"]),
        ("app in (x,y)", "", ["a", "b"]),
        ("app notin (x),app", "", ["b"]),
        ("", "metadata.name=c", ["c"]),
    ],
)
async def test_a_list_has_what_its_selectors_match(api, client, labels, fields, found):
    for name, own in (("a", {"app": "x"}), ("b", {"app": "y"}), ("c", {})):
        api.add(SERVICES, name, metadata={"labels": own})

    listing = await client.list(SERVICES, NAMESPACE, label_selector=labels, field_selector=fields)

    assert [each["metadata"]["name"] for each in listing.items] == found


async def test_a_selector_that_the_server_does_not_know_is_refused(client):
    for options in ({"label_selector": "a = (b"}, {"field_selector": "spec.type=x"}):
        assert await refused(client.list(SERVICES, NAMESPACE, **options)) == (400, "BadRequest")
    await client.list(EVENTS, NAMESPACE, field_selector="type=Warning")


async def events(stream, count):
    return [(event.type, event.object["metadata"].get("name")) for event in [await anext(stream) for _ in range(count)]]


async def test_a_watch_sends_what_has_happened_since_its_version(api, client):
    selected = {"labels": {"app": "x"}}
    version = api.add(SERVICES, "a", metadata=selected)["metadata"]["resourceVersion"]
    api.add(SERVICES, "b", metadata=selected)
    api.update(SERVICES, "a", {"metadata": {"labels": {"app": "other"}}})
    api.add(PODS, "b", metadata=selected)
    stream = client.watch(SERVICES, NAMESPACE, label_selector="app=x", resource_version=version)

    assert await events(stream, 2) == [("ADDED", "b"), ("DELETED", "a")]
    api.update(SERVICES, "b", {"spec": {"x": 1}})
    api.bookmark()
    assert await events(stream, 2) == [("MODIFIED", "b"), ("BOOKMARK", None)]
    api.remove(SERVICES, "b")
    assert await events(stream, 1) == [("DELETED", "b")]
    api.end_watches()
    assert [event async for event in stream] == []


async def test_what_no_longer_matches_a_watchs_selector_is_deleted_as_it_was(api, client):
    version = api.add(SERVICES, "a", metadata={"labels": {"app": "x"}})["metadata"]["resourceVersion"]
    changed = api.update(SERVICES, "a", {"metadata": {"labels": {"app": "y"}}})["metadata"]["resourceVersion"]

    event = await anext(client.watch(SERVICES, NAMESPACE, label_selector="app=x", resource_version=version))

    metadata = event.object["metadata"]
    assert (event.type, metadata["labels"], metadata["resourceVersion"]) == ("DELETED", {"app": "x"}, changed)


async def test_a_version_that_the_server_has_forgotten_has_expired(api, client):
    version = api.add(SERVICES, "a")["metadata"]["resourceVersion"]
    api.add(SERVICES, "b")
    api.objects.compact()

    assert await refused(anext(client.watch(SERVICES, NAMESPACE, resource_version=version))) == (410, "Expired")


@pytest.mark.parametrize(("role", "allowed"), [("trainer-worker", True), ("trainer-triggerer", False)])
async def test_an_account_has_the_rights_of_its_role(api, role, allowed):
    client = (await api.cluster(role, role)).client

    await client.list(SERVICES, NAMESPACE)
    assert await refused(client.list(SECRETS, NAMESPACE)) == (403, "Forbidden")
    if allowed:
        await client.create(SERVICES, NAMESPACE, SERVICE)
    else:
        assert await refused(client.create(SERVICES, NAMESPACE, SERVICE)) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("method", "token", "status"), [("PATCH", "trainer-worker", 415), ("PUT", "trainer-worker", 405), ("GET", "x", 401)]
)
async def test_a_wrong_type_of_body_method_or_token_is_refused(api, method, token, status):
    url = f"{api.url}/api/v1/namespaces/{NAMESPACE}/services/a"

    headers = {"Authorization": f"Bearer {token}"}

    async with aiohttp.request(method, url, json={}, headers=headers) as answer:
        assert answer.status == status


async def test_the_lines_of_a_container_are_followed_until_it_ends(api, client):
    statuses = [{"name": "main", "state": {"running": {}}}]
    pod = api.add(PODS, "p", spec={"containers": [{"name": "main"}]}, status={"containerStatuses": statuses})
    api.write_log(pod, "one")
    stream = client.logs(NAMESPACE, "p", "main", follow=True)

    assert (await anext(stream)).endswith(b"Z one")
    api.write_log(pod, "two")
    assert (await anext(stream)).endswith(b"Z two")
    api.update(PODS, "p", {"status": {"containerStatuses": [{"name": "main", "state": {"terminated": {}}}]}})
    assert [line async for line in stream] == []
    assert await refused(anext(client.logs(NAMESPACE, "p", "other"))) == (400, "BadRequest")


async def test_faults_are_answered_before_after_or_instead_of_the_deed(api, client):
    api.answer(429, "GET", "/services/a$", times=1, Retry_After="0")
    lost = api.lose_answer("POST", "/services$")
    other = api.before("DELETE", "/services/a$", lambda: api.remove(SERVICES, "a"))

    assert (await refused(client.create(SERVICES, NAMESPACE, SERVICE)))[0] is None
    assert await client.get(SERVICES, NAMESPACE, "a")
    assert not await client.delete(SERVICES, NAMESPACE, "a")

    assert (lost.hits, other.hits) == (1, 1)
    assert [str(request) for request in api.requests] == [
        "POST services",
        *["GET services/a"] * 2,
        "DELETE services/a",
    ]
