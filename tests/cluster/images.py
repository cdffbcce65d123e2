"""The images of the cluster: what is in each, and the archives made of them in the cache."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import oci, tensorboard, worker
from tests.cluster.build import PAUSE, Binaries
from tests.cluster.debian import Packages
from tests.cluster.oci import ImageConfig
from tests.cluster.paths import HERE, cache_root
from tests.cluster.pins import Pins, digest
from tests.cluster.shell import run

_PREFIX = "trainer.test"
# Controllers' manifests say runAsNonRoot, which needs a numeric user.
_NONROOT = "65532:65532"
_BUSYBOX = "/bin/busybox"
#: Seconds after which an archive that no checkout has used is removed; each use is a new modification time.
_UNUSED_FOR = 7 * 24 * 3600
#: Where the Training Operator looks for the template of the container that waits for a PyTorchJob's master.
_INIT_TEMPLATE = {"/etc/config/initContainer.yaml": HERE / "manifests" / "init-pytorch.yaml"}


@dataclass(frozen=True)
class Image:
    """An image.

    :param short: name without prefix and tag.
    :param key: changes when the content does.
    :param config: how its containers start.
    :param write_layer: writes its one layer.
    """

    short: str
    key: str
    config: ImageConfig
    write_layer: Callable[[Path], None]

    @property
    def name(self) -> str:
        """Full name, of this very content."""
        return f"{_PREFIX}/{self.short}:{self.key}"

    @property
    def alias(self) -> str:
        """Name under which manifests of tests know it, whatever its content."""
        return f"{_PREFIX}/{self.short}:test"

    @property
    def archive(self) -> Path:
        """OCI archive in the cache."""
        return _folder() / f"{self.short}-{self.key}.tar"

    def build(self) -> None:
        """Write the archive, unless it is there."""
        if self.archive.exists():
            return
        self.archive.parent.mkdir(parents=True, exist_ok=True)
        layer, partial = self.archive.with_suffix(".layer"), self.archive.with_suffix(".partial")
        self.write_layer(layer)
        oci.write_archive(self.name, layer, self.config, partial)
        layer.unlink()
        partial.rename(self.archive)


class Images:
    """All images.

    :param pins: versions.
    :param binaries: programs that go into the controllers' images.
    :param packages: where busybox is.
    """

    def __init__(self, pins: Pins, binaries: Binaries, packages: Packages) -> None:
        self._pins = pins
        self._binaries = binaries
        self._busybox = packages.path("busybox-static")
        self.pause = self._program(PAUSE, f"/{PAUSE}")
        self.tiny = self._shell("tiny", {}, ImageConfig())
        copy = ("/bin/sh", "-c", "cp /bin/kubectl $TARGET_DIR/kubectl")
        kubectl = {"/bin/kubectl": binaries.path("kubectl")}
        self.kubectl_delivery = self._shell("kubectl-delivery", kubectl, ImageConfig(entrypoint=copy))
        self.worker = Image(
            "worker",
            worker.recipe(pins.worker),
            worker.CONFIG,
            lambda out: worker.build_layer(pins.worker, out),
        )
        self.controllers = {
            "training-operator": self._program("training-operator", "/manager", _INIT_TEMPLATE),
            "trainer": self._program("trainer-controller-manager", "/manager"),
            "jobset": self._program("jobset", "/manager"),
            "kueue": self._program("kueue", "/manager"),
            "mpi-operator": self._program("mpi-operator", "/manager"),
        }

    def all(self) -> list[Image]:
        """Every image, the slowest to build last."""
        return [self.pause, self.tiny, self.kubectl_delivery, *self.controllers.values(), self.worker]

    def for_tests(self) -> list[Image]:
        """The images that the tests' own manifests name, by their aliases."""
        return [self.tiny, self.worker]

    def build(self) -> None:
        """Write the archives that are missing, and remove those of no use any more; and what pods mount beside them."""
        tensorboard.build(self._pins)
        for image in self.all():
            if image.archive.exists():
                os.utime(image.archive)
        _prune(_folder())
        for image in self.all():
            image.build()

    def cached(self) -> set[str]:
        """Names of all images with an archive, those of other checkouts among them."""
        archives = [path.stem.rpartition("-") for path in _folder().glob("*.tar")]
        return {f"{_PREFIX}/{short}:{key}" for short, _, key in archives}

    def _program(self, binary: str, path: str, files: dict[str, Path] | None = None) -> Image:
        source = self._binaries.path(binary)
        config = ImageConfig(entrypoint=(path,), user=_NONROOT)
        # The folder of a binary is named after all that it is made of: no need to read the binary.
        texts = {target: file.read_text() for target, file in (files or {}).items()}
        key = digest(source.parent.name, binary, config, texts)
        return Image(binary, key, config, lambda out: oci.write_layer({path: source, **(files or {})}, out))

    def _shell(self, short: str, files: dict[str, Path], config: ImageConfig) -> Image:
        key = digest(self._busybox.parent.parent.name, {path: file.parent.name for path, file in files.items()}, config)

        def write(out: Path) -> None:
            applets = run(self._busybox, "--list").split()
            links = {f"/bin/{name}": _BUSYBOX for name in applets if name != "busybox"}
            oci.write_layer({_BUSYBOX: self._busybox, **files}, out, links)

        return Image(short, key, config, write)


def any_cached() -> bool:
    """Whether images were built on this machine: the last part of a build."""
    return any(_folder().glob("*.tar"))


def _folder() -> Path:
    return cache_root() / "images"


def _prune(folder: Path) -> None:
    """Remove what a build has left that was killed, and files that were not used for long.

    Another checkout may have other pins, and use other archives.
    """
    oldest = time.time() - _UNUSED_FOR
    for path in folder.glob("*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix in (".layer", ".partial") or path.stat().st_mtime < oldest:
            path.unlink()
