"""The Services and Ingresses of a job's tools: exactly one each, gone with the job, and their ports in its handle."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations import create, wait
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import INGRESSES, PODS, SERVICES
from airflow_trainer_provider.kinds.objects.labels import TOOL
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.spec import parse_spec
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes

pytestmark = pytest.mark.timeout(20)
TRY = Identity(dag_id="d", run_id="r", task_id="t", try_number=1, deployment="prod", max_tries=2)
NAME = TRY.job_name("train")
SECOND = TRY.model_copy(update={"try_number": 2})
ANY_PORT = {"lab": {"port": 8888, "access": "node_port", "host": "n.example"}}
FIXED_PORT = {"lab": {"port": 8888, "access": "node_port", "node_port": 30888, "host": "n.example"}}
INGRESS = {"tb": {"port": 6006, "access": "ingress", "host": "{job}.example"}}
#: The main object of each backend.
MAIN = {"native": "services", "trainer": "trainjobs", "training-operator": "jaxjobs"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(create, "_DOUBT_SECONDS", 0.01)
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.01)


@pytest.fixture
async def api():
    async with FakeKubernetes() as api:
        yield api


async def submission(api, tools, identity=TRY, backend="native"):
    fields = {"framework": "jax", "name": "train", "image": "i", "command": ["python", "t.py"], "tools": tools}
    return await ClusterBackend(backend, await api.cluster(), NAMESPACE).submit(plan_job(parse_spec(fields)), identity)


async def submit(api, tools, **options):
    return (await submission(api, tools, **options)).handle


def services(api):
    return [each["metadata"]["name"] for each in api.objects.find("services", NAMESPACE, TOOL)]


def owners(api, resource, name):
    return [each["uid"] for each in api.get(resource, name)["metadata"]["ownerReferences"]]


@pytest.mark.parametrize("backend", MAIN)
async def test_the_objects_of_a_tool_belong_to_the_main_object_and_go_with_it(api, backend):
    handle = await submit(api, {**ANY_PORT, **INGRESS}, backend=backend)

    assert handle.tools == {"lab": "http://n.example:31000/", "tb": f"http://{NAME}.example/"}
    assert services(api) == [f"{NAME}-tool-lab", f"{NAME}-tool-tb"]
    assert api.names("ingresses") == [f"{NAME}-tool-tb"]
    assert owners(api, SERVICES, f"{NAME}-tool-lab") == owners(api, INGRESSES, f"{NAME}-tool-tb") == [handle.uid]
    api.objects.delete((MAIN[backend], NAMESPACE, NAME))
    api.collect_garbage()
    assert services(api) == api.names("ingresses") == []


async def test_a_jobs_tools_come_before_what_trains_on_native(api):
    await submit(api, ANY_PORT)

    created = [each for each in api.writes if each.startswith("POST")]
    assert created == ["POST services", "POST services", "POST services", "POST jobs"]
    assert api.requests[-1].body["metadata"]["annotations"]["airflow-trainer-provider/tools"]


@pytest.mark.parametrize("tools", [ANY_PORT, FIXED_PORT, INGRESS])
@pytest.mark.parametrize("backend", MAIN)
async def test_the_next_try_adopts_a_job_with_the_tools_that_it_has(api, backend, tools):
    first = await submit(api, tools, backend=backend)

    second = await submission(api, tools, identity=SECOND, backend=backend)

    assert second.adopted
    assert second.handle == first.model_copy(update={"owner": 2})
    assert len(services(api)) == 1


async def submit_killed_at(api, tools, method, path, *, skip=0):
    """Start a submit that is killed while it waits for the answer to a request."""
    rule = api.before(method, path, lambda: asyncio.sleep(3600), skip=skip)
    killed = asyncio.create_task(submit(api, tools))
    await rule.reached.wait()
    killed.cancel()
    api.heal()


@pytest.mark.parametrize("tools", [ANY_PORT, FIXED_PORT])
async def test_a_submit_that_was_killed_before_the_service_is_completed_by_the_next_try(api, tools):
    await submit_killed_at(api, tools, "GET", "/services$", skip=1)
    assert services(api) == []

    handle = await submit(api, tools, identity=SECOND)

    assert "<" not in handle.tools["lab"]
    assert services(api) == [f"{NAME}-tool-lab"]


@pytest.mark.parametrize("tools", [ANY_PORT, FIXED_PORT])
async def test_a_submit_that_was_killed_after_the_service_finds_it_and_its_port(api, tools):
    await submit_killed_at(api, tools, "POST", "/jobs$")
    port = api.get(SERVICES, f"{NAME}-tool-lab")["spec"]["ports"][0]["nodePort"]

    handle = await submit(api, tools, identity=SECOND)

    assert handle.tools == {"lab": f"http://n.example:{port}/"}
    assert services(api) == [f"{NAME}-tool-lab"]


def _other(api):
    ports = [{"port": 1, "nodePort": 30888}]
    api.add(SERVICES, "other", spec={"type": "NodePort", "ports": ports})


async def test_a_port_of_the_nodes_is_waited_for_that_an_ended_job_had(api):
    _other(api)
    asyncio.get_running_loop().call_later(0.2, api.remove, SERVICES, "other")

    handle = await submit(api, FIXED_PORT)

    assert handle.tools == {"lab": "http://n.example:30888/"}
    assert handle.name == NAME


@pytest.mark.parametrize("backend", MAIN)
async def test_a_port_of_the_nodes_that_stays_taken_fails_the_submit_and_nothing_is_left(api, backend, monkeypatch):
    monkeypatch.setattr(create, "_PORT_SECONDS", 0.05)
    _other(api)

    with pytest.raises(
        SubmitError, match=r"has the port of the nodes.*30888.*Set another node_port, or drop"
    ) as caught:
        await submit(api, FIXED_PORT, backend=backend)

    assert caught.value.retryable
    api.collect_garbage()
    assert api.names("services") == ["other"]
    assert api.names(MAIN[backend]) == (["other"] if backend == "native" else [])


async def test_a_service_of_another_job_is_not_taken_for_the_jobs_own(api):
    api.add(SERVICES, f"{NAME}-tool-lab", spec={})

    handle = await submit(api, ANY_PORT)

    assert handle.name == f"{NAME}-2"
    assert "ownerReferences" not in api.get(SERVICES, f"{NAME}-tool-lab")["metadata"]
    assert owners(api, SERVICES, f"{NAME}-2-tool-lab") == [handle.uid]


async def test_the_services_of_tools_are_no_jobs(api):
    handle = await submit(api, ANY_PORT)

    backend = ClusterBackend("native", await api.cluster(), NAMESPACE)

    assert [each.uid for each in await backend.find(TRY)] == [handle.uid]
    assert [each.name for each in await backend.overviews()] == [NAME]


async def test_what_may_not_be_created_is_named_and_nothing_is_left(api):
    api.answer(403, "POST", "/ingresses$", message='User "w" cannot create resource "ingresses"')

    with pytest.raises(SubmitError, match=r"w may not create ingresses \(networking.k8s.io/v1\)"):
        await submit(api, INGRESS)

    api.collect_garbage()
    assert api.names("services") == []


@pytest.mark.parametrize(
    ("tools", "addresses", "found"),
    [
        (ANY_PORT, ["10.0.0.5", None, "10.0.0.4"], "10.0.0.4"),
        (ANY_PORT, [None], None),
        ({}, ["10.0.0.4"], None),
    ],
)
async def test_a_status_names_a_node_of_a_job_with_tools(api, tools, addresses, found):
    handle = await submit(api, tools)
    pods = [
        api.add(
            PODS,
            f"p{at}",
            metadata={"labels": {}},
            spec={"containers": [{"name": "train"}]},
            status={"phase": "Running", **({"hostIP": address} if address else {})},
        )
        for at, address in enumerate(addresses)
    ]

    status = Snapshot(JobObject(KINDS["native"], api.get(SERVICES, handle.name)), pods).status()

    assert status.node_address == found
    assert "node_address" not in status.model_dump()
