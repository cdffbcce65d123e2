"""What the cluster refuses of a job, and no wait cures: the job is ended, with the reason, and its other pods too."""

from __future__ import annotations

import asyncio
import functools
import json

import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.jobs import verdict
from tests.cluster.node import wait_for

_LIMIT = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small"},
    "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]},
}
#: Containers that ask for more have a request above their limit.
_DEFAULT = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "default"},
    "spec": {"limits": [{"type": "Container", "default": {"cpu": "10m"}}]},
}
_QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "asks"},
    "spec": {"hard": {"limits.cpu": "4"}},
}
_ROOT = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture
def forbid_worker_1(cluster, namespace):
    """Function that has the API server refuse the pods of the second replica only."""
    version, name = "admissionregistration.k8s.io/v1", f"only-one-{namespace}"
    indexes = ("batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index")
    second = " || ".join(f"object.metadata.?labels[?'{index}'].orValue('0') == '1'" for index in indexes)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"!({second})", "message": "one pod is enough"}],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    cluster.kubectl.apply(
        [
            {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": policy},
            {
                "apiVersion": version,
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": name},
                "spec": binding,
            },
        ]
    )
    probe = "run probe --image=none --labels=training.kubeflow.org/replica-index=1 --dry-run=server"
    is_allowed = functools.partial(cluster.kubectl.ok, *probe.split(), f"--namespace={namespace}")
    wait_for(lambda: not is_allowed(), "the refusal", seconds=60)
    yield
    cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)


@pytest.mark.parametrize(
    ("objects", "fields", "said"),
    [
        pytest.param([], {"pod": {"service_account": "missing"}}, 'serviceaccount "missing" not found', id="account"),
        pytest.param([], {"scheduling": {"priority_class": "none"}}, "no PriorityClass with name none", id="priority"),
        pytest.param(
            [_LIMIT], {"resources_per_node": {"memory": "2Gi"}}, "maximum memory usage per Container is 1Gi", id="range"
        ),
        pytest.param([_DEFAULT], {}, "must be less than or equal to cpu limit", id="invalid"),
        pytest.param([_QUOTA], {}, "must specify limits.cpu", id="limits"),
    ],
)
async def test_pods_that_a_rule_refuses_end_the_job(contract, cluster, namespace, objects, fields, said):
    if objects:
        cluster.kubectl.apply(objects, f"--namespace={namespace}")
    if _QUOTA in objects:
        counted = "--for=jsonpath={.status.hard.limits\\.cpu}=4"
        cluster.kubectl("wait", counted, "quota/asks", f"--namespace={namespace}", "--timeout=170s")

    diagnosis = await verdict(contract, contract.case.job("pass", nodes=1, **json.loads(json.dumps(fields))))

    assert said in diagnosis.message
    assert (diagnosis.retry_can_help, diagnosis.kind) == ("no", "rejected")


async def test_what_trainer_cannot_copy_ends_the_job(contract):
    # As YAML, each line is indented, and the copy is larger than what the API server takes.
    job = contract.case.job("pass", nodes=1, env={"LINES": "a\n" * 60_000})
    if contract.backend.name != "trainer":
        pytest.skip("a TrainJob's runtime is copied")

    diagnosis = await verdict(contract, job)

    assert "Too long" in diagnosis.message
    assert (diagnosis.retry_can_help, diagnosis.kind) == ("no", "rejected")


async def test_pod_security_refuses_pods(contract, cluster, namespace):
    labels = [f"{name}={value}" for name, value in _ROOT.items()]
    cluster.kubectl("label", "namespace", namespace, *labels)

    diagnosis = await verdict(contract, contract.case.job("pass", nodes=1))

    assert 'violates PodSecurity "restricted:latest"' in diagnosis.message
    assert diagnosis.retry_can_help == "no"


