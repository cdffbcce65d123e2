"""Writing OCI image archives without any container tool."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class ImageConfig:
    """How containers of an image start.

    :param entrypoint: default command.
    :param user: ``uid:gid``; root when empty.
    :param env: variables beside PATH.
    """

    entrypoint: Sequence[str] = ()
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    def as_oci(self) -> dict[str, Any]:
        """The ``config`` object of the OCI image configuration."""
        config: dict[str, Any] = {"Env": [f"{key}={value}" for key, value in {"PATH": _PATH, **self.env}.items()]}
        if self.entrypoint:
            config["Entrypoint"] = list(self.entrypoint)
        if self.user:
            config["User"] = self.user
        return config


def write_layer(files: Mapping[str, Path], out: Path, links: Mapping[str, str] | None = None) -> None:
    """Write a layer of executables. Equal input makes an equal layer.

    :param files: absolute path in the image and the file to put there.
    :param out: tar file to write.
    :param links: absolute path in the image and what the symbolic link there points to.
    """
    with tarfile.open(out, "w") as tar:
        tmp = tarfile.TarInfo("tmp")
        tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(tmp)
        for path, source in sorted(files.items()):
            info = tarfile.TarInfo(path.lstrip("/"))
            info.size, info.mode = source.stat().st_size, 0o755
            with source.open("rb") as handle:
                tar.addfile(info, handle)
        for path, target in sorted((links or {}).items()):
            info = tarfile.TarInfo(path.lstrip("/"))
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)


def write_archive(name: str, layer: Path, config: ImageConfig, out: Path) -> None:
    """Wrap one layer into an OCI image archive that ``ctr images import`` takes.

    :param name: full image name with its tag.
    :param layer: uncompressed tar.
    :param out: archive to write.
    """
    layer_digest, layer_size = _file_digest(layer), layer.stat().st_size
    configuration = _blob(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": config.as_oci(),
            "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        }
    )
    manifest = _blob(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", configuration),
            "layers": [
                {
                    "mediaType": "application/vnd.oci.image.layer.v1.tar",
                    "digest": layer_digest,
                    "size": layer_size,
                }
            ],
        }
    )
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    entry["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    with tarfile.open(out, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode())
        for blob in (configuration, manifest):
            _add(tar, _blob_path(_digest(blob)), blob)
        tar.add(layer, _blob_path(layer_digest))


def _blob(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _blob_path(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _file_digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(1 << 20):
            total.update(chunk)
    return "sha256:" + total.hexdigest()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
