"""The first process inside the node's namespaces: sets them up, starts and ends the node's components on request,
and carries connections from a loopback port of the machine to the API server inside.

It is PID 1 of its PID namespace: when it dies, the kernel ends every process of the node with it, and what they
mounted and configured goes with their namespaces. That is what makes ``down`` complete by construction.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cluster import network

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Children:
    """Starts processes, and reaps these and all that is left to PID 1."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: dict[str, int] = {}
        self._exits: dict[int, int] = {}

    def start(self, name: str, argv: list[str], env: dict[str, str], log: str) -> None:
        """Start a component, unless it is running.

        :param log: file that its output is appended to.
        """
        with self._lock:
            if self._alive(name):
                return
            with Path(log).open("ab") as out:
                # Under the lock, so that the reaper knows the pid before it can report the exit.
                child = subprocess.Popen(
                    argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
                )
            self._exits.pop(child.pid, None)
            self._pids[name] = child.pid
            child.returncode = 0  # The reaper waits for it, not this object.

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a running component."""
        with self._lock:
            if self._alive(name):
                os.kill(self._pids[name], number)

    def status(self) -> dict[str, dict[str, Any]]:
        """For each component ever started: its pid and exit status (None while it runs)."""
        with self._lock:
            return {name: {"pid": pid, "exit": self._exits.get(pid)} for name, pid in self._pids.items()}

    def reap_forever(self) -> None:
        """Wait for every child, adopted ones too."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                time.sleep(0.05)
                continue
            with self._lock:
                if pid in self._pids.values():
                    self._exits[pid] = os.waitstatus_to_exitcode(status)

    def _alive(self, name: str) -> bool:
        return name in self._pids and self._pids[name] not in self._exits


def set_up_mounts() -> None:
    """Give the node its own /run and /var/log, and make mounts reach containers but not the machine."""
    _sh("mount", "--make-rshared", "/")
    for folder in ("/run", "/var/log", "/var/lib/cni"):
        _sh("mount", "-t", "tmpfs", "tmpfs", folder)


def set_up_network() -> None:
    """Addresses and routes of the node.

    There is no default route and no link to the outside: a pod that dials out is refused at once.
    """
    _sh("ip", "link", "set", "lo", "up")
    _sh("ip", "addr", "add", f"{network.NODE_ADDRESS}/32", "dev", "lo")
    # Lets a connection to a Service leave the routing step; kube-proxy's rules then give it its real destination.
    _sh("ip", "route", "add", network.SERVICE_CIDR, "dev", "lo", "src", network.NODE_ADDRESS)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def forward(listener: socket.socket) -> None:
    """Carry each connection of a socket that listens outside to the API server inside."""
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_carry, args=(client,), daemon=True).start()


def _carry(client: socket.socket) -> None:
    try:
        server = socket.create_connection(("127.0.0.1", network.API_PORT))
    except OSError:
        # Seen from outside like a server that is gone: the connection is reset.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        client.close()
        return
    for one in (client, server):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    back = threading.Thread(target=_copy, args=(server, client), daemon=True)
    back.start()
    _copy(client, server)
    back.join()
    client.close()
    server.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(1 << 16):
            target.sendall(chunk)
    for one, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            one.shutdown(how)


def serve(children: Children, control: Path) -> None:
    """Answer requests, one JSON line each, on a Unix socket."""
    control.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control))
        listener.listen()
        while True:
            connection, _ = listener.accept()
            # A client that says nothing, or that is gone, must not keep others waiting.
            connection.settimeout(10)
            with suppress(OSError), connection, connection.makefile("rw") as stream:
                stream.write(json.dumps(_answer(children, stream.readline())) + "\n")


def _answer(children: Children, line: str) -> dict[str, Any]:
    try:
        request = json.loads(line)
        operation = request.pop("op")
        if operation == "start":
            children.start(**request)
        elif operation == "signal":
            children.signal(**request)
        return {"components": children.status()}
    except Exception as error:  # Whatever it was: the caller has to hear of it, and the node has to live on.
        return {"error": f"{type(error).__name__}: {error}"}


def _sh(*argv: str) -> None:
    subprocess.run(argv, check=True)


def main() -> None:
    """``python -m tests.cluster.supervisor LISTENER_FD CONTROL_SOCKET``, under unshare(1)."""
    # Each connection to the API server takes two descriptors here; what is started inherits the limit.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Opened before the namespaces were made, so it listens in the machine's network namespace.
    listener = socket.socket(fileno=int(sys.argv[1]))
    set_up_mounts()
    set_up_network()
    children = Children()
    threading.Thread(target=children.reap_forever, daemon=True).start()
    threading.Thread(target=forward, args=(listener,), daemon=True).start()
    serve(children, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
