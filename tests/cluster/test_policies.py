"""What the provider refuses by its policies, a real API server refuses by the exported ones, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import PolicyViolation, SpecError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.policies.check import check_policies
from airflow_trainer_provider.policies.export.admission import export
from airflow_trainer_provider.policies.library import PolicyFile
from airflow_trainer_provider.policies.targets import TARGETS, TOOL_TARGETS
from airflow_trainer_provider.spec import parse_spec
from tests.cluster.access import Access
from tests.cluster.node import wait_for
from tests.cluster.shell import CommandFailed
from tests.unit.policies.jobs import policy

#: Profile -> the backends and frameworks whose objects it knows.
LAYOUTS = {
    "kubeflow": [
        ("trainer", "pytorch"),
        ("trainer", "mpi"),
        ("training-operator", "pytorch"),
        ("training-operator", "tensorflow"),
        ("training-operator", "xgboost"),
        ("training-operator", "paddle"),
        ("training-operator", "jax"),
        ("training-operator", "mpi"),
        ("native", "jax"),
        ("native", "mpi"),
    ],
    "mpi": [("mpi-operator", "mpi")],
}
RULES = [
    {"field": "image", "required": True, "pattern": r"registry\.example/.*"},
    {"field": "env.MODE", "locked": "offline"},
    {"field": "env.DEBUG", "forbidden": True},
    {"field": "resources_per_node.gpu", "max": 8},
    {"field": "resources_per_node.memory", "required": True, "min": "64Mi", "max": "64Gi", "step": "32Mi"},
    {"field": "resources_per_node.cpu", "allowed": [1, "500m", 4, "0.6"], "step": "250m"},
    {"field": "num_nodes", "max": 4},
    {"field": "run_policy.active_deadline_seconds", "required": True, "max": 86400},
    {"field": "run_policy.backoff_limit", "max": 3},
    {"field": "run_policy.grace_period_seconds", "min": 5, "max": 60, "step": 5},
    {"field": "scheduling.node_selector['example.com/pool']", "allowed": ["train", "spare"]},
    {"field": "scheduling.priority_class", "pattern": "batch-.*"},
    {"field": "pod.security.run_as_user", "min": 1000},
    {"field": "volumes.*.host_path", "pattern": "/data/.*"},
    {"field": "pod_template.spec.hostNetwork", "forbidden": True},
    {"field": "tools.*.access", "allowed": ["cluster", "ingress"]},
    {"field": "tools.*.host", "pattern": r".*\.example\.com"},
    {"field": "tools.lab", "forbidden": True},
    {"field": "tools.*.port", "min": 1024},
]


def tool(host: str) -> dict[str, Any]:
    return {"port": 6006, "access": "ingress", "host": host}


def with_containers(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"pod_template": {"spec": {"containers": [*containers]}}}


GOOD: dict[str, Any] = {
    "image": "registry.example/train:1",
    "command": ["python", "t.py"],
    "env": {"MODE": "offline"},
    "resources_per_node": {"cpu": "500m", "memory": "1Gi", "gpu": 2},
    "num_nodes": 2,
    "run_policy": {"active_deadline_seconds": 60.5, "grace_period_seconds": 30},
}
ALLOWED: dict[str, dict[str, Any]] = {
    "as it is": {},
    "restarts": {"run_policy": {"backoff_limit": 3}},
    "bounds of memory": {"resources_per_node": {"memory": {"requests": "64Mi", "limits": "64Gi"}}},
    "the largest size": {"num_nodes": 4, "resources_per_node": {"cpu": 4, "gpu": 8}},
    "a pool": {"scheduling": {"node_selector": {"example.com/pool": "spare", "disk": "ssd"}}},
    "a priority": {"scheduling": {"priority_class": "batch-low"}},
    "the longest times": {"run_policy": {"active_deadline_seconds": 86400, "grace_period_seconds": 60}},
    "a host path": {"volumes": [{"mount_path": "/d", "host_path": "/data/sets"}]},
    "a sidecar": with_containers({"name": "train"}, {"name": "logs", "image": "registry.example/logs"}),
    "memory on a step": {"resources_per_node": {"memory": "96Mi"}},
    "tools": {"tools": {"web": {"port": 6006}, "board": tool("{job}.example.com")}},
    "other variables": {"env": {"LR": "0.1", "TOKEN": {"secret": {"name": "s", "key": "k"}}}},
}
REFUSED: dict[str, dict[str, Any]] = {
    "another registry": {"image": "evil/x:1"},
    "a role's image": {"replicas": {"worker": {"image": "evil/x:1"}}},
    "a sidecar's image": with_containers({"name": "train"}, {"name": "logs", "image": "evil/logs"}),
    "an init container's image": {"pod_template": {"spec": {"initContainers": [{"name": "i", "image": "evil/i"}]}}},
    "another value": {"env": {"MODE": "online"}},
    "no locked value": {"replicas": {"worker": {"overrides": [{"index": 0, "env": {}}]}}},
    "a value from elsewhere": {"env": {"MODE": {"field": "metadata.name"}}},
    "a forbidden variable": {"env": {"DEBUG": "1"}},
    "too many GPUs": {"resources_per_node": {"gpu": 16}},
    "too much memory": {"resources_per_node": {"memory": "65Gi"}},
    "too little memory": {"resources_per_node": {"memory": "63Mi"}},
    "no memory": {"resources_per_node": {"memory": None}},
    "another size": {"resources_per_node": {"cpu": 2}},
    "too many nodes": {"num_nodes": 5},
    "too long": {"run_policy": {"active_deadline_seconds": 86401}},
    "without end": {"run_policy": {"active_deadline_seconds": None}},
    "too many restarts": {"run_policy": {"backoff_limit": 4}},
    "too long a grace period": {"run_policy": {"grace_period_seconds": 61}},
    "too short a grace period": {"run_policy": {"grace_period_seconds": 4}},
    "another pool": {"scheduling": {"node_selector": {"example.com/pool": "serving"}}},
    "another priority": {"scheduling": {"priority_class": "serving"}},
    "root": {"pod": {"security": {"run_as_user": 0}}},
    "a folder of the node": {"volumes": [{"mount_path": "/d", "host_path": "/etc"}]},
    "memory between the steps": {"resources_per_node": {"memory": "80Mi"}},
    "CPUs between the steps": {"resources_per_node": {"cpu": "600m"}},
    "seconds between the steps": {"run_policy": {"grace_period_seconds": 32}},
    "a port of the nodes": {"tools": {"web": {"port": 6006, "access": "node_port"}}},
    "another host": {"tools": {"web": tool("{job}.example.org")}},
    "a tool of that name": {"tools": {"lab": {"port": 8888}}},
    "a port of the system": {"tools": {"web": {"port": 80}}},
    "the node's network": {"pod_template": {"spec": {"hostNetwork": True}}},
}
#: Seconds until the policies are in effect, one after the other.
IN_EFFECT = 90
KINDS = {(target.resource.api_version, target.resource.kind) for target in (*TARGETS, *TOOL_TARGETS)}


@pytest.fixture
def exported(cluster: Access, namespace: str) -> Iterator[PolicyFile]:
    """The policy; the API server enforces it in the namespace."""
    found = policy(*({"reason": f"Rule {at}.", **rule} for at, rule in enumerate(RULES)), name=namespace)
    objects = export([found], namespace).objects
    cluster.kubectl.apply(objects)
    wait_for(lambda: bool(verdict(cluster, namespace, [PROBE])), "the effect of the policies", seconds=IN_EFFECT)
    yield found
    for item in objects:
        cluster.kubectl("delete", item["kind"], item["metadata"]["name"], "--wait=false")


PROBE = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "probe", "labels": {"airflow-trainer-provider/job": "probe"}},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "evil/x"}]}}},
}


def merged(fields: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(fields)
    for name, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else value
    return {name: value for name, value in result.items() if value is not None}


def verdict(cluster: Access, namespace: str, documents: list[dict[str, Any]]) -> str:
    """What the API server's policies say of objects; empty where they allow all of them."""
    for document in documents:
        try:
            where = (f"--namespace={namespace}", "--dry-run=server", "-f", "-")
            cluster.kubectl("create", *where, stdin=yaml.safe_dump(document))
        except CommandFailed as error:
            if "ValidatingAdmissionPolicy" in str(error):
                return str(error)
            # The runtime of a TrainJob is not there on a dry run; the policies come before the webhooks.
            if document["kind"] != "TrainJob":
                raise
    return ""