@pytest.mark.usefixtures("forbid_worker_1")
async def test_a_job_of_which_one_pod_is_refused_holds_no_other_for_ever(contract):
    diagnosis = await verdict(contract, contract.case.job("time.sleep(3600)", nodes=2))

    assert "one pod is enough" in diagnosis.message
    assert diagnosis.retry_can_help == "no"
    assert any("starting (FailedCreate" in line for line in contract.lines), contract.lines


async def test_a_config_map_that_is_missing_ends_the_job(contract):
    volume = {"mount_path": "/settings", "config_map": {"name": "none"}}

    diagnosis = await verdict(contract, contract.case.job("pass", nodes=1, volumes=[volume]))

    assert diagnosis.reason == "FailedMount"
    assert 'configmap "none" not found' in diagnosis.message
    # The workers of an MPI job mount it, too.
    assert diagnosis.replica in {contract.case.leader, "worker-0"}
    assert diagnosis.retry_can_help == "no"


async def test_the_deadline_ends_a_job_whose_pods_wait_for_room(contract):
    resources = {"cpu": {"requests": "9999"}}
    policy = {"active_deadline_seconds": 10}

    diagnosis = await verdict(
        contract, contract.case.job("pass", nodes=1, resources_per_node=resources, run_policy=policy)
    )

    assert (diagnosis.reason, diagnosis.kind) == ("DeadlineExceeded", "deadline")


async def test_init_containers_that_fail_are_bound_by_the_startup_timeout(contract):
    script = "echo no data; exit 2"
    image = {"image": "trainer.test/tiny:test", "imagePullPolicy": "Never"}
    init = {"name": "prepare", **image, "command": ["sh", "-c", script]}
    job = contract.case.job("pass", nodes=1, pod_spec={"initContainers": [init]}, run_policy={"backoff_limit": 50})

    diagnosis = await verdict(contract, job, startup_timeout=25)

    assert "init container prepare" in diagnosis.message
    assert "run_policy.startup_timeout_seconds" in diagnosis.message
    # JobSet deletes the pod, and its log with it; the next one may have written nothing yet.
    said = set(diagnosis.last_log_lines)
    assert said == {"no data"} or (contract.case.restarts_all and not said)
    assert not [line for line in contract.lines if line.endswith(": running.")]


async def test_an_init_container_that_takes_too_long_is_named(contract):
    image = {"image": "trainer.test/tiny:test", "imagePullPolicy": "Never"}
    init = {"name": "prepare", **image, "command": ["sleep", "3600"]}
    job = contract.case.job("pass", nodes=1, pod_spec={"initContainers": [init]})

    diagnosis = await verdict(contract, job, startup_timeout=10)

    assert diagnosis.reason == "StartupTimeout"
    assert "init container prepare runs" in diagnosis.message


async def test_a_large_job_trains(contract):
    script = "import os; print(sum(len(value) for name, value in os.environ.items() if name.startswith('LARGE')))"
    # Trainer repeats the variables in what it sends to the API server, and an MPIJob has them for launcher and workers.
    count = 7 if contract.case.backend.name in ("trainer", "mpi-operator") else 15
    env = {f"LARGE{at}": "x" * 100_000 for at in range(count)}

    handle = await contract.submit(contract.case.job(script, nodes=1, env=env))

    assert (await contract.end(handle)).phase is JobPhase.SUCCEEDED
    assert any(line.endswith(f" {count}00000") for line in contract.lines), contract.lines


async def test_a_quota_that_is_used_up_is_waited_for(contract, cluster, namespace):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": "0"}}}
    cluster.kubectl.apply([quota], f"--namespace={namespace}")
    counted = "--for=jsonpath={.status.hard.pods}=0"
    cluster.kubectl("wait", counted, "quota/pods", f"--namespace={namespace}", "--timeout=170s")

    handle = await contract.submit(contract.case.job("pass", nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await contract.until(lambda: any("exceeded quota" in line for line in contract.lines))
    cluster.kubectl("delete", "quota", "pods", f"--namespace={namespace}")

    assert (await following).phase is JobPhase.SUCCEEDED
