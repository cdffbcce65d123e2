"""The cluster through kubectl: objects in and out as plain dicts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.reader import Reader
from tests.cluster.shell import CommandFailed, run


class Kubectl:
    """kubectl with one kubeconfig. What tests ask for again and again is read without a process.

    :param program: the kubectl to run.
    :param kubeconfig: cluster and credentials.
    """

    def __init__(self, program: str | Path, kubeconfig: str | Path) -> None:
        self.program = program
        self.kubeconfig = kubeconfig
        self._reader = Reader(kubeconfig)

    def __call__(self, *argv: str | Path, stdin: str | None = None, timeout: float = 180) -> str:
        """Run kubectl and return what it prints.

        :param timeout: seconds; enough for one apply of all controllers on a busy machine.
        :raises CommandFailed: with its error, or when it takes longer.
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
        return self._reader.get(kind, name, namespace)

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> list[dict[str, Any]]:
        """Read all objects of a kind."""
        return self._reader.list(kind, namespace, selector)

    def evict(self, pod: str, namespace: str, grace: int | None = 0) -> None:
        """Take a pod away through the API, as a drain does.

        :param grace: seconds between SIGTERM and the kill; None for the pod's own.
        """
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {} if grace is None else {"gracePeriodSeconds": grace},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        self("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def delete_pod(self, pod: str, namespace: str) -> None:
        """Delete a pod without grace."""
        self("delete", "pod", pod, f"--namespace={namespace}", "--force", "--grace-period=0")

    def ok(self, *argv: str, timeout: float = 30) -> bool:
        """Whether a kubectl command succeeds."""
        try:
            self(*argv, timeout=timeout)
        except CommandFailed:
            return False
        return True
