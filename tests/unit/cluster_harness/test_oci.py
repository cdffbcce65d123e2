"""Image archives: their parts refer to each other by digest, and equal content makes equal archives."""

from __future__ import annotations

import hashlib
import json
import tarfile

import pytest

from tests.cluster import oci


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(b"#!/bin/sh\n")
    return path


def _read(archive):
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}


def _blob(files, descriptor):
    content = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert descriptor["digest"] == "sha256:" + hashlib.sha256(content).hexdigest()
    assert descriptor["size"] == len(content)
    return content


def test_archive_leads_from_index_to_layer(tmp_path, program):
    oci.write_layer({"/bin/program": program}, tmp_path / "layer", links={"/bin/other": "program"})
    config = oci.ImageConfig(entrypoint=("/bin/program",), user="65532:65532", env={"A": "b"})
    oci.write_archive("trainer.test/it:1", tmp_path / "layer", config, tmp_path / "archive")

    files = _read(tmp_path / "archive")
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "trainer.test/it:1"
    manifest = json.loads(_blob(files, entry))
    configuration = json.loads(_blob(files, manifest["config"]))
    assert configuration["config"]["Entrypoint"] == ["/bin/program"]
    assert configuration["config"]["User"] == "65532:65532"
    assert "A=b" in configuration["config"]["Env"]
    (layer,) = manifest["layers"]
    assert _blob(files, layer) == (tmp_path / "layer").read_bytes()
    assert configuration["rootfs"]["diff_ids"] == [layer["digest"]]


def test_layer_holds_programs_links_and_tmp(tmp_path, program):
    oci.write_layer({"/bin/program": program}, tmp_path / "layer", links={"/bin/other": "/bin/program"})
    with tarfile.open(tmp_path / "layer") as tar:
        members = {member.name: member for member in tar.getmembers()}
        assert members["tmp"].mode == 0o1777
        assert members["bin/program"].mode == 0o755
        assert members["bin/other"].linkname == "/bin/program"


def test_equal_content_makes_equal_archive(tmp_path, program):
    for name in ("one", "two"):
        program.touch()  # Times of files have no part in it.
        oci.write_layer({"/bin/program": program}, tmp_path / f"{name}.layer")
    assert (tmp_path / "one.layer").read_bytes() == (tmp_path / "two.layer").read_bytes()


def test_image_without_settings_says_nothing_of_them():
    assert oci.ImageConfig().as_oci().keys() == {"Env"}
