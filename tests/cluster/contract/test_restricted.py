"""Each framework in a strict namespace: Pod Security ``restricted``, a quota that demands limits, a LimitRange with
defaults, and a policy that adds a sidecar to each pod.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.frameworks import get_framework, plan_job
from airflow_trainer_provider.job.diagnosis.diagnosis import diagnose
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.spec import parse_spec
from tests.cluster.node import wait_for
from tests.cluster.paths import HERE

_TINY = "trainer.test/tiny:test"
#: What Pod Security asks of each container, as docs/how-to/kubernetes.md gives it.
_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_POD = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
_OBJECTS = [
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "asks"},
        "spec": {"hard": {"limits.cpu": "40", "limits.memory": "40Gi", "requests.cpu": "4", "requests.memory": "20Gi"}},
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
        f'image: "{_TINY}", imagePullPolicy: "Never", command: ["sleep", "90"], '
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
    counted = "--for=jsonpath={.status.hard.limits\\.cpu}=40"
    cluster.kubectl("wait", counted, "quota/asks", where, "--timeout=170s")
    cluster.kubectl("create", "configmap", "scripts", where, f"--from-file={HERE / 'smoke' / 'scripts'}")
    run = f"run probe --image={_TINY} {where} --dry-run=server --output=json".split()
    wait_for(lambda: len(json.loads(cluster.kubectl(*run))["spec"]["containers"]) == 2, "the policy", seconds=60)
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    yield
    cluster.kubectl("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", name)


def _job(framework: str) -> Any:
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
                "resources_per_node": {"cpu": {"requests": "50m", "limits": "2"}, "memory": "2Gi"},
                "pod_template": {"spec": {"securityContext": _POD, "volumes": volumes, "containers": [train]}},
                "run_policy": {"grace_period_seconds": 1},
            }
        )
    )


#: Init containers that the operator adds without a security context: backend and framework -> its name.
_OPERATORS = {("training-operator", "pytorch"): "init-pytorch", ("training-operator", "mpi"): "kubectl-delivery"}
_FRAMEWORKS = sorted({name for kinds in BACKENDS.values() for kind in kinds for name in kind.frameworks})


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("framework", _FRAMEWORKS)
async def test_a_strict_namespace(contract, framework):
    """It trains, or is refused with the reason and the way out."""
    backend = contract.backend
    if framework not in {name for kind in BACKENDS[backend.name] for name in kind.frameworks}:
        pytest.skip(f"{backend.name} does not carry {framework}")
    if backend.name == "mpi-operator":
        with pytest.raises(UnsupportedField, match="ssh_mount_path"):
            backend.check(_job(framework))
        return
    job = _job(framework)
    backend.check(job)

    handle = await contract.submit(job)
    status = await contract.end(handle)

    init_container = _OPERATORS.get((backend.name, framework))
    if init_container is None:
        assert status.phase is JobPhase.SUCCEEDED, contract.lines
        assert json.loads(await backend.result(handle))["world"] == 2
        return
    diagnosis = diagnose(handle.name, get_framework(framework), status, [])
    assert f'container "{init_container}" must set' in diagnosis.message
    assert "use another backend" in (diagnosis.way_out or "")
    assert diagnosis.retry_can_help == "no"
    assert contract.case.processes(handle) == 0
