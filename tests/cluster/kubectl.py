"""The cluster through kubectl: objects in and out as plain dicts."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.shell import CommandFailed, run


class Kubectl:
    """kubectl with one kubeconfig.

    :param program: the kubectl to run.
    :param kubeconfig: cluster and credentials.
    """

    def __init__(self, program: str | Path, kubeconfig: str | Path) -> None:
        self.program = program
        self.kubeconfig = kubeconfig

    def __call__(self, *argv: str | Path, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl and return what it prints.

        :raises CommandFailed: with its error.
        """
        return run(self.program, f"--kubeconfig={self.kubeconfig}", *argv, stdin=stdin, timeout=timeout)

    def apply(self, documents: Sequence[dict[str, Any]], *flags: str) -> None:
        """Create objects, or change them to what is given. Unknown fields are errors."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
        self("apply", "--server-side", "--force-conflicts", "--validate=strict", *flags, "-f", "-", stdin=text)

    def apply_until_accepted(self, documents: Sequence[dict[str, Any]], *flags: str, seconds: float) -> None:
        """Apply, again and again while webhooks do not answer yet.

        A controller that is ready may have a webhook that is not: its certificate takes a while to get around.

        :raises CommandFailed: with the last refusal, when there is still one after ``seconds``.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.apply(documents, *flags)
            except CommandFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """Read one object, or None when there is none."""
        where = [f"--namespace={namespace}"] if namespace else []
        text = self("get", kind, name, *where, "--ignore-not-found", "-o", "json")
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> list[dict[str, Any]]:
        """Read all objects of a kind."""
        where = [f"--namespace={namespace}"] if namespace else ["--all-namespaces"]
        chosen = [f"--selector={selector}"] if selector else []
        items: list[dict[str, Any]] = json.loads(self("get", kind, *where, *chosen, "-o", "json"))["items"]
        return items

    def ok(self, *argv: str, timeout: float = 10) -> bool:
        """Whether a kubectl command succeeds."""
        try:
            self(*argv, timeout=timeout)
        except (CommandFailed, subprocess.TimeoutExpired):
            return False
        return True
