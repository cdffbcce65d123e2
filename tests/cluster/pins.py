"""The versions in pins.yaml as values, and the keys under which what is built from them is cached."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from tests.cluster.paths import HERE


@dataclass(frozen=True)
class Module:
    """A Go module and the binaries wanted from it.

    :param path: module path.
    :param version: module version.
    :param binaries: name of each binary and its package, relative to the module.
    :param staging: version of Kubernetes' staging modules, for ``k8s.io/kubernetes`` only.
    """

    name: str
    path: str
    version: str
    binaries: dict[str, str]
    staging: str | None = None

    def key(self, toolchain: str) -> str:
        """Name of the cache folder of this module's binaries.

        :param toolchain: what ``go version`` prints: another compiler makes other binaries.
        """
        return f"{self.name}-{self.version}-{digest(asdict(self), toolchain)}"

    def package(self, binary: str) -> str:
        """Import path of a binary's package."""
        folder = self.binaries[binary]
        return self.path if folder == "." else f"{self.path}/{folder}"


@dataclass(frozen=True)
class Worker:
    """What the worker image is made of.

    :param suite: Debian release.
    :param python: the release's Python, for which wheels are chosen.
    :param packages: Debian packages.
    :param wheels: exact requirements from PyPI, complete with their own requirements.
    """

    suite: str
    python: str
    packages: list[str]
    wheels: list[str]


@dataclass(frozen=True)
class Pins:
    """All of pins.yaml.

    :param go_minimum: oldest Go that compiles all modules.
    :param unpacked: Debian package to unpack into the cache, and a file in it.
    :param installed: Debian package to install, and a program in it.
    :param tensorboard: exact requirements from PyPI, beside those of the worker image.
    """

    go_minimum: str
    modules: dict[str, Module]
    unpacked: dict[str, str]
    installed: dict[str, str]
    worker: Worker
    tensorboard: list[str]


def load(path: Path = HERE / "pins.yaml") -> Pins:
    """Read the pins."""
    raw = yaml.safe_load(path.read_text())
    modules = {name: Module(name=name, **fields) for name, fields in raw["modules"].items()}
    return Pins(
        go_minimum=raw["go"]["minimum"],
        modules=modules,
        unpacked=raw["debian"]["unpacked"],
        installed=raw["debian"]["installed"],
        worker=Worker(**raw["worker"]),
        tensorboard=raw["tensorboard"],
    )


def digest(*parts: object) -> str:
    """Twelve hexadecimal digits that change when any part does."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
