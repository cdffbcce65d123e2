"""The container runtime's image store, which outlives clusters: an image is imported once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cluster.debian import Packages
from tests.cluster.paths import STATE, cache_root
from tests.cluster.shell import CommandFailed, run

SOCKET = STATE / "containerd.sock"

_CONFIG = """\
version = 2
root = "{root}"
state = "{state}/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE, as in many test machines, no process may lower its OOM score; every sandbox would die
  # with "can't get final child's PID from pipe: EOF".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{state}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def config(packages: Packages, pause: str) -> str:
    """The configuration file.

    :param pause: name of the image that holds a pod's namespaces.
    """
    cni = packages.path("containernetworking-plugins").parent
    return _CONFIG.format(root=cache_root() / "containerd", state=STATE, socket=SOCKET, pause=pause, cni=cni)


class Store:
    """Images and containers of the running containerd.

    :param packages: where ``ctr`` is.
    """

    def __init__(self, packages: Packages) -> None:
        self._program = packages.path("containerd").with_name("ctr")

    def answers(self) -> bool:
        """Whether containerd is there."""
        try:
            self._ctr("version", timeout=10)
        except CommandFailed:
            return False
        return True

    def images(self) -> dict[str, str]:
        """Names of the images that are there, and the digest of each."""
        rows = [line.split() for line in self._ctr("images", "ls").splitlines()[1:]]
        return {name: digest for name, _, digest, *_ in rows}

    def import_archive(self, archive: Path) -> None:
        """Import an OCI archive and unpack its layers."""
        self._ctr("images", "import", archive)

    def keep_only(self, wanted: set[str]) -> None:
        """Remove all other images, and free their space."""
        present = self.images()
        kept = {digest for name, digest in present.items() if name in wanted}
        # The kubelet's side of containerd gives each image a second name, its digest, which holds it as well.
        stale = [name for name, digest in present.items() if digest not in kept]
        if stale:
            self._ctr("images", "rm", "--sync", *stale)

    def tag(self, source: str, target: str) -> None:
        """Give an image a second name."""
        self._ctr("images", "tag", "--force", source, target)

    def forget_containers(self, restart: Callable[[], None]) -> None:
        """Drop what is recorded of the containers of an earlier cluster, which ended without a farewell.

        :param restart: restarts containerd, which only then forgets what it had read at its start.
        """
        stale = self._ctr("containers", "ls", "-q").split()
        if stale:
            self._ctr("containers", "rm", *stale)
            restart()

    def _ctr(self, *argv: str | Path, timeout: float = 900) -> str:
        return run(self._program, "--address", SOCKET, "--namespace", "k8s.io", *argv, timeout=timeout)
