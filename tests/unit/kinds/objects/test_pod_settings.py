"""Settings of pods, as Kubernetes writes them, beside what a pod template says; and what a backend refuses of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.kinds.base import Facts
from airflow_trainer_provider.kinds.registry import kind_for
from tests.unit.kinds.objects.test_pod import CARRIED, pods_of
from tests.unit.kinds.specs import job_of, meta

OURS = "airflow-trainer-provider/job"


def problem_of(backend: str, framework: str, **fields: Any) -> Problem:
    with pytest.raises(SpecError) as refused:
        ClusterBackend(backend, None, "default").check(job_of(framework, **fields))
    (problem,) = refused.value.problems
    return problem


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_labels_and_annotations_are_on_the_main_object_and_the_pods(backend, framework):
    pod = {"labels": {"team": "vision"}, "annotations": {"note": "x y"}}
    job = job_of(framework, pod=pod)

    main = kind_for(backend, job).renderer.render(job, meta(job), Facts()).main["metadata"]
    for metadata in (main, *(pod["metadata"] for pod in pods_of(backend, job))):
        assert metadata["labels"]["team"] == "vision"
        assert OURS in metadata["labels"]
        assert metadata["annotations"]["note"] == "x y"


def test_those_of_a_role_are_on_its_pods():
    job = job_of("pytorch", pod={"labels": {"a": "1"}}, replicas={"master": {"pod": {"labels": {"a": "2", "b": "3"}}}})

    main = kind_for("training-operator", job).renderer.render(job, meta(job), Facts()).main["metadata"]
    found = [pod["metadata"]["labels"] for pod in pods_of("training-operator", job)]
    assert (main["labels"]["a"], main["labels"].get("b")) == ("1", None)
    assert [(each["a"], each.get("b")) for each in found] == [("2", "3"), ("1", None)]


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("name", [OURS, "app.kubernetes.io/managed-by"])
@pytest.mark.parametrize("prefix", ["", "replicas.worker."])
def test_those_of_this_provider_are_refused(field, name, prefix):
    pod = {"pod": {field: {name: "mine"}}}
    problem = problem_of("native", "pytorch", **({"replicas": {"worker": pod}} if prefix else pod))

    assert (problem.field, problem.value, problem.allowed) == (f"{prefix}pod.{field}", name, f"{field} of your own")


def test_the_label_of_a_queue_is_a_field():
    problem = problem_of("trainer", "jax", pod={"labels": {"kueue.x-k8s.io/queue-name": "team"}})

    assert problem.fix == "Drop it, and set scheduling.queue_name instead."


def test_the_fields_win_over_the_pod_template():
    template = {
        "metadata": {"labels": {"team": "a", "x": "y"}, "annotations": {"n": "1"}},
        "spec": {
            "serviceAccount": "other",
            "securityContext": {"runAsUser": 1, "runAsNonRoot": True},
            "imagePullSecrets": [{"name": "theirs"}, {"name": "ours"}],
            "containers": [
                {
                    "name": "train",
                    "imagePullPolicy": "Never",
                    "securityContext": {"runAsUser": 1000, "privileged": True},
                    "envFrom": [{"secretRef": {"name": "theirs"}}],
                }
            ],
        },
    }
    pod = {
        "service_account": "data",
        "security": {"run_as_user": 5000, "fs_group": 7},
        "image_pull": {"policy": "Always", "secrets": ["ours"]},
        "labels": {"team": "b"},
        "env_from": [{"config_map": "proxy", "prefix": "P_"}],
    }

    (found,) = pods_of("training-operator", job_of("jax", pod=pod, pod_template=template))

    spec, train = found["spec"], found["spec"]["containers"][0]
    assert (found["metadata"]["labels"]["team"], found["metadata"]["labels"]["x"]) == ("b", "y")
    assert found["metadata"]["annotations"] == {"n": "1"}
    assert (spec["serviceAccountName"], spec.get("serviceAccount")) == ("data", None)
    assert spec["securityContext"] == {"runAsUser": 5000, "runAsNonRoot": True, "fsGroup": 7}
    assert train["securityContext"] == {"runAsUser": 5000, "privileged": True}
    assert spec["imagePullSecrets"] == [{"name": "theirs"}, {"name": "ours"}]
    assert train["imagePullPolicy"] == "Always"
    assert train["envFrom"] == [
        {"secretRef": {"name": "theirs"}},
        {"prefix": "P_", "configMapRef": {"name": "proxy"}},
    ]


@pytest.mark.parametrize("backend", ["trainer", "native"])
def test_an_mpi_job_runs_as_the_user_everywhere(backend):
    pods = pods_of(backend, job_of("mpi", pod={"security": {"run_as_user": 5000}, "image_pull": {"policy": "Always"}}))

    assert {pod["spec"]["securityContext"]["runAsUser"] for pod in pods} == {5000}
    for pod in pods:
        containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
        assert {each.get("imagePullPolicy") for each in containers} == {"Always"}


@pytest.mark.parametrize("backend", ["trainer", "training-operator", "mpi-operator", "native"])
def test_pods_get_a_token_of_the_account_that_is_named(backend):
    framework = "mpi" if backend == "mpi-operator" else "pytorch"
    for pod in pods_of(backend, job_of(framework, pod={"service_account": "data"})):
        assert pod["spec"]["serviceAccountName"] == "data"
        assert "automountServiceAccountToken" not in pod["spec"]


@pytest.mark.parametrize("role", [None, "launcher", "worker"])
def test_the_mpi_operators_ssh_is_roots(role):
    pod = {"pod": {"security": {"run_as_user": 5000}}}
    problem = problem_of("mpi-operator", "mpi", **({"replicas": {role: pod}} if role else pod))

    place = f"replicas.{role}." if role else ""
    assert (problem.field, problem.value) == (f"{place}pod.security.run_as_user", 5000)
    assert "use backend 'native' or 'trainer'" in problem.fix


def test_root_is_no_other_user():
    ClusterBackend("mpi-operator", None, "n").check(job_of("mpi", pod={"security": {"run_as_user": 0}}))


def template_with(**container: Any) -> dict[str, Any]:
    """A pod template with fields of the training's container."""
    return {"spec": {"containers": [{"name": "train", **container}]}}


