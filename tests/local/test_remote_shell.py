"""The variables that name mpirun's remote shell are those that mpirun reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_trainer_provider.frameworks.mpi import FRAMEWORK


@pytest.mark.local
def test_mpirun_reaches_other_hosts_by_the_program_that_the_variables_name(tmp_path: Path):
    shell, called = tmp_path / "shell", tmp_path / "called"
    shell.write_text(f'#!/bin/sh\necho "$1 $2 $3" >>{called}\nexit 255\n')
    shell.chmod(0o755)
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("one.invalid slots=1\n")
    variables = dict.fromkeys(FRAMEWORK.remote_shell_variables, f"{shell} -F config")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    subprocess.run(
        [str(Path(sys.executable).parent / "mpirun"), "--hostfile", str(hostfile), "true"],
        env={**os.environ, **allowed, **variables},
        capture_output=True,
        timeout=180,
        check=False,
    )

    # Open MPI 4 cuts the domain off.
    assert called.read_text().split()[:2] == ["-F", "config"]
    assert called.read_text().split()[2].partition(".")[0] == "one"
