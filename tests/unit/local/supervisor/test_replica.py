"""How a replica's end is reported, by whatever code it ended with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.local.processes import (
    REPLICA_VARIABLE,
    UID_VARIABLE,
    end_all,
    processes_of,
    resident_bytes,
)
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


def test_the_processes_of_one_replica_are_found_alone():
    uid = uuid.uuid4().hex
    started = {
        name: subprocess.Popen(["sleep", "60"], env={**os.environ, UID_VARIABLE: uid, REPLICA_VARIABLE: name})
        for name in ("worker-0", "worker-1")
    }
    try:
        assert {each.pid for each in processes_of(uid)} == {each.pid for each in started.values()}
        assert [each.pid for each in processes_of(uid, "worker-1")] == [started["worker-1"].pid]
    finally:
        end_all(uid)
        for each in started.values():
            each.wait()


def test_the_memory_of_children_counts():
    child = f"{sys.executable} -c 'block = bytearray(64 << 20); print(1, flush=True); input()'"
    with subprocess.Popen(["sh", "-c", f"{child}; true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"1\n"
        held = resident_bytes(process.pid)
        process.communicate(b"\n")

    assert held > 64 << 20
    assert resident_bytes(process.pid) == 0


@pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (3, "Stopped")])
def test_a_process_may_complete_on_its_way_to_a_stop(process, tmp_path, code, reason):
    ready = tmp_path / "ready"
    script = f"trap 'exit {code}' TERM; touch {ready}; while true; do sleep 0.01; done"
    process.start(["sh", "-c", script], os.environ, tmp_path, tmp_path / "log")
    while not ready.exists():
        time.sleep(0.01)

    process.stop()
    while not process.poll():
        time.sleep(0.01)

    assert (process.status.exit_code, process.status.reason) == (code, reason)
