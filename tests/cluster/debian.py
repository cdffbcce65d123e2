"""Debian packages: those that would start services are unpacked into the cache, the others installed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tests.cluster.paths import cache_root
from tests.cluster.pins import Pins, digest
from tests.cluster.shell import CommandFailed, run

#: Of each download.
_TRIES = ("-o", "Acquire::Retries=3")


class Packages:
    """The node's parts that come from Debian.

    :param pins: which packages.
    """

    def __init__(self, pins: Pins) -> None:
        self.pins = pins

    @property
    def root(self) -> Path:
        """Folder into which packages are unpacked: their ``usr/bin/...`` lies below it."""
        return cache_root() / "debian" / f"{_release()}-{digest(self.pins.unpacked)}"

    def path(self, package: str) -> Path:
        """The file of an unpacked package that pins.yaml names."""
        return self.root / self.pins.unpacked[package]

    def missing(self) -> list[str]:
        """Packages still to be unpacked or installed."""
        unpacked = [name for name in self.pins.unpacked if not self.path(name).exists()]
        return unpacked + [name for name, program in self.pins.installed.items() if not which(program)]

    def ensure(self) -> None:
        """Unpack and install what is missing.

        :raises CommandFailed: with apt's own words.
        """
        missing = self.missing()
        if not missing:
            return
        try:
            self._ensure(missing)
        except CommandFailed:
            # An old (or no) list of packages is the usual cause.
            run("apt-get", *_TRIES, "update")
            self._ensure(missing)

    def _ensure(self, missing: list[str]) -> None:
        install = [name for name in missing if name in self.pins.installed]
        if install:
            env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            run("apt-get", *_TRIES, "install", "-y", "--no-install-recommends", *install, env=env)
        if any(name in self.pins.unpacked for name in missing):
            self._unpack()

    def _unpack(self) -> None:
        """Unpack all packages beside their folder, which is there once it is whole."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.root.parent) as folder:
            # The sandbox user that apt downloads as cannot write here.
            sandbox = ("-o", "APT::Sandbox::User=root")
            run("apt-get", *_TRIES, *sandbox, "download", *self.pins.unpacked, cwd=Path(folder))
            whole = Path(folder) / "root"
            for archive in sorted(Path(folder).glob("*.deb")):
                run("dpkg-deb", "--extract", archive, whole)
            shutil.rmtree(self.root, ignore_errors=True)
            whole.rename(self.root)


def which(program: str) -> str | None:
    """Find a program also in the system folders, which are not on every user's path."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    return "unknown"