OF_TEMPLATE = "pod_template.spec.containers[name=train]"
SSH = pytest.mark.parametrize(
    ("backend", "fields"), [("mpi-operator", {}), ("trainer", {"runtime_ref": "TrainingRuntime/mine"})]
)


@SSH
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"pod": {"env_from": [{"secret": "hub"}]}}, "pod.env_from"),
        ({"pod_template": template_with(envFrom=[{"secretRef": {"name": "hub"}}])}, f"{OF_TEMPLATE}.envFrom"),
    ],
    ids=["pod", "template"],
)
def test_mpirun_cannot_hand_on_variables_whose_names_are_unknown(backend, fields, given, field):
    problem = problem_of(backend, "mpi", **given, **fields)

    assert (problem.field, problem.value) == (field, "a value")
    assert "Name them in env" in problem.fix
    # A command that begins with mpirun is the user's own.
    own = job_of("mpi", command=["mpirun", "true"], args=[], **given, **fields)
    ClusterBackend(backend, None, "n").check(own)


def variable_of(**source: Any) -> dict[str, Any]:
    return template_with(env=[{"name": "IP", "valueFrom": source}])


@SSH
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"env": {"IP": {"field": "status.podIP"}}}, "env.IP"),
        ({"pod_template": variable_of(fieldRef={"fieldPath": "status.podIP"})}, f"{OF_TEMPLATE}.env.IP"),
        ({"pod_template": variable_of(resourceFieldRef={"resource": "limits.cpu"})}, f"{OF_TEMPLATE}.env.IP"),
    ],
    ids=["env", "fieldRef", "resourceFieldRef"],
)
def test_the_ranks_would_have_the_fields_of_the_launchers_pod(backend, fields, given, field):
    problem = problem_of(backend, "mpi", **given, **fields)

    assert (problem.field, problem.value) == (field, "dict")
    assert "'training-operator'" in problem.fix


def test_mpirun_does_not_hand_on_the_fields_of_the_launchers_pod():
    env = {"IP": {"field": "status.podIP"}, "TOKEN": {"secret": {"name": "hub", "key": "token"}}}
    theirs = [
        {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "key"}}},
    ]
    pods = pods_of("training-operator", job_of("mpi", env=env, pod_template=template_with(env=theirs)))
    commands = [pod["spec"]["containers"][0]["command"] for pod in pods]
    words = next(command for command in commands if "-x" in command)
    forwarded = {word for flag, word in pairwise(words) if flag == "-x"}

    assert forwarded & {"IP", "HOST_IP", "TOKEN", "KEY"} == {"TOKEN", "KEY"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"pod": {"security": {"run_as_user": 5000}}}, "pod.security.run_as_user"),
        (
            {"pod_template": template_with(securityContext={"runAsUser": 5000})},
            f"{OF_TEMPLATE}.securityContext.runAsUser",
        ),
        (
            {"pod_template": {"spec": {"securityContext": {"runAsUser": 5000}}}},
            "pod_template.spec.securityContext.runAsUser",
        ),
    ],
    ids=["pod", "container", "template"],
)
def test_trainers_own_ssh_has_the_user_of_the_runtime(given, field):
    problem = problem_of("trainer", "mpi", runtime_ref="TrainingRuntime/mine", **given)

    assert (problem.field, problem.value) == (field, 5000)
    assert "drop runtime_ref" in problem.fix


@pytest.mark.parametrize("place", ["pod", "replicas.launcher.pod"])
def test_the_launcher_of_an_mpijob_v1_has_an_account_of_the_operators(place):
    pod = {"pod": {"service_account": "data"}}
    problem = problem_of("training-operator", "mpi", **(pod if place == "pod" else {"replicas": {"launcher": pod}}))

    assert (problem.field, problem.value) == (f"{place}.service_account", "data")
    worker = job_of("mpi", replicas={"worker": pod})
    accounts = {pod["spec"].get("serviceAccountName") for pod in pods_of("training-operator", worker)}
    assert accounts == {None, "data"}


def test_root_is_not_the_user_of_a_runtime():
    pod = {"security": {"run_as_user": 0}}
    problem = problem_of("trainer", "mpi", runtime_ref="TrainingRuntime/mine", pod=pod)

    assert (problem.field, problem.value) == ("pod.security.run_as_user", 0)
