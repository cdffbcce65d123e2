"""Each row of the coverage page is true: its fields are in the spec, its tests are there, and nothing is left open."""

from __future__ import annotations

import importlib.util
import inspect
import os

import pytest

import airflow_trainer_provider as provider
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.get_provider_info import get_provider_info
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.operators.train_job import TrainJobOperator
from airflow_trainer_provider.policies.field_path import parse_path
from airflow_trainer_provider.spec import parse_spec
from tests.unit.named_tests import ROOT, problem


def _extension():
    file = ROOT / "docs" / "_ext" / "coverage_tables.py"
    spec = importlib.util.spec_from_file_location("coverage_tables", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = _extension()
DOCUMENTS = PAGE.read(ROOT / "docs" / "reference" / "coverage.yaml")
ROWS = [
    pytest.param(row, id=f"{name}-{row['term']}") for name, document in DOCUMENTS.items() for row in document["rows"]
]


def is_known(field):
    """Whether the spec, the operators or the configuration has a field."""
    if field.startswith("[trainer] "):
        return field.removeprefix("[trainer] ") in get_provider_info()["config"]["trainer"]["options"]
    if field in provider.__all__ or field in inspect.signature(TrainJobOperator.__init__).parameters:
        return True
    try:
        parse_path(field)
    except SpecError:
        return False
    return True


def wrong(row):
    """What is wrong with a row."""
    kinds = [name for name in ("fields", *PAGE.INSTEAD) if row.get(name)]
    if len(kinds) != 1:
        yield "it has neither fields nor a reason, or several"
    yield from (f"there is no field {field}" for field in row.get("fields", ()) if not is_known(field))
    yield from (f"{test}: {found}" for test in row.get("tests", ()) if (found := problem(test)))
    if {"fields", "how"} & {*kinds} and not any("::" in test for test in row.get("tests", ())):
        yield "no test shows it"
    for backend, words in row.get("except", {}).items():
        word, _, why = words.partition(": ")
        if backend not in PAGE.BACKENDS or word not in ("no", "partly") or not why:
            yield f"{backend}: {words}"
    if {*row} - {"term", "fields", "except", "tests", *PAGE.INSTEAD}:
        yield "it has parts that the page does not show"


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_true(row):
    assert list(wrong(row)) == []


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"term": "x"}, "it has neither fields nor a reason, or several"),
        ({"term": "x", "fields": ["image"], "not_yet": "y"}, "it has neither fields nor a reason, or several"),
        ({"term": "x", "fields": ["pod.uid"]}, "there is no field pod.uid"),
        ({"term": "x", "fields": ["[trainer] x"]}, "there is no field [trainer] x"),
        ({"term": "x", "fields": ["image"]}, "no test shows it"),
        ({"term": "x", "not_yet": "y", "tests": ["tests/x.py::test_y"]}, "tests/x.py::test_y: there is no such file"),
        ({"term": "x", "not_yet": "y", "except": {"local": "no"}}, "local: no"),
        ({"term": "x", "not_yet": "y", "notes": "z"}, "it has parts that the page does not show"),
    ],
)
def test_a_row_that_is_wrong_is_noticed(row, found):
    assert found in list(wrong(row))


def test_every_backend_has_its_place():
    assert {*PAGE.BACKENDS} == {*BACKENDS, "local"}


def test_every_document_is_on_the_page():
    text = (ROOT / "docs" / "reference" / "coverage.md").read_text()

    assert {name for name in DOCUMENTS if f"{{{{ coverage.{name} }}}}" in text} == {
        "runai",
        "polyaxon",
        "training_operator",
        "trainer",
    }


def test_a_row_on_the_page():
    row = {
        "term": "Node port",
        "fields": ["image", "args"],
        "except": {"local": "no: it has none", "native": "partly: some"},
        "tests": ["tests/unit/test_coverage.py::test_a_row_on_the_page"],
    }

    backends = (
        "`trainer`, `training-operator`, `mpi-operator`<br>`native`: **partly**, some<br>`local`: **no**, it has none"
    )
    assert PAGE.table([row, {"term": "b", "not_yet": "Wait."}]).splitlines()[2:] == [
        f"| Node port | `image`<br>`args` | {backends} | `test_a_row_on_the_page` |",
        "| b | **Not yet.** Wait. |  |  |",
    ]


