"""The golden manifests pass the real API server's strict validation, and the controllers' webhooks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cluster.access import Access
from tests.cluster.shell import CommandFailed
from tests.golden_files import GOLDEN

#: Folder below tests/golden -> the profiles whose clusters know its kinds.
_FOLDERS = {
    "training-operator": ("kubeflow",),
    "mpi-operator": ("mpi",),
    "trainer": ("kubeflow",),
    "native": ("kubeflow", "mpi"),
}
_CASES = [
    pytest.param(folder, file, id=f"{profile}-{folder}-{file.stem}", marks=pytest.mark.profile(profile))
    for folder, profiles in _FOLDERS.items()
    for file in sorted((GOLDEN / folder).glob("*.yaml"))
    for profile in profiles
]


def _create(cluster: Access, namespace: str, text: str) -> None:
    cluster.kubectl(
        "create", "--dry-run=server", "--validate=strict", f"--namespace={namespace}", "-f", "-", stdin=text
    )


@pytest.mark.parametrize(("folder", "file"), _CASES)
def test_the_api_server_takes_it(folder: str, file: Path, cluster, namespace):
    _create(cluster, namespace, file.read_text())


def test_what_is_wrong_is_not_taken(cluster, namespace):
    (job,) = yaml.safe_load_all((GOLDEN / "training-operator" / "jax.yaml").read_text())
    job["spec"]["runPolicy"]["cleanPods"] = "Running"

    with pytest.raises(CommandFailed, match="cleanPods"):
        _create(cluster, namespace, yaml.safe_dump(job))


def test_every_folder_belongs_to_a_profile():
    folders = {folder.name for folder in GOLDEN.iterdir() if folder.is_dir()}

    assert folders - {"local"} <= _FOLDERS.keys()
