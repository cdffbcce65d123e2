"""The one Airflow of this checkout: it outlives the command that starts it, and the next command finds it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from tools.airflow_runner.code import CHECKOUT, code_digest
from tools.airflow_runner.expiry import expires, start_expiry, stop_expiry
from tools.airflow_runner.instance import AirflowInstance, is_healthy
from tools.airflow_runner.record import Record, end_recorded, read_record, recorded_url

DAGS = CHECKOUT / "dags"
HOME = CHECKOUT / ".airflow" / "up"


def up() -> str:
    """Start Airflow, unless it is up with the current code, and keep it running. Return its address."""
    with _one_at_a_time():
        record = _reusable() or _start()
        stop_expiry(record)
    return record.url


def up_for(seconds: float) -> tuple[str, bool]:
    """
    Start Airflow for a limited time, or use the one that is up.

    :param seconds: from now; without effect on an Airflow that :func:`up` keeps running.
    :return: its address, and whether it will end by itself.
    """
    with _one_at_a_time():
        before = read_record(HOME) if recorded_url(HOME) else None
        stays = before is not None and not expires(before)
        record = _reusable() or _start()
        if not stays:
            start_expiry(record, seconds)
    return record.url, not stays


def down() -> bool:
    """End Airflow and every process that it started; return whether it was up."""
    was_up = recorded_url(HOME) is not None
    end_recorded(HOME)
    return was_up


def _reusable() -> Record | None:
    record = read_record(HOME)
    if record is None or recorded_url(HOME) is None:
        return None
    if record.code != code_digest():
        print("The code has changed since Airflow was started.", flush=True)
        return None
    return record if is_healthy(record.url) else None


def _start() -> Record:
    print("Starting Airflow ...", flush=True)
    return AirflowInstance(HOME, [DAGS]).start().record


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let a second command wait for the Airflow that a first one is starting."""
    HOME.parent.mkdir(exist_ok=True)
    with (HOME.parent / "up.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
