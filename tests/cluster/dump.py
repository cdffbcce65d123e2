"""What is left of a failed test: its objects, pods, events and logs, as files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.cluster.access import Access
from tests.cluster.kubectl import Kubectl
from tests.cluster.paths import STATE
from tests.cluster.shell import CommandFailed

_GROUPS = ("kubeflow.org", "x-k8s.io", "batch")
_CORE = ("pods", "services", "configmaps", "events")


def dump(access: Access, namespace: str, folder: Path) -> None:
    """Write everything about a namespace into a folder.

    Never raises for what the cluster refuses: a dump is made when things are broken.

    :param folder: made when it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kubectl = access.kubectl
    for kind in [*_CORE, *_kinds(kubectl)]:
        _save(kubectl, folder / f"{kind}.yaml", "get", kind, f"--namespace={namespace}", "-o", "yaml")
    events = ("get", "events", f"--namespace={namespace}", "--sort-by=.metadata.creationTimestamp")
    _save(kubectl, folder / "events.txt", *events)
    with suppress(CommandFailed):
        for pod in kubectl.list("pods", namespace):
            _save_logs(kubectl, pod["metadata"]["namespace"], pod["metadata"]["name"], folder / "logs")
    _save_controllers(access, folder / "controllers")
    if access.own is not None:
        for log in (STATE / "log").glob("*.log"):
            _write(folder / "node" / log.name, log.read_text(errors="replace")[-1_000_000:])


def _kinds(kubectl: Kubectl) -> list[str]:
    with suppress(CommandFailed):
        names = kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
        return [name for name in names if name.partition(".")[2].endswith(_GROUPS)]
    return []


def _save_controllers(access: Access, folder: Path) -> None:
    with suppress(CommandFailed):
        for pod in access.kubectl.list("pods"):
            namespace = pod["metadata"]["namespace"]
            if namespace in ("kubeflow", "mpi-operator") or namespace.endswith("-system"):
                _save_logs(access.kubectl, namespace, pod["metadata"]["name"], folder)


def _save_logs(kubectl: Kubectl, namespace: str, pod: str, folder: Path) -> None:
    for suffix, flags in (("", ()), ("-previous", ("--previous",))):
        argv = ("logs", pod, f"--namespace={namespace}", "--all-containers", "--prefix", "--tail=20000", *flags)
        _save(kubectl, folder / f"{pod}{suffix}.log", *argv)


def _save(kubectl: Kubectl, path: Path, *argv: str) -> None:
    with suppress(CommandFailed):
        _write(path, kubectl(*argv))


def _write(path: Path, text: str) -> None:
    if text.strip():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
