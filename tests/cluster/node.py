"""The node as seen from the machine: one supervisor process in namespaces of its own, and what runs under it."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cluster import cgroups, network
from tests.cluster.kernel import KernelSettings
from tests.cluster.paths import ROOT, STATE
from tests.cluster.processes import Process, boot_id, pid_namespace, wait_until_empty

#: Written by the node's first process about itself, before it does anything else.
_IDENTITY = STATE / "node.stat"
_CONTROL = STATE / "control.sock"
_LOGS = STATE / "log"
#: Mount points that only some machines have; the node covers them with its own file systems.
_CNI_CACHE = Path("/var/lib/cni")


class NodeError(RuntimeError):
    """The node, or a component of it, does not do what it should."""


class Node:
    """Starts, ends and talks to the node. There is at most one on a machine."""

    @property
    def running(self) -> bool:
        """Whether the node's supervisor answers."""
        process = self._process()
        if process is None or not process.alive:
            return False
        with suppress(OSError, NodeError):
            self._ask({"op": "status"})
            return True
        return False

    def start(self) -> None:
        """Make the namespaces and start the supervisor in them.

        :raises NodeError: when the API server's port is taken, or the supervisor does not come up.
        """
        self.end()
        for folder in (STATE, _LOGS, _CNI_CACHE):
            folder.mkdir(parents=True, exist_ok=True)
        STATE.chmod(0o700)
        KernelSettings.save(STATE / "kernel.json")
        cgroups.create()
        with _listener() as listener, (_LOGS / "supervisor.log").open("ab") as log:
            subprocess.Popen(
                _command(listener.fileno()),
                pass_fds=[listener.fileno()],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(lambda: self.running, "the node's supervisor", seconds=60, log=_LOGS / "supervisor.log")

    def end(self) -> None:
        """End every process of the node and remove what it left on disk. Does nothing when there is no node."""
        process = self._process()
        if process is not None:
            namespaces = {pid_namespace(pid) for pid in process.children()} - {pid_namespace(1), None}
            process.kill()
            for namespace in namespaces:
                wait_until_empty(str(namespace))
            KernelSettings.restore(STATE / "kernel.json")
        cgroups.remove()
        shutil.rmtree(STATE, ignore_errors=True)
        with suppress(OSError):  # Not there, or in use by something that is not ours.
            _CNI_CACHE.rmdir()

    def run(self, name: str, argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
        """Start a component, unless it runs already. Its output goes to ``<name>.log`` in the state folder."""
        words = [str(word) for word in argv]
        self._ask({"op": "start", "name": name, "argv": words, "env": dict(env), "log": str(self.log(name))})

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a component that runs."""
        self._ask({"op": "signal", "name": name, "number": int(number)})

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM, seconds: float = 30) -> None:
        """End a component and wait for its end.

        :param number: signal to send; after ``seconds`` SIGKILL follows.
        """
        self.send(name, number)
        try:
            wait_for(lambda: not self.alive(name), f"the end of {name}", seconds=seconds)
        except TimeoutError:
            self.send(name, signal.SIGKILL)
            wait_for(lambda: not self.alive(name), f"the end of {name}", seconds=30)

    def alive(self, name: str) -> bool:
        """Whether a component runs."""
        status = self.components().get(name)
        return status is not None and status["exit"] is None

    def check(self) -> None:
        """Find out whether a component has ended by itself.

        :raises NodeError: with the end of its log.
        """
        for name, status in self.components().items():
            if status["exit"] is not None:
                raise NodeError(f"{name} exited with {status['exit']}:\n{_tail(self.log(name))}")

    def components(self) -> dict[str, dict[str, Any]]:
        """Every component ever started on this node, with its pid (in the node) and exit status."""
        found: dict[str, dict[str, Any]] = self._ask({"op": "status"})["components"]
        return found

    def log(self, name: str) -> Path:
        """Log file of a component."""
        return _LOGS / f"{name}.log"

    def _process(self) -> Process | None:
        try:
            stat, boot = _IDENTITY.read_text().splitlines()
            process = Process.from_stat(stat, boot)
        except (FileNotFoundError, ValueError, IndexError):
            return None
        return process if process.boot == boot_id() else None

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(90)
            try:
                connection.connect(str(_CONTROL))
            except OSError as error:
                raise NodeError(f"no node is running on this machine ({error}): make cluster-up") from error
            with connection.makefile("rw") as stream:
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                answer: dict[str, Any] = json.loads(stream.readline())
        if "error" in answer:
            raise NodeError(f"{request}: {answer['error']}")
        return answer


def wait_for(
    ready: Callable[[], bool], what: str, *, seconds: float, log: Path | None = None, pause: float = 0.1
) -> None:
    """Wait until something is so.

    :param what: what is waited for, for the error.
    :param log: file whose end explains why it did not happen.
    :raises TimeoutError: when it is not so in time.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {seconds:.0f} s\n{_tail(log) if log else ''}".strip())
        time.sleep(pause)


def _tail(log: Path) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    return f"The end of {log}:\n{text[-3000:]}"


def _listener() -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", network.API_PORT))
    except OSError as error:
        listener.close()
        raise NodeError(f"port {network.API_PORT} of this machine, for the API server, is taken: {error}") from error
    listener.listen(512)
    return listener


def _command(descriptor: int) -> list[str]:
    # The shell writes down who it is and becomes unshare: there is no moment at which the node runs unrecorded.
    record = 'cat /proc/$$/stat /proc/sys/kernel/random/boot_id > "$0.new" && mv "$0.new" "$0" && exec "$@"'
    namespaces = ["--mount", "--net", "--pid", "--ipc", "--uts", "--propagation", "slave", "--mount-proc"]
    # The supervisor dies with unshare, and everything in its PID namespace dies with the supervisor.
    unshare = ["unshare", *namespaces, "--fork", "--kill-child"]
    supervisor = [sys.executable, "-m", "tests.cluster.supervisor", str(descriptor), str(_CONTROL)]
    return ["sh", "-c", record, str(_IDENTITY), *unshare, *supervisor]
