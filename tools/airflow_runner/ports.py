"""TCP ports for servers that start later."""

from __future__ import annotations

import errno
import random
import socket

#: Below the ports that Linux, macOS and Windows give to a socket that asks for any, such as a client's: no other
#: program gets such a port by chance before its server starts.
_PORTS = range(20_000, 32_000)
_TRIES = 100
# A test that seeds the common generator would have all processes choose the same port.
_random = random.SystemRandom()


def free_port() -> int:
    """
    A port of the loopback address that no server listens on.

    :raises OSError: many in a row are taken.
    """
    for _ in range(_TRIES):
        port = _random.choice(_PORTS)
        if _is_free(port):
            return port
    raise OSError(errno.EADDRINUSE, f"{_TRIES} ports between {_PORTS.start} and {_PORTS.stop} are all taken")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return False
    return True
