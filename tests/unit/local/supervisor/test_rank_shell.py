"""Which replica's log has the lines of rank 0, of those that a launcher starts."""

from __future__ import annotations

import os
import subprocess

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.local.run_folder import AttemptFolders
from airflow_trainer_provider.local.supervisor.rank_shell import first_exits, leader_of, wrapped_argv
from airflow_trainer_provider.spec import parse_spec


@pytest.mark.parametrize(
    ("spec", "leader"),
    [
        ({"framework": "mpi", "num_nodes": 2}, "worker-0"),
        ({"framework": "mpi", "num_nodes": 2, "launcher": {"name": "mpirun", "is_node": True}}, "launcher-0"),
        # These lines come as mpirun writes them.
        ({"framework": "mpi", "num_nodes": 2, "command": ["mpirun", "python", "train.py"]}, "launcher-0"),
        ({"framework": "pytorch", "num_nodes": 2, "num_proc_per_node": 2}, "master-0"),
        ({"framework": "pytorch", "elastic": {"min_nodes": 1, "max_nodes": 2}}, "worker-0"),
        ({"framework": "tensorflow", "num_nodes": 2}, "chief-0"),
        ({"framework": "jax", "num_nodes": 2}, "worker-0"),
    ],
)
def test_the_leader_is_the_replica_whose_log_has_the_lines_of_rank_0(spec, leader):
    job = plan_job(parse_spec({"command": ["python", "train.py"], **spec}))

    assert leader_of(job).name == leader


def test_the_nodes_are_in_the_order_in_which_they_failed(tmp_path):
    for at, (name, code) in enumerate({"worker-1": "3\n", "worker-0": "1\n", "worker-2": ""}.items()):
        (tmp_path / name).write_text(code)
        os.utime(tmp_path / name, (1000 + at, 1000 + at))

    assert list(first_exits(tmp_path).items()) == [("worker-1", 3), ("worker-0", 1), ("worker-2", 1)]


def test_the_exit_code_of_a_node_is_that_of_its_first_rank_to_fail(tmp_path):
    folders = AttemptFolders(tmp_path)
    folders.create()
    spec = {"framework": "mpi", "num_nodes": 2, "num_proc_per_node": 2}
    job = plan_job(parse_spec({**spec, "command": ["sh", "-c", "echo from $RANK; exit $CODE"]}))
    shell = wrapped_argv(job, job.leader, folders)[len(job.leader.launcher) :]
    for rank, code in ((3, 5), (2, 7), (0, 0)):
        env = {**os.environ, job.framework.rank_variable: str(rank), "RANK": str(rank), "CODE": str(code)}
        assert subprocess.run(shell, env=env, check=False).returncode == code

    assert first_exits(folders.exits) == {"worker-1": 5}
    assert (folders.logs / "worker-1.log").read_text().splitlines() == [
        "from 3",
        "process rank 3 with exit code 5",
        "from 2",
        "process rank 2 with exit code 7",
    ]
    assert (folders.logs / "worker-0.log").read_text() == "from 0\n"
