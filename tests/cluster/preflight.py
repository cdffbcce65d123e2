"""What this machine lacks for a cluster of its own."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from pathlib import Path

from tests.cluster import debian, pins
from tests.cluster.build import go_program
from tests.cluster.shell import run

_MODULES = ("cryptography", "yaml", "aiohttp")


def missing() -> list[str]:
    """One line for each thing that is missing, with the way out. Empty when a cluster can be started."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return [f"Linux on x86_64: a node needs its namespaces and control groups (this is {platform.platform()})"]
    found = [_root(), _go(), _apt(), _filesystem(), *_modules()]
    return [problem for problem in found if problem]


def _root() -> str:
    return "" if os.geteuid() == 0 else "root: namespaces, mounts and control groups are made (run it with sudo)"


def _go() -> str:
    wanted = pins.load().go_minimum
    try:
        version = run(go_program(), "env", "GOVERSION").strip()
    except FileNotFoundError:
        return f"Go {wanted} or newer: everything is built from source (no `go` on the PATH)"
    if _numbers(version) < _numbers(wanted):
        return f"Go {wanted} or newer: the one on the PATH is {version}"
    return ""


def _apt() -> str:
    packages = debian.Packages(pins.load()).missing()
    if not packages or shutil.which("apt-get"):
        return ""
    return f"apt-get (Debian or Ubuntu), for the packages {', '.join(packages)}"


def _filesystem() -> str:
    known = Path("/proc/filesystems").read_text().split()
    return "" if "overlay" in known else "the kernel's overlay file system (modprobe overlay)"


def _modules() -> list[str]:
    absent = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    return [f"the Python modules {', '.join(absent)} (make test-cluster installs them)"] if absent else []


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
