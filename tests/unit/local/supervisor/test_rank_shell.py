"""Which replica's log has the lines of rank 0, of those that a launcher starts."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.local.supervisor.rank_shell import leader_of
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
