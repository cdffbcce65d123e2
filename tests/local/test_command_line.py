"""The command line in a process of its own, interrupted by a signal as a terminal sends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import yaml

from airflow_trainer_provider.local.processes import end_all, processes_of

pytestmark = pytest.mark.local

SCRIPT = "import time; print('begun', flush=True); time.sleep(300)"


@pytest.fixture(autouse=True)
def interruptible():
    """Processes that tests start heed SIGINT. A shell that runs the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_wait_exits_with_130_and_the_job_goes_on(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({"framework": "jax", "command": [sys.executable, "-c", SCRIPT]}))
    env = os.environ | {"AIRFLOW__TRAINER__LOCAL_ROOT": str(tmp_path / "jobs"), "PYTHONUNBUFFERED": "1"}
    argv = [sys.executable, "-m", "airflow_trainer_provider", "submit", str(file), "--backend", "local", "--wait"]
    # In a session of its own: the signal reaches the command and whatever is in its process group.
    command = subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    uid = json.loads(command.stdout.readline())["uid"]
    try:
        while "begun" not in command.stdout.readline():
            assert command.poll() is None
        os.killpg(command.pid, signal.SIGINT)

        _, output = command.communicate(timeout=90)

        assert command.returncode == 130, output
        assert output.endswith("Interrupted; the job, if there is one, goes on.\n")
        assert "Traceback" not in output
        assert processes_of(uid)
    finally:
        end_all(uid)
