"""The contract's part of this name, on the real cluster, whose pods are evicted; and a folder on a claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.access import Access
from tests.contract.test_checkpoint import *  # noqa: F403

_MODELS = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}


@pytest.fixture
def models(cluster: Access, namespace: str, shared: Path) -> Iterator[Path]:
    """The folder of a claim with that name."""
    folder = shared / "models"
    folder.mkdir()
    folder.chmod(0o777)
    source = {"hostPath": {"path": str(folder)}, "claimRef": {"name": "models", "namespace": namespace}}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-models"},
        "spec": {**_MODELS, **source, "capacity": {"storage": "1Gi"}},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models"},
        "spec": {**_MODELS, "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.kubectl.apply([volume])
    cluster.kubectl.apply([claim], f"--namespace={namespace}")
    yield folder
    cluster.kubectl("delete", "persistentvolume", f"{namespace}-models", "--wait=false")


async def test_the_folder_is_on_the_claim_with_the_mode_of_the_one_above(contract, models):
    if contract.backend.name != "native":
        pytest.skip("the kubelet makes it, whatever the pod is a part of")
    job = contract.case.job(
        'pathlib.Path(os.environ["TRAINER_CHECKPOINT_DIR"], "LATEST").write_text(str(os.getuid()))',
        nodes=1,
        checkpoint={"claim": "models", "path": "runs"},
        pod={"security": {"run_as_user": 5000}},
    )

    _, status = await contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    (folder,) = (models / "runs").iterdir()
    assert (folder.name, folder.stat().st_uid) == (contract.identity().folder_name("task"), 0)
    assert folder.stat().st_mode == models.stat().st_mode
    assert (folder / "LATEST").read_text() == "5000"