def objects_of(backend: str, job: Any, namespace: str) -> list[dict[str, Any]]:
    renderer = ClusterBackend(backend, None, namespace)
    renderer.check(job)
    identity = Identity(dag_id="d", run_id="r", task_id="t")
    documents = yaml.safe_load_all(renderer.render(job, identity))
    return [each for each in documents if (each["apiVersion"], each["kind"]) in KINDS]


CASES = [
    pytest.param(*layout, id=f"{'-'.join(layout)}", marks=pytest.mark.profile(profile))
    for profile, layouts in LAYOUTS.items()
    for layout in layouts
]


@pytest.mark.parametrize(("backend", "framework"), CASES)
def test_both_refuse_and_allow_the_same(backend, framework, cluster, namespace, exported):
    compared, end = {"allowed": 0, "refused": 0}, time.monotonic() + IN_EFFECT
    # What is refused comes first: then the policies are in effect.
    for verdicts, cases in (("refused", REFUSED), ("allowed", ALLOWED)):
        for name, fields in cases.items():
            try:
                job = plan_job(parse_spec(merged(GOOD, {**fields, "framework": framework})))
                documents = objects_of(backend, job, namespace)
            except SpecError:
                # The backend cannot express it.
                continue
            ours = ""
            try:
                check_policies([exported], job)
            except PolicyViolation as error:
                ours = str(error)
            theirs = verdict(cluster, namespace, documents)
            while ours and not theirs and time.monotonic() < end:
                time.sleep(0.5)
                theirs = verdict(cluster, namespace, documents)
            assert (bool(ours), bool(theirs)) == (verdicts == "refused",) * 2, f"{name}\n{ours}\n{theirs}"
            # Both name the reason of the same rule.
            reasons = [f"Reason: Rule {at}." for at in range(len(RULES))]
            assert not theirs or any(reason in ours and reason in theirs for reason in reasons), (
                f"{name}\n{ours}\n{theirs}"
            )
            compared[verdicts] += 1
    assert compared["allowed"] >= 9
    assert compared["refused"] >= 20


@pytest.mark.profile("kubeflow")
def test_what_was_there_before_a_policy_can_still_be_annotated_and_deleted(cluster, namespace, request):
    job = plan_job(parse_spec(merged(GOOD, {"framework": "jax", "image": "evil/x"})))
    (document,) = objects_of("training-operator", job, namespace)
    document["spec"]["runPolicy"]["suspend"] = True
    name = document["metadata"]["name"]
    cluster.kubectl("create", f"--namespace={namespace}", "-f", "-", stdin=yaml.safe_dump(document))
    request.getfixturevalue("exported")

    where = ("jaxjob", name, f"--namespace={namespace}")
    patch = ("patch", *where, "--type=merge", "-p", '{"spec":{"runPolicy":{"suspend":false}}}')
    allowed = partial(cluster.kubectl.ok, *patch, "--dry-run=server")
    wait_for(lambda: not allowed(), "the effect of the policy for its kind", seconds=IN_EFFECT)
    cluster.kubectl("annotate", *where, "note=x")
    with pytest.raises(CommandFailed, match="denied request"):
        cluster.kubectl(*patch)
    cluster.kubectl("delete", *where, "--wait=false")
