"""The second scheduler's module: Kubernetes' own scheduler with the coscheduling plugin, and its PodGroup controller.

The requirements of the plugin's module would select other versions of Kubernetes' modules than its own binaries are
built from, and almost all of them would be compiled again. So the program is built within copies of the modules that
have no requirements: some dozens of packages are compiled, instead of 800.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.paths import HERE
from tests.cluster.pins import Module

NAME = "coscheduler"
SOURCE = HERE / "go" / NAME / "main.go"
KUBERNETES = "kubernetes"
#: The modules of pins.yaml that are copied, the plugin's first, and what these import beside Kubernetes' modules.
COPIED = ("scheduler-plugins", "controller-runtime")
REQUIRED = ("go-cache", "json-patch", "jsonpatch")


def prepare(work: Path, go_mod: str, copies: Mapping[str, tuple[str, Path]], required: Sequence[Module]) -> str:
    """Write the folder that the program is built in.

    :param work: an empty folder.
    :param go_mod: of Kubernetes' own binaries.
    :param copies: name of a module -> its path and its unpacked source, the plugin's first.
    :param required: what they import beside Kubernetes' modules.
    :return: import path of the program's package.
    """
    lines = [f"require {module.path} {module.version}" for module in required]
    for name, (path, source) in copies.items():
        _copy(source, work / name)
        (work / name / "go.mod").write_text(f"module {path}\n\ngo 1.24.0\n")
        lines += [f"require {path} v0.0.0", f"replace {path} => ./{name}"]
    (work / "go.mod").write_text("\n".join([go_mod, *lines, ""]))
    folder = work / COPIED[0] / "trainer-test"
    folder.mkdir()
    shutil.copy(SOURCE, folder)
    return f"{copies[COPIED[0]][0]}/{folder.name}"


def _copy(source: Path, target: Path) -> None:
    """Copy a module, whose files and folders are read-only in Go's cache."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder in (target, *(each for each in target.rglob("*") if each.is_dir())):
        folder.chmod(0o755)
