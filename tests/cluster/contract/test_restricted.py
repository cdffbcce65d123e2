"""Each framework in a strict namespace: Pod Security ``restricted``, a quota that demands limits, a LimitRange with
defaults, and a policy that adds a sidecar to each pod.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from dataclasses import replace
from typing import Any

import pytest

from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.frameworks import get_framework, plan_job
from airflow_trainer_provider.job.diagnosis.diagnosis import diagnose
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.spec import parse_spec
from tests.cluster.node import wait_for
from tests.cluster.paths import HERE
from tests.contract.conftest import Contract

_TINY = "trainer.test/tiny:test"
#: How soon a user has to know that a job of which pods are refused does not train.
_REFUSED_SECONDS = 60
#: What Pod Security asks of each container, as docs/how-to/kubernetes.md gives it.
_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_POD = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
_OBJECTS = [
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "asks"},
        "spec": {"hard": {"limits.cpu": "80", "limits.memory": "80Gi", "requests.cpu": "4", "requests.memory": "20Gi"}},
    },
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults"},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "1", "memory": "1Gi"},
                    "defaultRequest": {"cpu": "10m", "memory": "16Mi"},
                }
            ]
        },
    },
]


@pytest.fixture
def strict(cluster, namespace):
    """The namespace, made strict."""
    name = f"strict-{uuid.uuid4().hex[:8]}"
    # While one of its containers has ended, headless Services do not give the pod's name: it outlasts the rendezvous.
    add = (
        '[JSONPatch{op: "add", path: "/spec/containers/0", value: Object.spec.containers{name: "mesh-proxy", '
        f'image: "{_TINY}", imagePullPolicy: "Never", command: ["sleep", "150"], '
        "securityContext: Object.spec.containers.securityContext{allowPrivilegeEscalation: false, runAsNonRoot: true, "
        'runAsUser: 1337, capabilities: Object.spec.containers.securityContext.capabilities{drop: ["ALL"]}, '
        'seccompProfile: Object.spec.containers.securityContext.seccompProfile{type: "RuntimeDefault"}}}}]'
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": add}}],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {"policyName": name, "matchResources": {"namespaceSelector": selector}}
    kinds = {"MutatingAdmissionPolicy": policy, "MutatingAdmissionPolicyBinding": binding}
    version = "admissionregistration.k8s.io/v1beta1"
    cluster.kubectl.apply(
        [
            {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
            for kind, spec in kinds.items()
        ]
    )
    where = f"--namespace={namespace}"
    cluster.kubectl.apply(_OBJECTS, where)
    counted = "--for=jsonpath={.status.hard.limits\\.cpu}=80"
    cluster.kubectl("wait", counted, "quota/asks", where, "--timeout=170s")
    cluster.kubectl("create", "configmap", "scripts", where, f"--from-file={HERE / 'job_manifests' / 'scripts'}")
    run = f"run probe --image={_TINY} {where} --dry-run=server --output=json".split()
    wait_for(lambda: len(json.loads(cluster.kubectl(*run))["spec"]["containers"]) == 2, "the policy", seconds=60)
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    yield
    cluster.kubectl("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", name)


def _job(framework: str) -> JobPlan:
    train = {
        "name": "train",
        "securityContext": _CONTAINER,
        "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}],
    }
    volumes = [{"name": "scripts", "configMap": {"name": "scripts"}}]
    return plan_job(
        parse_spec(
            {
                "framework": framework,
                "num_nodes": 2,
                "image": "trainer.test/worker:test",
                "command": ["python3", f"/scripts/{framework if framework != 'pytorch' else 'torch'}_training.py"],
                # Paddle's launcher writes to where it starts, which is not this user's.
                "env": {"EXPECTED_WORLD_SIZE": "2", "PADDLE_LOG_DIR": "/tmp/log"},
                "resources_per_node": {
                    "cpu": {"requests": "50m", "limits": "2"},
                    "memory": {"requests": "256Mi", "limits": "2Gi"},
                },
                "pod_template": {"spec": {"securityContext": _POD, "volumes": volumes, "containers": [train]}},
                "run_policy": {"grace_period_seconds": 1},
            }
        )
    )


#: Init containers that the operator adds without a security context: backend and framework -> its name.
_OPERATORS = {("training-operator", "pytorch"): "init-pytorch", ("training-operator", "mpi"): "kubectl-delivery"}


def _frameworks(backend: str) -> list[str]:
    return sorted({name for kind in BACKENDS[backend] for name in kind.frameworks})


@pytest.mark.usefixtures("strict")
async def test_each_framework_trains_or_is_refused_with_the_way_out(contract):
    backend = contract.backend
    jobs = {name: _job(name) for name in _frameworks(backend.name)}
    if backend.name == "mpi-operator":
        with pytest.raises(UnsupportedField, match="ssh_mount_path"):
            backend.check(jobs["mpi"])
        return
    # Most of the time each waits for its sidecar.
    ends = await asyncio.gather(*(_ended(contract, name, job) for name, job in jobs.items()))

    assert ends == [_expected(backend.name, name) for name in jobs], contract.lines


async def _ended(contract: Contract, framework: str, job: JobPlan) -> tuple[str, Any]:
    backend = contract.backend
    backend.check(job)
    handle = await replace(contract, task=framework).submit(job)
    begun = asyncio.get_running_loop().time()
    status = await contract.end(handle)
    took = asyncio.get_running_loop().time() - begun
    if status.phase is JobPhase.SUCCEEDED:
        return framework, json.loads(await backend.result(handle))["world"]
    diagnosis = diagnose(handle.name, get_framework(framework), status, [])
    assert "use another backend" in (diagnosis.way_out or ""), (framework, diagnosis)
    assert diagnosis.retry_can_help == "no"
    assert took < _REFUSED_SECONDS, (framework, contract.lines)
    assert contract.case.processes(handle) == 0
    found = re.search('container "([^"]+)" must set', diagnosis.message)
    return framework, found and found.group(1)


def _expected(backend: str, framework: str) -> tuple[str, Any]:
    return framework, _OPERATORS.get((backend, framework), 2)
