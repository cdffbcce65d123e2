"""Free ports on the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from airflow_trainer_provider.job.plan.framework import Address

LOOPBACK = "127.0.0.1"


@contextmanager
def reserved_addresses(names: Iterable[str]) -> Iterator[dict[str, Address]]:
    """Reserve one free port for each replica; the ports are released on leaving.

    All ports are held at once, so that no two replicas, and no other job that reserves ports on this machine at the
    same time, get the same one. A program that binds port 0 may still take a port just before its replica does. The
    framework then fails to bind, and the job's retries handle that.

    :param names: the replicas' names.
    :return: name -> address.
    """
    with ExitStack() as stack:
        addresses = {}
        for name in names:
            reservation = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            reservation.bind((LOOPBACK, 0))
            addresses[name] = Address(LOOPBACK, reservation.getsockname()[1])
        yield addresses
