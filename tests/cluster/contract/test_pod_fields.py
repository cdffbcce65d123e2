"""Fields of the pods have their effect: placement, users, variables from the cluster, devices and shared memory."""

from __future__ import annotations

import asyncio
import json

import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.jobs import HIGH, offer
from tests.cluster.network import NODE_NAME

DEVICE = "trainer.test/pod-fields"
#: More than the 64 MiB that a container has without the field.
_REPORTS = """
pathlib.Path("/dev/shm/batch").write_bytes(bytes(100 * 2**20))
names = ("TOKEN", "URL", "POD", "HUB_token", "RATE")
user = {"uid": os.getuid(), "gid": os.getgid(), "groups": sorted({*os.getgroups()} - {os.getgid()})}
note("seen-" + me, json.dumps({**user, **{name: os.environ.get(name) for name in names}}, separators=(",", ":")))
wait_for("go")
"""
_FIELDS = {
    "env": {
        "TOKEN": {"secret": {"name": "hub", "key": "token"}},
        "URL": "https://user:$(TOKEN)@hub",
        "POD": {"field": "metadata.name"},
    },
    "resources_per_node": {"memory": "256Mi", "shared_memory": "160Mi", "extended": {DEVICE: 1}},
    "scheduling": {
        "node_selector": {"kubernetes.io/hostname": NODE_NAME},
        "node_affinity": [{"key": "kubernetes.io/os", "values": ["linux"]}],
        "tolerations": [{"key": "trainer.test/taint", "value": "x", "effect": "NoExecute", "seconds": 60}],
        "topology": {"key": "kubernetes.io/hostname", "required": True},
        "priority_class": "trainer-test-high",
    },
    "pod": {
        "security": {"run_as_user": 5000, "run_as_group": 6000, "supplemental_groups": [7000], "fs_group": 8000},
        "image_pull": {"policy": "IfNotPresent"},
        "labels": {"team": "vision"},
        "annotations": {"trainer.test/owner": "Ada & Grace"},
        "env_from": [{"secret": "hub", "prefix": "HUB_"}],
    },
}
#: Of the workers, where there is a master beside them.
_OF_WORKERS = {
    "env": {"RATE": {"config_map": {"name": "settings", "key": "rate"}}},
    "scheduling": {"tolerations": []},
    "pod": {"security": {"run_as_user": 5001, "supplemental_groups": []}, "labels": {"tier": "worker"}},
}


@pytest.fixture(autouse=True)
def own_cluster(cluster):
    if cluster.own is None:
        pytest.skip("changes the node: only on the project's own")


@pytest.mark.parametrize("roles", ["alike", "different"])
async def test_fields_of_the_pods_have_their_effect(contract, cluster, namespace, roles):
    backend, kubectl = contract.backend.name, cluster.kubectl
    if backend == "mpi-operator":
        pytest.skip("its ssh is root's, and its launcher alone runs the snippet")
    if roles == "different" and backend == "trainer":
        pytest.skip("all nodes of a TrainJob share a template")
    offer(cluster, DEVICE, 8)
    kubectl.apply([HIGH])
    where = f"--namespace={namespace}"
    kubectl("create", "secret", "generic", "hub", "--from-literal=token=s3cret", where)
    kubectl("create", "configmap", "settings", "--from-literal=rate=0.1", where)
    fields = dict(_FIELDS)
    replicas = ["worker-0", "worker-1"]
    if roles == "different":
        fields |= {"framework": "xgboost", "replicas": {"worker": _OF_WORKERS}}
        replicas = ["master-0", "worker-0"]

    handle = await contract.submit(contract.case.job(_REPORTS, **fields))
    following = asyncio.ensure_future(contract.end(handle))
    await contract.until(lambda: all(contract.noted(f"seen-{replica}") for replica in replicas))
    # A pod that is slower than the first one goes with the job's end.
    found = {pod["metadata"]["labels"]["airflow-trainer-provider/group"]: pod for pod in contract.case._pods(handle)}
    contract.release("go")
    assert (await following).phase is JobPhase.SUCCEEDED, contract.lines

    for replica in replicas:
        own = roles == "different" and replica.startswith("worker")
        pod = found[replica.partition("-")[0]]
        (seen,) = map(json.loads, contract.noted(f"seen-{replica}"))
        assert (seen["uid"], seen["gid"]) == (5001 if own else 5000, 6000)
        assert seen["groups"] == ([8000] if own else [7000, 8000])
        assert (seen["TOKEN"], seen["URL"]) == ("s3cret", "https://user:s3cret@hub")
        assert (seen["HUB_token"], seen["RATE"]) == ("s3cret", "0.1" if own else None)
        assert seen["POD"].startswith(handle.name)
        labels, spec = pod["metadata"]["labels"], pod["spec"]
        assert (labels["team"], labels.get("tier")) == ("vision", "worker" if own else None)
        assert pod["metadata"]["annotations"]["trainer.test/owner"] == "Ada & Grace"
        assert spec["priority"] == HIGH["value"]
        tolerated = [each["key"] for each in spec["tolerations"] if each["key"].startswith("trainer.test")]
        assert tolerated == ([] if own else ["trainer.test/taint"])
        assert spec["containers"][0]["resources"]["limits"][DEVICE] == "1"
    main = contract.case.main(handle)["metadata"]
    assert main["labels"]["team"] == "vision"
    assert main["annotations"]["trainer.test/owner"] == "Ada & Grace"
