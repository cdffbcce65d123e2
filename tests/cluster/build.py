"""Build the Go binaries from their pinned modules into the cache."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import asdict
from pathlib import Path

from tests.cluster import coscheduler
from tests.cluster.locks import BUILD, locked
from tests.cluster.paths import HERE, cache_root
from tests.cluster.pins import Module, Pins, digest
from tests.cluster.shell import run, run_logged, with_tries

PAUSE = "pause"


class Binaries:
    """Finds binaries, and builds those that the cache lacks.

    :param pins: versions to build.
    """

    def __init__(self, pins: Pins) -> None:
        self.pins = pins
        self.toolchain = run(go_program(), "version").strip()

    def folder(self, module: str) -> Path:
        """Cache folder of a module's binaries."""
        return cache_root() / "bin" / self.pins.modules[module].key(self.toolchain)

    def path(self, binary: str) -> Path:
        """Where a binary is, or will be once built.

        :raises KeyError: when no module makes it.
        """
        if binary == PAUSE:
            source = (HERE / "go" / PAUSE / "main.go").read_text()
            return cache_root() / "bin" / f"{PAUSE}-{digest(source, self.toolchain)}" / PAUSE
        if binary == coscheduler.NAME:
            names = (coscheduler.KUBERNETES, *coscheduler.COPIED, *coscheduler.REQUIRED)
            modules = [self.pins.modules[name] for name in names]
            key = digest(coscheduler.SOURCE.read_text(), self.toolchain, *map(asdict, modules))
            return cache_root() / "bin" / f"{binary}-{key}" / binary
        for module in self.pins.modules.values():
            if binary in module.binaries:
                return self.folder(module.name) / binary
        raise KeyError(f"no module in pins.yaml makes a binary named {binary!r}")

    def missing(self) -> list[str]:
        """Binaries that are not in the cache yet."""
        wanted = [name for module in self.pins.modules.values() for name in module.binaries]
        return [name for name in [*wanted, PAUSE, coscheduler.NAME] if not self.path(name).exists()]

    def build(self) -> dict[str, float]:
        """Build what is missing.

        :return: seconds for each module that had to be built.
        """
        seconds = {}
        with locked(cache_root() / "build.lock", BUILD):
            self._build_pause()
            for module in self.pins.modules.values():
                started = time.monotonic()
                if self._build_module(module):
                    seconds[module.name] = time.monotonic() - started
                    print(f"built {module.path}@{module.version} in {seconds[module.name]:.0f} s", flush=True)
            started = time.monotonic()
            if self._build_coscheduler():
                seconds[coscheduler.NAME] = time.monotonic() - started
                print(f"built {coscheduler.NAME} in {seconds[coscheduler.NAME]:.0f} s", flush=True)
        return seconds

    def source(self, module: str) -> Path:
        """Folder of a module's unpacked source (read-only), for its manifests."""
        pin = self.pins.modules[module]
        # Asked in an empty folder: a go.mod of the checkout must not have a say.
        empty = cache_root() / "empty"
        empty.mkdir(parents=True, exist_ok=True)
        argv = (go_program(), "mod", "download", "-json", f"{pin.path}@{pin.version}")
        text = with_tries(lambda: run(*argv, env=go_env(), cwd=empty))
        found = re.search(r'"Dir": "([^"]+)"', text)
        if not found:
            raise RuntimeError(f"go mod download names no folder for {pin.path}@{pin.version}: {text}")
        return Path(found.group(1))

    def _build_module(self, module: Module) -> bool:
        folder = self.folder(module.name)
        wanted = [name for name in module.binaries if not (folder / name).exists()]
        if not wanted:
            return False
        work = folder.with_name(folder.name + ".work")
        work.mkdir(parents=True, exist_ok=True)
        (work / "go.mod").write_text(go_mod(module, self.pins.go_minimum, self._staging(module)))
        folder.mkdir(exist_ok=True)
        for name in wanted:
            _compile(module.package(name), folder / name, work, ldflags(module))
        shutil.rmtree(work)
        return True

    def _build_coscheduler(self) -> bool:
        """Build the second scheduler. After Kubernetes: what both are made of is compiled already."""
        target, modules = self.path(coscheduler.NAME), self.pins.modules
        if target.exists():
            return False
        work = target.parent.with_name(target.parent.name + ".work")
        shutil.rmtree(work, ignore_errors=True)
        for folder in (work, target.parent):
            folder.mkdir(parents=True, exist_ok=True)
        kubernetes = modules[coscheduler.KUBERNETES]
        copies = {name: self.source(name) for name in coscheduler.COPIED}
        package = coscheduler.prepare(
            work,
            go_mod(kubernetes, self.pins.go_minimum, self._staging(kubernetes)),
            {name: (modules[name].path, source) for name, source in copies.items()},
            [modules[name] for name in coscheduler.REQUIRED],
        )
        _compile(package, target, work, ldflags(kubernetes))
        shutil.rmtree(work)
        return True

    def _staging(self, module: Module) -> list[str]:
        if module.staging is None:
            return []
        return staging_modules((self.source(module.name) / "go.mod").read_text())

    def _build_pause(self) -> None:
        target = self.path(PAUSE)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            _compile(str(HERE / "go" / PAUSE / "main.go"), target, target.parent, "-s -w")


