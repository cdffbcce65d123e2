"""What a replica's process is given, and what it is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.framework import Address
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.environment import inherited_environment, replica_environment, with_variables
from airflow_trainer_provider.local.machine import limited_to_cpus
from airflow_trainer_provider.local.ports import reserved_addresses
from airflow_trainer_provider.local.run_folder import AttemptFolders
from airflow_trainer_provider.spec import parse_spec


def test_a_variable_may_refer_to_another_in_either_order():
    given = {"URL": "https://$(TOKEN)@$(HOST)", "TOKEN": "$(USER)-1", "USER": "me", "ONE": "$(TWO)", "TWO": "$(ONE)"}

    env = with_variables({"HOST": "hub", "USER": "root"}, given)

    assert env["URL"] == "https://me-1@hub"
    # As Kubernetes leaves what refers to itself.
    assert (env["TWO"], env["ONE"]) == ("$(ONE)", "$(ONE)")


def test_the_users_variables_win(tmp_path):
    given = {"PYTHONUNBUFFERED": "", "NUM_PROCESSES": "9"}
    job = plan_job(parse_spec({"framework": "jax", "command": ["true"], "env": given}))
    addresses = {"worker-0": Address("127.0.0.1", 1)}

    env = replica_environment(job, job.leader, addresses, AttemptFolders(tmp_path), "name", "uid")

    assert given.items() <= env.items()
    assert (env["JAX_NUM_PROCESSES"], env["TRAINER_JOB_NAME"]) == ("1", "name")


def test_a_path_may_be_added_to_the_workers(tmp_path):
    (tmp_path / "trainme").touch(mode=0o755)
    spec = {"framework": "jax", "command": ["trainme"], "env": {"PATH": f"{tmp_path}:$(PATH)"}}

    LocalBackend(tmp_path / "root", 0.05, None).check(plan_job(parse_spec(spec)))


def test_airflows_secrets_stay_and_the_interpreters_programs_come_first(monkeypatch):
    for name in ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_DB", "__AIRFLOW_SUPERVISOR", "_AIRFLOW_X"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("MY_AIRFLOW_", "kept")

    env = inherited_environment()

    assert "hunter2" not in env.values()
    assert env["MY_AIRFLOW_"] == "kept"
    assert env["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert env["PATH"].endswith(os.environ["PATH"])


def test_ports_are_distinct_also_between_jobs():
    names = [f"worker-{index}" for index in range(50)]

    with reserved_addresses(names) as one, reserved_addresses(names) as other:
        assert len({address.port for address in (*one.values(), *other.values())}) == 100


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system binds no CPUs")
@pytest.mark.parametrize(("limit", "count"), [("1", 1), ("500m", 1), ("1.5", 2), ("4", 4), ("9", 4), (None, 4)])
def test_cpus_are_bound_while_inside(limit, count, monkeypatch):
    bound = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 5, 7})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: bound.append(set(cpus)))

    for rank in range(2):
        with limited_to_cpus(limit, rank):
            pass

    if limit is None:
        assert bound == []
    else:
        assert [len(cpus) for cpus in bound] == [count, 4, count, 4]
        assert bound[1] == bound[3] == {2, 3, 5, 7}
        assert count > 2 or not bound[0] & bound[2]


def test_the_users_variables_win_in_the_rendered_job_too(tmp_path):
    job = plan_job(parse_spec({"framework": "jax", "command": ["true"], "env": {"JAX_NUM_PROCESSES": "9"}}))

    text = LocalBackend(tmp_path, 0.05, None).render(job, Identity(dag_id="d", run_id="r", task_id="t"))

    (replica,) = yaml.safe_load(text)["replicas"]
    assert replica["env"]["JAX_NUM_PROCESSES"] == "9"
