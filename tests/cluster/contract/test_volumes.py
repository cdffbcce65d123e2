"""Data from every source is there when the training starts, and new claims go with their job or stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.cluster import data_server
from tests.cluster.access import Access
from tests.cluster.contract.jobs import verdict
from tests.cluster.data import Data, served

_READS = """
files = sorted(each for each in pathlib.Path("/in").rglob("*") if each.is_file() and ".." not in str(each))
seen = {str(each): each.read_text().strip() for each in files}
pathlib.Path("/scratch/by").write_text(me)
note("seen", json.dumps({"uid": os.getuid(), **seen}, separators=(",", ":")))
"""


@pytest.fixture
def data(cluster: Access, namespace: str, shared: Path) -> Iterator[Data]:
    with served(cluster, namespace, shared) as data:
        yield data


def _claims(contract: Any) -> list[str]:
    found = contract.case.access.kubectl.list("persistentvolumeclaims", contract.case.namespace)
    return sorted(each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"])


async def test_data_from_every_source_is_there_when_the_training_starts(contract, data):
    # The operator's ssh is root's.
    user = 0 if contract.backend.name == "mpi-operator" else 5000
    volumes = [
        data.claim(),
        {"mount_path": "/in/settings", "config_map": {"name": "settings", "items": [{"key": "a.yaml", "path": "a"}]}},
        {"mount_path": "/in/hub", "secret": {"name": "hub"}, "read_only": True},
        data.git(),
        data.s3(),
    ]
    # Without fsGroup a Secret's files are root's, and readable.
    spec = {"securityContext": {"runAsUser": user}} if user else {}

    _, status = await contract.run(contract.case.job(_READS, nodes=1, volumes=volumes, pod_spec=spec))

    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    (seen,) = map(json.loads, contract.noted("seen"))
    assert seen == {
        "uid": user,
        "/in/hub/token": "s3cret",
        "/in/sets/deep/a": "1",
        "/in/settings/a": "rate",
        "/in/src/train.py": "print()",
    }
    lines = "\n".join(contract.lines)
    assert not [each for each in (data_server.PASSWORD, data_server.SECRET_KEY) if each in lines]


async def test_a_new_claim_goes_with_the_job_and_one_that_is_kept_is_used_again(contract, data):
    kept = {**data.claim(keep=True), "mount_path": "/kept", "name": "checkpoints"}
    counts = 'runs = pathlib.Path("/kept/runs"); runs.open("a").write("x"); note("runs", runs.read_text())'

    for _ in range(2):
        handle, status = await contract.run(contract.case.job(counts, nodes=1, volumes=[data.claim(), kept]))
        assert status.phase is JobPhase.SUCCEEDED, contract.lines
        assert _claims(contract) == sorted(["checkpoints", f"{handle.name}-scratch"])
        await contract.backend.acknowledge(handle)
        await contract.until(lambda: _claims(contract) == ["checkpoints"])
        await contract.until(lambda: _bind_again(contract, data))

    assert contract.noted("runs") == ["x", "xx"]


def _bind_again(contract: Any, data: Data) -> bool:
    """Do what an administrator does with the volume of a claim that is gone; whether it is released by now."""
    kubectl = contract.case.access.kubectl
    own = [each for each in kubectl.list("persistentvolumes") if each["spec"]["storageClassName"] == data.storage_class]
    released = [each["metadata"]["name"] for each in own if each["status"].get("phase") == "Released"]
    for name in released:
        patch = json.dumps({"spec": {"claimRef": None}})
        kubectl("patch", "persistentvolume", name, "--type=merge", f"--patch={patch}")
    return bool(released)


async def test_a_revision_that_is_not_there_is_named(contract, data):
    diagnosis = await verdict(contract, contract.case.job("pass", nodes=1, volumes=[data.git(revision="mian")]))

    assert diagnosis.reason == "Init:Error"
    assert "init container fetch-in-src ended with exit code 1" in diagnosis.message
    assert f"{data.url}/git/train.git has no branch, tag or commit mian" in diagnosis.message
    assert "git or s3 source of volumes" in (diagnosis.way_out or "")


async def test_a_revision_that_is_not_there_uses_up_the_restarts(contract, data):
    if contract.backend.name != "training-operator":
        pytest.skip("the controller counts such restarts itself")
    # The verdict itself takes a minute.
    contract.case.timeout = 600
    job = contract.case.job("pass", nodes=1, volumes=[data.git(revision="mian")], run_policy={"backoff_limit": 1})

    diagnosis = await verdict(contract, job)

    assert diagnosis.reason == "Init:CrashLoopBackOff"
    assert f"{data.url}/git/train.git has no branch, tag or commit mian" in diagnosis.message
    assert "git or s3 source of volumes" in (diagnosis.way_out or "")
