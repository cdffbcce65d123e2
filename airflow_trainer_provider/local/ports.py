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

    All are held at once, so that no two replicas, and no other job on this machine that reserves at the same
    time, get the same. A program that binds port 0 may still take one in the moment before its replica does; the
    framework then fails to bind, and the job's retries see to it.

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
