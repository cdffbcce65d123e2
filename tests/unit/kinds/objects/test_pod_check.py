"""What no pod template may say, and what becomes of what it may."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.registry import BACKENDS
from tests.unit.kinds.specs import job_of

#: Backend -> a framework that it runs.
FRAMEWORKS = {"trainer": "pytorch", "training-operator": "pytorch", "mpi-operator": "mpi", "native": "pytorch"}
SIDECAR = {"name": "logs", "image": "logs:1"}


def _problem(backend: str, **fields: Any) -> Problem:
    job = job_of(FRAMEWORKS[backend], **fields)
    with pytest.raises(SpecError) as refused:
        ClusterBackend(backend, None, "default").check(job)
    (problem,) = refused.value.problems
    return problem


def _containers(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)}}


def _environment(backend: str, framework: str, **fields: Any) -> dict[str, Any]:
    """The variables of the training's container, of the first pod template that the backend renders."""
    job = job_of(framework, **fields)
    text = ClusterBackend(backend, None, "n").render(job, Identity(dag_id="d", run_id="r", task_id="t"))
    for document in yaml.safe_load_all(text):
        for container in _found(document):
            return {entry["name"]: entry for entry in container["env"]}
    raise AssertionError(text)


def _found(value: Any) -> Any:
    if isinstance(value, dict):
        yield from value.get("containers") or ()
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _found(each)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("field", "value", "instead"),
    [
        ("restartPolicy", "Always", "run_policy.backoff_limit"),
        ("terminationGracePeriodSeconds", 90, "run_policy.grace_period_seconds"),
    ],
)
def test_what_the_run_policy_says_is_refused(backend, field, value, instead):
    problem = _problem(backend, pod_template={"spec": {field: value}})

    assert (problem.field, problem.value) == (f"pod_template.spec.{field}", value)
    assert instead in problem.fix


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["airflow-trainer-provider/job", "app.kubernetes.io/managed-by"])
def test_labels_that_jobs_are_found_by_are_refused(backend, name):
    problem = _problem(backend, pod_template={"metadata": {"labels": {name: "mine"}}})

    assert (problem.field, problem.value) == ("pod_template.metadata.labels", name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("containers", "field", "value", "fix"),
    [
        ([{"name": "trian"}], "containers[0].name", "trian", "Rename it to 'train'."),
        ([{"name": "base", "env": []}], "containers[0].name", "base", "Rename it to 'train'."),
        ([{"name": "main", "image": "i"}], "containers[0].name", "main", 'add {"name": "train"} to the containers'),
        ([SIDECAR, {"name": "trainer", "image": "i"}], "containers[1].name", "trainer", "Rename it to 'train'."),
        ([{"name": "train"}, {"name": "logs"}], "containers[1].image", None, "write the settings of the training's"),
        ([{"name": "train"}, {"name": "train"}], "containers[1].name", "train", "Merge it with the other one"),
        (
            [{"name": "train", "terminationMessagePath": "/x"}],
            "containers[0].terminationMessagePath",
            "/x",
            "the result that rank 0 writes is read from there",
        ),
    ],
    ids=str,
)
def test_a_container_of_which_it_is_not_clear_what_it_is_for_is_refused(backend, containers, field, value, fix):
    problem = _problem(backend, pod_template=_containers(*containers))

    assert (problem.field, problem.value) == (f"pod_template.spec.{field}", value)
    assert fix in problem.fix


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "containers", [[], [{"name": "train"}], [SIDECAR, {"name": "train"}], [{"name": "train"}, SIDECAR]], ids=str
)
def test_sidecars_stand_beside_the_training(backend, containers):
    ClusterBackend(backend, None, "n").check(job_of(FRAMEWORKS[backend], pod_template=_containers(*containers)))


def test_a_runtimes_containers_may_be_changed_by_name():
    job = job_of("pytorch", image=None, runtime_ref="torch", pod_template=_containers({"name": "train"}, {"name": "x"}))

    ClusterBackend("trainer", None, "n").check(job)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["TRAINER_INDEX", "1ST", "A=B"])
def test_variables_of_the_template_have_the_names_that_env_may_have(backend, name):
    problem = _problem(backend, pod_template=_containers({"name": "train", "env": [{"name": name, "value": "x"}]}))

    assert problem.field == "pod_template.spec.containers[0].env[0].name"
    assert "names" in problem.allowed


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("training-operator", "RANK"),
        ("training-operator", "MASTER_PORT"),
        ("training-operator", "PET_NNODES"),
        ("mpi-operator", "OMPI_MCA_plm_rsh_args"),
    ],
)
def test_variables_of_the_template_that_an_operator_sets_are_refused(backend, name):
    template = _containers({"name": "train", "env": [{"name": "A", "value": "b"}, {"name": name, "value": "x"}]})
    problem = _problem(backend, pod_template=template)

    assert (problem.field, problem.value) == ("pod_template.spec.containers[name=train].env", name)
    assert "drop it" in problem.fix


def test_variables_of_the_template_that_trainer_sets_for_a_launcher_are_refused():
    template = _containers({"name": "train", "env": [{"name": "OMPI_MCA_plm_rsh_args", "value": "x"}]})

    with pytest.raises(SpecError, match="OMPI_MCA_plm_rsh_args"):
        ClusterBackend("trainer", None, "n").check(job_of("mpi", runtime_ref="mpi", pod_template=template))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_image_may_stand_in_the_pod_template(backend):
    template = _containers({"name": "train", "image": "train:1"})

    ClusterBackend(backend, None, "n").check(job_of(FRAMEWORKS[backend], image=None, pod_template=template))
