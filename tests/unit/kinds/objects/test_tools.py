"""The Service and the Ingress of each tool, and the pod that they lead to."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.objects.labels import JOB, OURS, TOOL, TOOLS, written_tools
from airflow_trainer_provider.kinds.objects.tools import with_ports
from airflow_trainer_provider.kinds.trainer.training_runtime import tool_pod
from tests.golden_files import assert_golden
from tests.unit.kinds.objects.test_pod import CARRIED
from tests.unit.kinds.specs import TOOLS as SPECS_TOOLS
from tests.unit.kinds.specs import job_of

IDENTITY = Identity(dag_id="nightly", run_id="monday", task_id="train")


def _documents(backend, job):
    made = ClusterBackend(backend, None, "team")
    made.check(job)
    return [*yaml.safe_load_all(made.render(job, IDENTITY))]


def _tools_of(documents, kind):
    return {each["metadata"]["labels"][TOOL]: each for each in documents if each["kind"] == kind and _is_tool(each)}


def _is_tool(manifest):
    return TOOL in manifest["metadata"].get("labels", ())


@pytest.mark.parametrize(
    ("backend", "framework"),
    # Each kind, and each way in which a backend launches.
    [pair for pair in CARRIED if pair[0] == "training-operator" or pair[1] in ("pytorch", "mpi")],
)
def test_the_rendered_objects_are_those_of_the_golden_file(backend, framework):
    documents = _documents(backend, job_of(framework, tools=SPECS_TOOLS))
    # The namespace is the one that a test creates them in.
    documents = [each for each in documents if each["metadata"].pop("namespace")]

    assert_golden(f"{backend}/{framework}-tools.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_every_tool_has_a_service_and_its_address_is_on_the_main_object(backend, framework):
    documents = _documents(backend, job_of(framework, tools=SPECS_TOOLS))
    (main,) = [each for each in documents if TOOLS in each["metadata"].get("annotations", ())]
    name, services = main["metadata"]["name"], _tools_of(documents, "Service")

    assert [*services] == [*SPECS_TOOLS]
    assert [*_tools_of(documents, "Ingress")] == ["profiler"]
    assert written_tools(main) == {
        "tensorboard": f"http://{name}-tool-tensorboard.team.svc:6006/",
        "lab": "http://node-1.example:30888/lab",
        "profiler": f"https://{name}.tools.example/team",
        "gate": f"https://gate.example/team/{name}",
    }
    for tool, service in services.items():
        assert service["metadata"]["name"] == f"{name}-tool-{tool}"
        # None is taken for a job.
        assert service["metadata"]["labels"] == {JOB: name, TOOL: tool}
        assert OURS.partition("=")[0] not in service["metadata"]["labels"]


@pytest.mark.parametrize("framework", ["pytorch", "mpi"])
@pytest.mark.parametrize("backend", ["native", "trainer", "training-operator"])
def test_a_job_without_tools_has_no_word_of_them(backend, framework):
    documents = _documents(backend, job_of(framework))

    assert not any(map(_is_tool, documents))
    assert not any(TOOLS in each["metadata"].get("annotations", ()) for each in documents)


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_the_names_of_the_longest_are_names_of_services(backend, framework):
    tools = {"abcdefghijklmno": {"port": 1, "access": "ingress", "host": "a.example"}, "tb": {"port": 6006}}
    job = job_of(framework, tools=tools, name="x" * 32)

    services = _tools_of(_documents(backend, job), "Service").values()

    # With the number that a name gets which is taken.
    assert max(len(each["metadata"]["name"]) for each in services) + len("-999") <= 63


def test_on_native_the_index_is_that_of_the_first_node_in_the_job_that_it_shares():
    worker = {"overrides": [{"index": 0, "resources": {"memory": "1Gi"}}]}

    (service,) = _tools_of(
        _documents("native", job_of("jax", num_nodes=3, replicas={"worker": worker}, tools={"tb": {"port": 6006}})),
        "Service",
    ).values()

    selector = {name.rpartition("/")[2]: value for name, value in service["spec"]["selector"].items()}
    assert selector == {
        "job": service["metadata"]["labels"][JOB],
        "first-rank": "0",
        "job-completion-index": "0",
    }


@pytest.mark.parametrize(("trains", "step"), [(False, "node"), (True, "launcher")])
def test_on_trainer_a_launcher_that_trains_has_the_tools(trains, step):
    job = job_of("mpi")

    labels = tool_pod(replace(job, framework=replace(job.framework, automatic_trains=trains)), "train")

    assert labels == {
        "jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/replicatedjob-name": step,
        "batch.kubernetes.io/job-completion-index": "0",
    }


def _main(text):
    return {"metadata": {"annotations": {TOOLS: text}}}


def _service(tool, port):
    return {"kind": "Service", "metadata": {"labels": {TOOL: tool}}, "spec": {"ports": [{"nodePort": port}]}}


def test_the_ports_that_the_cluster_has_chosen_are_noted():
    urls = {"a": "http://n:<port>/", "b": "http://<node>:<port>/", "c": "http://c.team.svc:80/"}
    created = [_service("a", 31000), _service("b", 31001), {"kind": "Job", "metadata": {}}]

    assert json.loads(with_ports(_main(json.dumps(urls)), created)[TOOLS]) == {
        "a": "http://n:31000/",
        "b": "http://<node>:31001/",
        "c": "http://c.team.svc:80/",
    }


@pytest.mark.parametrize("text", ['{"a": "http://a/"}', "{}"])
def test_nothing_is_noted_where_the_cluster_has_chosen_nothing(text):
    assert with_ports(_main(text), [_service("a", 31000)]) == {}


@pytest.mark.parametrize("text", ["", "[", "[]", "7", "null", '{"a": 1}', '{"a": {"b": "c"}}'])
def test_an_annotation_that_the_provider_does_not_write_says_nothing(text):
    assert written_tools(_main(text)) == {}
    assert with_ports(_main(text), [_service("a", 31000)]) == {}
