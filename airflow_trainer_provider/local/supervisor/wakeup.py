"""Sleeps until a child process ends, SIGTERM arrives, or the time is up."""

from __future__ import annotations

import select
import signal
import socket
from types import FrameType


class Wakeup:
    """Takes over SIGCHLD and SIGTERM of this process. Only the main thread may create one."""

    def __init__(self) -> None:
        self.terminated = False
        self._reader, writer = socket.socketpair()
        self._reader.setblocking(False)
        writer.setblocking(False)
        self._writer = writer
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._terminate)

    def wait(self, seconds: float) -> None:
        """Sleep until the time is up or a signal arrives; not at all where one has arrived before the call."""
        if select.select([self._reader], [], [], max(0.0, seconds))[0]:
            self._reader.recv(4096)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True
