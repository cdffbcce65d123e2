"""The golden manifests pass the real API server's strict validation, and the controllers' webhooks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from tests.cluster.access import Access
from tests.cluster.shell import CommandFailed
from tests.golden_files import GOLDEN, golden_files

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
    for file in golden_files(folder)
    for profile in profiles
]


#: What has to be there before the webhook takes a job that refers to it.
_FIRST = ("TrainingRuntime",)
_SEEN_WITHIN = 90


def _create(cluster: Access, namespace: str, text: str) -> None:
    _kubectl_create(cluster, namespace, text, "--dry-run=server")


def _kubectl_create(cluster: Access, namespace: str, text: str, *flags: str) -> None:
    cluster.kubectl("create", "--validate=strict", f"--namespace={namespace}", *flags, "-f", "-", stdin=text)


@pytest.mark.parametrize(("folder", "file"), _CASES)
def test_the_api_server_takes_it(folder: str, file: Path, cluster, namespace):
    documents = list(yaml.safe_load_all(file.read_text()))
    first = [document for document in documents if document["kind"] in _FIRST]
    served = cluster.kubectl("api-versions").split()
    # Not every gang scheduler can be in the cluster.
    rest = [
        document
        for document in documents
        if document not in first and (document["kind"] != "PodGroup" or document["apiVersion"] in served)
    ]
    if first:
        _kubectl_create(cluster, namespace, yaml.safe_dump_all(first))
    end = time.monotonic() + _SEEN_WITHIN
    while True:
        try:
            _create(cluster, namespace, yaml.safe_dump_all(rest))
            return
        except CommandFailed as error:
            if not first or "must be created before" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(1)


def test_what_is_wrong_is_not_taken(cluster, namespace):
    (job,) = yaml.safe_load_all((GOLDEN / "training-operator" / "jax.yaml").read_text())
    job["spec"]["runPolicy"]["cleanPods"] = "Running"

    with pytest.raises(CommandFailed, match="cleanPods"):
        _create(cluster, namespace, yaml.safe_dump(job))


def test_every_folder_belongs_to_a_profile():
    folders = {folder.name for folder in GOLDEN.iterdir() if folder.is_dir()}

    assert folders - {"local", "policies"} == _FOLDERS.keys()
