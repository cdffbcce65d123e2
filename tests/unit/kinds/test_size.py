"""Objects, data, variables and arguments that no cluster takes are refused before anything is created."""

from __future__ import annotations

import time
from typing import Any

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.manifest import plan_manifest
from airflow_trainer_provider.spec import parse_manifest_spec
from tests.unit.kinds.specs import job_of

IDENTITY = Identity(dag_id="nightly", run_id="monday", task_id="train")
LONG = "x" * 100_000
#: Variables of 1.6 MB together, none of which is too long by itself.
MANY = {f"V{at}": LONG for at in range(16)}


def _refusal(backend: str, framework: str, **fields: Any) -> Problem:
    job = job_of(framework, num_workers=None, **fields)
    began = time.process_time()
    with pytest.raises(SpecError) as checked:
        ClusterBackend(backend, None, "team").check(job)
    assert time.process_time() - began < 3
    with pytest.raises(SpecError):
        ClusterBackend(backend, None, "team").render(job, IDENTITY)
    (problem,) = checked.value.problems
    return problem


def test_an_override_that_makes_an_object_too_large() -> None:
    problem = _refusal("native", "jax", replicas={"worker": {"overrides": [{"index": 1, "env": MANY}]}})

    assert problem.field == "replicas.worker.overrides[0].env"


def _template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "train", **fields}]}}


@pytest.mark.parametrize(
    ("backend", "kind"),
    [("native", "Job"), ("trainer", "TrainingRuntime"), ("training-operator", "PyTorchJob")],
)
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"env": MANY}, "env"),
        ({"args": list(MANY.values())}, "args"),
        ({"pod_template": {"metadata": {"annotations": MANY}}}, "pod_template"),
    ],
    ids=["env", "args", "pod_template"],
)
def test_an_object_that_etcd_would_not_take(backend: str, kind: str, fields: dict[str, Any], field: str) -> None:
    problem = _refusal(backend, "pytorch", **fields)

    assert problem.field == field
    assert kind in problem.value
    assert f"{field} has 1600" in problem.value
    limit = "1032192 bytes for a runtime" if kind == "TrainingRuntime" else "1540096 bytes for one object"
    assert f"at most {limit}" in problem.allowed
    assert "volume" in problem.fix
    assert LONG[:100] not in str(problem)


@pytest.mark.parametrize(("length", "fits"), [(70, True), (90, False)])
def test_what_the_api_server_notes_of_each_variable_counts(length: int, fits: bool) -> None:
    env = {f"E{at}": "x" * length for at in range(10_000)}
    job = job_of("pytorch", num_workers=None, env=env)

    if fits:
        ClusterBackend("native", None, "team").check(job)
    else:
        with pytest.raises(SpecError, match="env has 1008891 of them"):
            ClusterBackend("native", None, "team").check(job)


@pytest.mark.parametrize("backend", ["native", "trainer", "training-operator"])
@pytest.mark.parametrize(
    ("template", "what"),
    [
        (_template(env=[{"name": "A", "value": LONG * 2}]), "variable A of 200002 bytes"),
        (_template(command=["sh"], args=[LONG * 2]), "an argument of 200000 bytes"),
    ],
    ids=["env", "args"],
)
def test_a_variable_or_argument_of_the_pod_template_that_linux_would_not_take(
    backend: str, template: dict[str, Any], what: str
) -> None:
    problem = _refusal(backend, "pytorch", command=[], args=None, pod_template=template)

    assert problem.field == "pod_template"
    assert what in problem.value


@pytest.mark.parametrize(
    ("backend", "framework", "variable"),
    [
        ("native", "tensorflow", "TF_CONFIG"),
        ("training-operator", "tensorflow", "TF_CONFIG"),
        ("native", "xgboost", "WORKER_ADDRS"),
        ("trainer", "xgboost", "WORKER_ADDRS"),
        ("training-operator", "xgboost", "WORKER_ADDRS"),
    ],
)
def test_a_list_of_replicas_that_fits_into_no_variable(backend: str, framework: str, variable: str) -> None:
    problem = _refusal(backend, framework, num_nodes=5000, replicas={})

    assert (problem.field, problem.value) == ("num_nodes", 5000)
    assert variable in problem.allowed
    assert "131071 bytes" in problem.allowed


def test_a_list_of_hosts_that_fits_into_no_config_map() -> None:
    identity = Identity(dag_id="a" * 40, run_id="r", task_id="t")
    job = job_of("mpi", num_nodes=9_999, num_proc_per_node=1000, name="a" * 32)

    with pytest.raises(SpecError, match=r"ConfigMap .* has at most 1048576 bytes"):
        ClusterBackend("native", None, "team").render(job, identity)


@pytest.mark.parametrize(
    ("framework", "fields", "jobs"),
    [
        ("paddle", {"num_nodes": 2000}, 2000),
        ("jax", {"num_nodes": 2000, "replicas": {"worker": {"overrides": [{"index": 0, "args": []}]}}}, 2000),
    ],
)
def test_more_jobs_than_a_task_may_create(framework: str, fields: dict[str, Any], jobs: int) -> None:
    problem = _refusal("native", framework, **fields)

    assert (problem.field, problem.value) == ("num_nodes", 2000)
    assert f"these need {jobs}" in problem.allowed


def test_jobs_that_repeat_too_much() -> None:
    problem = _refusal("native", "paddle", num_nodes=200, env={"A": LONG})

    assert problem.field == "env"
    assert "200 Jobs that repeat it" in problem.allowed


def test_settings_of_single_replicas_are_not_repeated() -> None:
    overrides = [{"index": at, "env": {"A": LONG[:20_000]}} for at in range(100)]
    job = job_of("jax", num_nodes=100, replicas={"worker": {"overrides": overrides}})

    ClusterBackend("native", None, "team").check(job)


def _manifest(container: dict[str, Any], **fields: Any) -> Any:
    spec = {"template": {"spec": {"containers": [{"name": "main", **container}]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "mine"}, "spec": spec, **fields}


@pytest.mark.parametrize(
    ("manifest", "what"),
    [
        (_manifest({"env": [{"name": "A", "value": LONG * 2}]}), "variable A of 200002 bytes in Job mine-"),
        (_manifest({"command": [LONG * 2]}), "an argument of 200000 bytes in Job mine-"),
        (
            _manifest({"env": [{"name": each, "value": LONG} for each in MANY]}),
            "bytes; manifest has",
        ),
    ],
    ids=["variable", "argument", "object"],
)
def test_a_manifest_that_is_too_large(manifest: Any, what: str) -> None:
    job = plan_manifest(parse_manifest_spec({"manifest": manifest}))

    with pytest.raises(SpecError) as caught:
        ClusterBackend("native", None, "team").check(job)

    (problem,) = caught.value.problems
    assert problem.field == "manifest"
    assert what in problem.value


@pytest.mark.parametrize("backend", ["native", "trainer", "training-operator"])
def test_ten_thousand_nodes_are_checked_and_rendered_in_no_time(backend: str) -> None:
    job = job_of("pytorch", num_nodes=10_000)
    began = time.process_time()
    ClusterBackend(backend, None, "team").check(job)
    ClusterBackend(backend, None, "team").render(job, IDENTITY)

    assert time.process_time() - began < 2