VOLUME = {"mount_path": "/data"}
#: Beginning of a field's path -> a spec that has the field, for each backend that the row does not name.
SAMPLES = {
    "num_nodes": {"num_nodes": 2},
    "num_workers": {"num_workers": 2},
    "num_proc_per_node": {"num_proc_per_node": 2},
    "replicas.worker.replicas": {"replicas": {"worker": {"replicas": 2}, "master": {}}},
    "replicas.worker.resources": {"num_nodes": 2, "replicas": {"worker": {"resources": {"cpu": "1m"}}}},
    "replicas.worker.overrides.*.resources": {
        "num_nodes": 3,
        "replicas": {"worker": {"overrides": [{"index": 0, "resources": {"cpu": "1m"}}]}},
    },
    "replicas.worker.overrides.*.scheduling": {
        "num_nodes": 3,
        "replicas": {"worker": {"overrides": [{"index": 0, "scheduling": {"priority_class": "a"}}]}},
    },
    "replicas.master.args": {"num_nodes": 2, "replicas": {"master": {"args": ["a"]}}},
    "name": {"name": "a"},
    "image": {"image": "a"},
    "args": {"args": ["a"]},
    "env.*.secret": {"env": {"A": {"secret": {"name": "a", "key": "b"}}}},
    "env.*.config_map": {"env": {"A": {"config_map": {"name": "a", "key": "b"}}}},
    "env.*.field": {"env": {"A": {"field": "status.podIP"}}},
    "env": {"env": {"A": "b"}},
    "launcher": {"launcher": "none"},
    "scheduling.queue_name": {"scheduling": {"queue_name": "a"}},
    "launcher.is_node": {"framework": "mpi", "launcher": {"is_node": True}},
    "launcher.ssh_mount_path": {"framework": "mpi", "launcher": {"ssh_mount_path": "/home/mpiuser/.ssh"}},
    "scheduling.gang": {"scheduling": {"gang": "coscheduling"}},
    "scheduling.gang.min_available": {"scheduling": {"gang": {"scheduler": "volcano", "min_available": 1}}},
    "scheduling.gang.min_resources": {"scheduling": {"gang": {"scheduler": "volcano", "min_resources": {"cpu": 1}}}},
    "scheduling.gang.network_topology": {"scheduling": {"gang": {"scheduler": "volcano", "network_topology": {}}}},
    "runtime_ref": {"runtime_ref": "a"},
    "pod_template": {"pod_template": {"spec": {"nodeSelector": {"a": "b"}}}},
    "elastic": {"elastic": {"min_nodes": 1, "max_nodes": 2}},
    "on_kill_action": {"on_kill_action": "suspend"},
    "on_finish_action": {"on_finish_action": "keep"},
    "run_policy.ttl_seconds_after_finished": {
        "on_finish_action": "keep",
        "run_policy": {"ttl_seconds_after_finished": 1},
    },
    "run_policy.clean_pods": {"on_finish_action": "keep", "run_policy": {"clean_pods": "All"}},
    "run_policy.exit_codes": {"run_policy": {"backoff_limit": 1, "exit_codes": {"fail": [3]}}},
    "run_policy.backoff_limit": {"run_policy": {"backoff_limit": 1}},
    "run_policy.grace_period_seconds": {"run_policy": {"grace_period_seconds": 1}},
    "run_policy.active_deadline_seconds": {"run_policy": {"active_deadline_seconds": 1}},
    "resources_per_node.cpu": {"resources_per_node": {"cpu": "1m"}},
    "resources_per_node.memory": {"resources_per_node": {"memory": "1Mi"}},
    "resources_per_node.gpu.fraction": {
        "resources_per_node": {"gpu": {"fraction": 0.5}},
        "scheduling": {"scheduler_name": "kai-scheduler"},
    },
    "resources_per_node.gpu.memory": {
        "resources_per_node": {"gpu": {"memory": "8Gi"}},
        "scheduling": {"scheduler_name": "kai-scheduler"},
    },
    "resources_per_node.gpu": {"resources_per_node": {"gpu": 1}},
    "resources_per_node.extended": {"resources_per_node": {"extended": {"a/b": 1}}},
    "resources_per_node.shared_memory": {"resources_per_node": {"shared_memory": "auto"}},
    "scheduling": {"scheduling": {"node_pools": ["a"], "node_pool_label": "b", "priority_class": "c"}},
    "pod.security": {"pod": {"security": {"run_as_user": 5000}}},
    "pod.env_from": {"pod": {"env_from": [{"secret": "a"}]}},
    "pod": {"pod": {"labels": {"a": "b"}, "annotations": {"a": "b"}, "image_pull": {"secrets": ["a"]}}},
    "volumes.*.new_claim": {"volumes": [{**VOLUME, "new_claim": {"size": "1Gi"}}]},
    "volumes.*.s3": {"volumes": [{**VOLUME, "s3": {"uri": "s3://sets", "image": "a"}}]},
    "volumes.*.git": {"volumes": [{**VOLUME, "git": {"repository": "https://a/b", "image": "a"}}]},
    "volumes": {"volumes": [{**VOLUME, "claim": "a"}]},
}


def is_taken(backend, sample, framework, folder):
    spec = {"framework": framework, "command": ["sh"], **sample}
    if framework == "mpi" and "master" in spec.get("replicas", {}):
        spec["replicas"] = {**spec["replicas"], "launcher": spec["replicas"]["master"]}
        del spec["replicas"]["master"]
    try:
        if backend == "local":
            LocalBackend(folder, 0.05, None).check(plan_job(parse_spec(spec)))
        else:
            ClusterBackend(backend, None, "team").check(plan_job(parse_spec({"image": "a", **spec})))
    except UnsupportedField:
        return False
    return True


@pytest.mark.parametrize("row", [row for row in ROWS if row.values[0].get("fields")])
def test_a_backend_takes_or_refuses_a_field_as_the_row_says(row, tmp_path, monkeypatch):
    # The local backend looks for the launcher; nothing is started.
    (tmp_path / "torchrun").touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    partly = {name for name, words in row.get("except", {}).items() if words.startswith("partly")}
    for field in row["fields"]:
        prefix = max((name for name in SAMPLES if f"{field}.".startswith(f"{name}.")), key=len, default=None)
        for backend in {*PAGE.BACKENDS} - partly if prefix else ():
            framework = "mpi" if backend == "mpi-operator" else "pytorch"
            refused = row.get("except", {}).get(backend, "")
            if refused.endswith("runs MPI alone"):
                framework = "pytorch"
            taken = is_taken(backend, SAMPLES[prefix], framework, tmp_path)
            assert taken is not bool(refused), f"{field} on {backend}"