def go_program() -> str:
    """The ``go`` command, also where its usual folder is not on the path.

    :raises FileNotFoundError: when there is none.
    """
    usual = Path("/usr/local/go/bin/go")
    found = shutil.which("go") or (str(usual) if usual.exists() else None)
    if found is None:
        raise FileNotFoundError("the test cluster is built from source and needs Go: no `go` on the PATH")
    return found


def go_env() -> dict[str, str]:
    """Environment of all builds: static binaries, and none of the user's own Go settings that change them."""
    # No checksum file is committed: the module proxy's checksum database vouches for each module, and
    # `-mod=mod` lets go write down what it found in the work folder.
    flags = "-mod=mod -buildvcs=false -trimpath"
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOTOOLCHAIN": "local", "GOWORK": "off"}


def go_mod(module: Module, go: str, staging: list[str]) -> str:
    """The go.mod from which a module's binaries are built: the module as the only requirement.

    A module of our own, instead of ``go install path@version``: that one refuses modules with replacements
    (Kubernetes), and asks for the version list, which not every proxy has.

    :param staging: modules that Kubernetes replaces by folders of its own repository.
    """
    lines = ["module trainer.test/binaries", "", f"go {go}", "", f"require {module.path} {module.version}"]
    lines += [f"replace {name} => {name} {module.staging}" for name in staging]
    return "\n".join(lines) + "\n"


def staging_modules(go_mod_text: str) -> list[str]:
    """Names of the modules that Kubernetes' own go.mod takes from its staging folder."""
    return sorted(set(re.findall(r"(k8s\.io/\S+) => \./staging/", go_mod_text)))


def ldflags(module: Module) -> str:
    """Linker flags: no debug data, and for Kubernetes the version, which clients check."""
    flags = ["-s", "-w"]
    if module.staging is not None:
        major, minor, _ = module.version.lstrip("v").split(".")
        values = {"gitVersion": module.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {package}.{name}={value}" for name, value in values.items()]
    return " ".join(flags)


def _compile(package: str, target: Path, work: Path, flags: str) -> None:
    # Under another name until it is whole: a build that is killed leaves nothing that looks finished.
    partial = target.with_name(target.name + ".partial")
    argv: list[str | Path] = ["nice", "-n", "10", go_program(), "build", "-ldflags", flags, "-o", partial, package]
    # It downloads what it needs; what has been downloaded and compiled is kept from try to try.
    with_tries(lambda: run_logged(argv, target.with_name(target.name + ".log"), env=go_env(), cwd=work))
    partial.rename(target)
