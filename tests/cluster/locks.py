"""Locks between processes on this machine. A lock ends with its holder."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Seconds to wait for a holder that may build everything first, which takes twenty minutes.
BUILD = 2400
_PAUSE = 0.2


@contextmanager
def locked(path: Path, seconds: float = 600) -> Iterator[None]:
    """Hold a lock. Who waits for it prints the holder.

    :param path: the lock's file, which names its holder.
    :param seconds: to wait.
    :raises TimeoutError: when another process holds it for longer, with the holder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as handle:
        deadline, waits = time.monotonic() + seconds, False
        while not _taken(handle.fileno()):
            holder = path.read_text() or "a process that has just taken it"
            if time.monotonic() > deadline:
                raise TimeoutError(f"for {seconds:.0f} s {path} has been held by {holder}")
            if not waits:
                print(f"waiting for {path}, held by {holder} ...", flush=True)
            waits = True
            time.sleep(_PAUSE)
        handle.truncate(0)
        handle.write(f"pid {os.getpid()}: {' '.join(sys.argv)}")
        handle.flush()
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
