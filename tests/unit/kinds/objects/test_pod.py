"""What of a pod template reaches the pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Facts, Manifest
from airflow_trainer_provider.kinds.objects.labels import GROUP
from airflow_trainer_provider.kinds.registry import BACKENDS, kind_for
from tests.unit.kinds.specs import SPECS, job_of, meta

#: All pairs that there are.
CARRIED = [
    (backend, framework)
    for backend, kinds in BACKENDS.items()
    for framework in SPECS
    if any(framework in kind.frameworks for kind in kinds)
]


def templates_of(value: Any) -> Iterator[Manifest]:
    """Every pod template in a manifest."""
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}):
            yield value
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from templates_of(each)


def pods_of(backend: str, job: JobPlan) -> list[Manifest]:
    """The templates of all pods that a backend makes of a job."""
    ClusterBackend(backend, None, "default").check(job)
    rendered = kind_for(backend, job).renderer.render(job, meta(job, "train"), Facts())
    return list(templates_of([*rendered.before, rendered.main, *rendered.after]))


def variables_of(pod: Manifest) -> dict[str, Any]:
    """The variables of the training, in their order."""
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in pod["spec"]["containers"][0]["env"]}


def with_variables(*entries: Manifest) -> Manifest:
    return {"spec": {"containers": [{"name": "train", "env": list(entries)}]}}


TOKEN = {"secretKeyRef": {"name": "hub", "key": "token"}}


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_variables_may_refer_to_those_of_a_pod_template_and_back(backend, framework):
    template = with_variables({"name": "USER_URL", "value": "$(URL)/$(STAGE)"}, {"name": "TOKEN", "valueFrom": TOKEN})
    job = job_of(framework, env={"URL": "https://$(TOKEN)", "STAGE": "$(TRAINER_JOB_NAME)"}, pod_template=template)

    for pod in pods_of(backend, job):
        names = list(variables_of(pod))
        order = [names.index(name) for name in ("TOKEN", "URL", "USER_URL")]
        assert order == sorted(order)
        assert names.index("TRAINER_JOB_NAME") < names.index("STAGE") < names.index("USER_URL")
        assert variables_of(pod)["TOKEN"] == TOKEN


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_variables_may_refer_to_those_that_come_from_the_cluster(backend, framework):
    template = with_variables({"name": "USER_URL", "value": "$(URL)/$(NODE)"})
    env = {
        "URL": "https://$(TOKEN)@$(PROXY)",
        "TOKEN": {"secret": {"name": "hub", "key": "token"}},
        "PROXY": {"config_map": {"name": "proxy", "key": "http"}},
        "NODE": {"field": "spec.nodeName"},
    }
    if backend == "mpi-operator":
        # There the ranks would have the launcher's.
        env["NODE"] = {"secret": {"name": "hub", "key": "node"}}

    for pod in pods_of(backend, job_of(framework, env=env, pod_template=template)):
        variables, names = variables_of(pod), list(variables_of(pod))
        assert variables["TOKEN"] == TOKEN
        assert backend == "mpi-operator" or variables["NODE"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
        assert variables["PROXY"] == {"configMapKeyRef": {"name": "proxy", "key": "http"}}
        assert max(names.index("TOKEN"), names.index("PROXY")) < names.index("URL") < names.index("USER_URL")
        assert names.index("NODE") < names.index("USER_URL")


@pytest.mark.parametrize(
    ("backend", "framework", "name"),
    [
        *((backend, framework, "PYTHONUNBUFFERED") for backend, framework in CARRIED),
        ("trainer", "pytorch", "MASTER_PORT"),
        ("native", "pytorch", "MASTER_PORT"),
        ("native", "mpi", "OMPI_ALLOW_RUN_AS_ROOT"),
        ("training-operator", "jax", "JAX_PROCESS_ID"),
    ],
)
def test_the_variables_of_a_pod_template_replace_those_that_are_provided(backend, framework, name):
    job = job_of(framework, pod_template=with_variables({"name": name, "value": "7"}))

    for pod in pods_of(backend, job):
        assert [each["name"] for each in pod["spec"]["containers"][0]["env"]].count(name) == 1
        assert variables_of(pod)[name] == "7"
    both = job_of(framework, env={name: "8"}, pod_template=with_variables({"name": name, "value": "7"}))
    assert {variables_of(pod)[name] for pod in pods_of(backend, both)} == {"8"}


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_pods_have_the_whole_grace_period(backend: str, framework: str) -> None:
    job = job_of(framework, run_policy={"grace_period_seconds": 1.5})

    found = {template["spec"]["terminationGracePeriodSeconds"] for template in pods_of(backend, job)}

    assert found == {2}


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_pods_get_no_token_of_an_account(backend, framework):
    pods = pods_of(backend, job_of(framework))

    tokens = {pod["metadata"]["labels"].get(GROUP): pod["spec"].get("automountServiceAccountToken") for pod in pods}
    # The launcher of an MPIJob v1 reaches the workers by kubectl.
    by_kubectl = {"launcher": None} if (backend, framework) == ("training-operator", "mpi") else {}
    assert tokens == {**dict.fromkeys(tokens, False), **by_kubectl}


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
@pytest.mark.parametrize("given", [{"serviceAccountName": "data"}, {"automountServiceAccountToken": True}])
def test_pods_get_the_token_that_a_pod_template_means_them_to_have(backend, framework, given):
    for pod in pods_of(backend, job_of(framework, pod_template={"spec": given})):
        assert {name: pod["spec"].get(name) for name in (*given, "automountServiceAccountToken")} == {
            "automountServiceAccountToken": None,
            **given,
        }
