"""Containers beside the training's: those that an admission policy adds in front of it, as service meshes do, and those
of the user's own.
"""

from __future__ import annotations

import json
import uuid

import pytest

from airflow_trainer_provider.job.result import read_result
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.conftest import FOLDER
from tests.cluster.contract.jobs import verdict
from tests.cluster.node import wait_for

_TINY = "trainer.test/tiny:test"


@pytest.fixture
def proxy_first(cluster, namespace):
    """Each pod of the namespace gets a container before all others; it ends some seconds later."""
    name = f"proxy-{uuid.uuid4().hex[:8]}"
    add = (
        '[JSONPatch{op: "add", path: "/spec/containers/0", value: Object.spec.containers{name: "mesh-proxy", '
        f'image: "{_TINY}", imagePullPolicy: "Never", command: ["sh", "-c", "echo proxy is up; sleep 5"]}}}}]'
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    metadata, version = {"name": name}, "admissionregistration.k8s.io/v1beta1"
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": add}}],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {"policyName": name, "matchResources": {"namespaceSelector": selector}}
    cluster.kubectl.apply(
        [
            {"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": policy},
            {"apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding},
        ]
    )
    wait_for(lambda: _adds(cluster, namespace), "the container that the policy adds", seconds=60)
    yield
    cluster.kubectl("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", name)


def _adds(cluster, namespace):
    run = f"run probe --image={_TINY} --namespace={namespace} --dry-run=server --output=json".split()
    return len(json.loads(cluster.kubectl(*run))["spec"]["containers"]) == 2


_RESULT = 'open(os.environ["TRAINER_RESULT_PATH"], "w").write(\'{"loss": 1}\')'


@pytest.mark.usefixtures("proxy_first")
async def test_a_container_that_stands_first_is_not_the_training(contract):
    leader = contract.case.leader
    handle, status = await contract.run(contract.case.job(f'print("trained")\n{_RESULT}', nodes=1))

    assert status.phase is JobPhase.SUCCEEDED, status
    assert await contract.backend.result(handle) == b'{"loss": 1}'
    lines = [line for line in contract.lines if line.startswith("[")]
    assert {f"[{leader}] trained", f"[{leader}/mesh-proxy] proxy is up"} <= set(lines)
    assert await contract.backend.log_tail(handle, leader, 9) == ["trained"]


@pytest.mark.usefixtures("proxy_first")
async def test_a_failure_behind_a_container_that_stands_first_is_the_trainings(contract):
    diagnosis = await verdict(contract, contract.case.job('raise ValueError("labels are missing")', nodes=1))

    assert (diagnosis.reason, diagnosis.exit_code) == ("Error", 1)
    assert diagnosis.traceback[-1] == "ValueError: labels are missing"


@pytest.mark.usefixtures("proxy_first")
async def test_an_image_that_is_missing_behind_a_container_that_stands_first(contract):
    diagnosis = await verdict(contract, contract.case.job("pass", nodes=1, image="registry.invalid/none:1"))

    assert (diagnosis.kind, "registry.invalid/none:1" in diagnosis.message) == ("image", True)


async def test_a_result_that_is_too_long_for_a_pod_of_many_containers_says_so(contract):
    quick = {"image": _TINY, "imagePullPolicy": "Never", "command": ["true"]}
    inits = [{"name": f"init-{number}", **quick} for number in range(5)]
    script = 'pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps("x" * 3000))'

    handle, _ = await contract.run(contract.case.job(script, nodes=1, pod_spec={"initContainers": inits}))

    problem = read_result(await contract.backend.result(handle)).error
    assert "2047 bytes, which are the most that are kept in a pod of 6 containers" in problem


async def test_a_sidecar_that_fails_is_named(contract):
    # The MPI Operator starts a launcher only while the sidecars of all workers run.
    waits = f"until [ -e {FOLDER}/go ]; do sleep 0.1; done"
    sidecar = _sidecar(f"exec >&2; echo starting; {waits}; echo disk is full; exit 3")
    sidecar["volumeMounts"] = [{"name": "shared", "mountPath": FOLDER}]

    async def fail(_):
        await contract.until(lambda: contract.noted("trained"))
        contract.release("go")

    diagnosis = await verdict(contract, contract.case.job('note("trained", me)', nodes=1, sidecars=[sidecar]), fail)

    assert (diagnosis.reason, diagnosis.exit_code) == ("Sidecar:Error", 0)
    assert "sidecar shipper ended with exit code 3: disk is full" in diagnosis.message
    assert diagnosis.last_log_lines == ("starting", "disk is full")
    assert "Correct the container that the message names" in diagnosis.way_out


def _sidecar(script):
    shell = {"command": ["sh", "-c", script], "terminationMessagePolicy": "FallbackToLogsOnError"}
    return {"name": "shipper", "image": _TINY, "imagePullPolicy": "Never", **shell}


async def test_a_training_that_fails_after_it_has_written_its_result(contract):
    snippet = f'{_RESULT}\nprint("upload: the bucket is read-only", flush=True)\nos._exit(3)'

    diagnosis = await verdict(contract, contract.case.job(snippet, nodes=1))

    assert "ended with exit code 3, Error: upload: the bucket is read-only" in diagnosis.message
    assert not [line for line in contract.lines if "loss" in line]
