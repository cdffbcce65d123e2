"""How a replica's end is reported, by whatever code it ended with."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.local.supervisor.replica import ReplicaProcess
from airflow_trainer_provider.spec import parse_spec


@pytest.fixture
def process():
    (replica,) = plan_job(parse_spec({"framework": "jax", "command": ["true"]})).replicas
    return ReplicaProcess(replica, 0, 0)


@pytest.mark.parametrize("code", range(256))
def test_a_rank_may_end_with_any_exit_code(process, code):
    process.started_elsewhere()
    process.ended_elsewhere(code)

    status = process.status
    signals = {128 + number: number.name for number in signal.Signals}
    assert status.shell_code == code
    assert (status.signal, status.exit_code) == ((signals[code], None) if code in signals else (None, code))
    assert status.reason == ("Error" if code else "Completed")


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="macOS has no real-time signals")
def test_a_process_may_end_by_a_signal_without_a_name(process, tmp_path):
    number = signal.SIGRTMIN + 1
    command = [sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})"]
    process.start(command, os.environ, tmp_path, tmp_path / "log")
    while not process.poll():
        time.sleep(0.01)

    assert (process.status.exit_code, process.status.signal) == (128 + number, None)
    assert process.status.failed
