"""The launcher: a name, or a mapping with settings of MPI's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.spec import TrainJobSpec, parse_spec


def spec(launcher: Any) -> TrainJobSpec:
    return parse_spec({"framework": "mpi", "command": ["x"], "launcher": launcher})


@pytest.mark.parametrize("given", [{"name": "auto"}, {"name": "mpirun"}, {"name": "mpiexec"}, {}])
def test_a_mapping_of_a_name_alone_is_the_name(given):
    assert spec(given) == spec("auto")


def test_a_mapping_may_run_the_command_as_it_is():
    found = spec({"name": "none", "is_node": "true"})

    assert (found.mpi.name, found.mpi.is_node) == ("none", True)
    assert plan_job(found).leader.launcher == ()


def test_a_launcher_that_is_a_node_counts_as_one():
    job = plan_job(parse_spec({"framework": "mpi", "command": ["x"], "launcher": {"is_node": True}, "num_nodes": 3}))

    assert [replica.name for replica in job.nodes] == ["launcher-0", "worker-0", "worker-1"]


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({"name": "srun"}, "launcher.name", "auto, none"),
        ({"implementation": "OpenMpi"}, "launcher.implementation", "OpenMPI, Intel, MPICH"),
        ({"is_node": 2}, "launcher.is_node", "true or false"),
        ({"ssh_mount_path": ".ssh"}, "launcher.ssh_mount_path", "an absolute path"),
        ({"slots": 2}, "launcher.slots", "name, implementation, is_node, ssh_mount_path"),
        ("{'is_node': True}", "launcher", "auto, none, or a mapping"),
        (["mpirun"], "launcher", "auto, none"),
    ],
)
def test_what_is_wrong(given, field, allowed):
    with pytest.raises(SpecError) as caught:
        spec(given)

    problem = next(each for each in caught.value.problems if each.field == field)
    assert allowed in problem.allowed


def test_other_frameworks_have_no_settings():
    with pytest.raises(SpecError, match="PyTorch has no launcher with settings"):
        plan_job(parse_spec({"framework": "pytorch", "command": ["x"], "launcher": {"is_node": True}}))
