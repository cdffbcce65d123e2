"""What is left of a failed test: its objects, pods, events and logs, as files."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from tests.cluster.access import Access
from tests.cluster.kubectl import Kubectl
from tests.cluster.paths import STATE
from tests.cluster.shell import CommandFailed

_GROUPS = ("kubeflow.org", "x-k8s.io", "batch")
_CORE = ("pods", "services", "configmaps", "events")
#: Seconds that all of a dump may take: a test waits for it.
_SECONDS = 60
#: How many dumps are kept.
_KEPT = 10


def dump(access: Access, namespace: str, folder: Path, seconds: float = _SECONDS) -> None:
    """Write everything about a namespace into a folder, as far as the time allows.

    Never raises for what the cluster refuses: a dump is made when things are broken.

    :param folder: made when it does not exist.
    :param seconds: that it may take.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if access.own is not None:
        for log in (STATE / "log").glob("*.log"):
            _write(folder / "node" / log.name, log.read_text(errors="replace")[-1_000_000:])
    _Dump(access.kubectl, time.monotonic() + seconds).write(namespace, folder)


def prune(folder: Path) -> None:
    """Remove all dumps but the newest.

    :param folder: of all dumps.
    """
    with suppress(FileNotFoundError):  # Another test does the same.
        for old in sorted(folder.glob("*"), key=os.path.getmtime)[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


class _Dump:
    """What is asked of the cluster.

    :param deadline: when no further question is asked.
    """

    def __init__(self, kubectl: Kubectl, deadline: float) -> None:
        self._kubectl, self._deadline = kubectl, deadline

    def write(self, namespace: str, folder: Path) -> None:
        where = f"--namespace={namespace}"
        # What explains most comes first.
        self._save(folder / "events.txt", "get", "events", where, "--sort-by=.metadata.creationTimestamp")
        for kind in _CORE:
            self._save(folder / f"{kind}.yaml", "get", kind, where, "-o", "yaml")
        for pod in self._names(f"--namespace={namespace}"):
            self._save_logs(*pod, folder / "logs")
        for kind in self._kinds():
            self._save(folder / f"{kind}.yaml", "get", kind, where, "-o", "yaml")
        for pod in self._names("--all-namespaces"):
            if pod[0] in ("kubeflow", "mpi-operator") or pod[0].endswith("-system"):
                self._save_logs(*pod, folder / "controllers")

    def _names(self, where: str) -> list[list[str]]:
        """Namespace and name of each pod."""
        columns = "custom-columns=:metadata.namespace,:metadata.name"
        lines = self._ask("get", "pods", where, "--no-headers", "-o", columns).splitlines()
        return [line.split() for line in lines if line.strip()]

    def _kinds(self) -> list[str]:
        names = self._ask("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
        return [name for name in names if name.partition(".")[2].endswith(_GROUPS)]

    def _save_logs(self, namespace: str, pod: str, folder: Path) -> None:
        for suffix, flags in (("", ()), ("-previous", ("--previous",))):
            argv = ("logs", pod, f"--namespace={namespace}", "--all-containers", "--prefix", "--tail=20000", *flags)
            self._save(folder / f"{pod}{suffix}.log", *argv)

    def _save(self, path: Path, *argv: str) -> None:
        _write(path, self._ask(*argv))

    def _ask(self, *argv: str) -> str:
        """What kubectl prints; nothing where it fails, or the time is over."""
        left = self._deadline - time.monotonic()
        if left > 0:
            with suppress(CommandFailed):
                return self._kubectl(*argv, timeout=left)
        return ""


def _write(path: Path, text: str) -> None:
    if text.strip():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
