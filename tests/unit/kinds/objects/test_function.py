"""The ConfigMap of a job's function, which each pod mounts."""

from __future__ import annotations

import re

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations.order import order_of
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import Facts
from airflow_trainer_provider.kinds.objects.function import FOLDER
from airflow_trainer_provider.kinds.registry import kind_for
from airflow_trainer_provider.spec.running.function import FUNCTION_COMMAND, MOST_FUNCTION_BYTES
from tests.golden_files import assert_golden
from tests.unit.kinds.objects.test_pod import CARRIED
from tests.unit.kinds.specs import job_of

IDENTITY = Identity(dag_id="nightly", run_id="monday", task_id="train")
FILES = {
    "runner.py": "# of the test\n",
    "dag/my dag.py": "\n\ndef train(rows):\n    return rows\n",
    "include/models/net.py": "SIZE = 'é'\n",
    "call.json": '{"function": "train", "args": ["$(HOME)"]}',
}


def _job(framework, **fields):
    function = {"name": "train", "files": FILES}
    replicas = {"ps": {}, "evaluator": {}} if framework == "tensorflow" else {}
    given = {"command": FUNCTION_COMMAND, "args": (), "replicas": replicas, "function": function, **fields}
    return job_of(framework, **given)


def _documents(backend, job):
    made = ClusterBackend(backend, None, "team")
    made.check(job)
    return [*yaml.safe_load_all(made.render(job, IDENTITY))]


def _objects(backend, job):
    """What is created, where the other shows sizes."""
    order = order_of(kind_for(backend, job), "team", job, IDENTITY)
    rendered = order.render(order.name, Facts())
    return [*rendered.kept, *rendered.before, rendered.main, *rendered.after]


@pytest.mark.parametrize(
    ("backend", "framework"),
    # Each kind, and each way in which a backend launches.
    [pair for pair in CARRIED if pair[0] == "training-operator" or pair[1] in ("pytorch", "mpi")],
)
def test_the_rendered_objects_are_those_of_the_golden_file(backend, framework):
    documents = _documents(backend, _job(framework))
    # The namespace is the one that a test creates them in.
    documents = [each for each in documents if each["metadata"].pop("namespace")]

    assert_golden(f"{backend}/{framework}-function.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_each_pod_has_the_files_of_an_immutable_config_map(backend, framework):
    documents = _objects(backend, _job(framework))

    maps = {each["metadata"]["name"]: each for each in documents if each["kind"] == "ConfigMap"}
    (made,) = [each for name, each in maps.items() if name.endswith("-function")]
    assert made["immutable"]
    pods = list(_pods(documents))
    assert pods
    for pod in pods:
        (volume,) = [each["configMap"] for each in pod["volumes"] if each["name"] == "trainer-function"]
        assert volume["name"] == made["metadata"]["name"]
        assert {each["path"]: made["data"][each["key"]] for each in volume["items"]} == FILES
        train = pod["containers"][0]
        mounts = {each["name"]: each for each in train["volumeMounts"]}
        assert mounts["trainer-function"] == {"name": "trainer-function", "mountPath": FOLDER, "readOnly": True}
        assert {"name": "TRAINER_FUNCTION", "value": FOLDER} in train["env"]


def _pods(value):
    """The specs of the pods that train, wherever they stand."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _pods(each)


def test_the_rendered_job_has_no_code_and_no_arguments():
    files = {"dag/credentials.py": "# é: positional\n", "call.json": '{"args": ["positional"]}'}
    text = ClusterBackend("native", None, "team").render(_job("jax", function={"name": "f", "files": files}), IDENTITY)

    (shown,) = [each["data"] for each in yaml.safe_load_all(text) if each["metadata"]["name"].endswith("-function")]
    assert shown == {"0.call.json": "<24 bytes>", "1.dag.credentials.py": "<17 bytes>"}
    assert "positional" not in text


def test_no_two_files_have_one_key():
    files = {
        "include/m/größe.py": "1",
        "include/m/grüße.py": "2",
        "a/b.py": "3",
        "a.b.py": "4",
        f"{'a/' * 130}b.py": "5",
    }
    documents = _objects("native", _job("jax", function={"name": "f", "files": files}))

    (data,) = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
    assert sorted(data.values()) == ["1", "2", "3", "4", "5"]
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key) for key in data)


def test_a_job_without_a_function_has_no_such_config_map():
    documents = _documents("native", job_of("pytorch"))

    assert not [each for each in documents if each["kind"] == "ConfigMap"]
    assert "trainer-function" not in yaml.safe_dump_all(documents)
    assert "TRAINER_FUNCTION" not in yaml.safe_dump_all(documents)


@pytest.mark.parametrize(
    ("fields", "path", "way_out"),
    [
        ({"command": ["python", "train.py"]}, "command", "Drop command"),
        ({"args": ["--epochs"]}, "args", "Drop args; what a function needs is an argument of its call."),
        ({"replicas": {"worker": {"command": ["sh"]}}}, "replicas.worker.command", "Drop command"),
        (
            {"replicas": {"worker": {"overrides": [{"index": 0, "args": ["a"]}]}}},
            "replicas.worker.overrides[0].args",
            "Drop args",
        ),
        ({"function": {"name": "f", "files": {}}}, "function.files", ""),
        ({"function": {"name": "f", "files": {"../x": ""}}}, "function.files", "path below it"),
        (
            {"function": {"name": "f", "files": {"a": "é" * (MOST_FUNCTION_BYTES // 2), "b": "x"}}},
            "function.files",
            "Put the code into the image, and data into object storage, whose address is an argument.",
        ),
    ],
)
def test_what_may_not_stand_beside_a_function(fields, path, way_out):
    with pytest.raises(SpecError) as refused:
        _job("jax", **fields)

    (problem,) = refused.value.problems
    assert problem.field.startswith(path)
    assert way_out in problem.fix


def test_no_volume_is_mounted_over_the_function():
    job = _job("jax", volumes=[{"mount_path": f"{FOLDER}/dag", "empty_dir": {}}])

    with pytest.raises(SpecError, match=FOLDER):
        ClusterBackend("native", None, "team").check(job)
