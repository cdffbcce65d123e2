"""The folder for checkpoints on this machine: which it is, and that it can be made."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.checkpoint import DIR_VARIABLE
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.checkpoints import checkpoint_folder, with_checkpoint_folder
from airflow_trainer_provider.local.environment import with_variables
from airflow_trainer_provider.spec import parse_spec

IDENTITY = Identity(dag_id="Nightly", run_id="monday", task_id="train")


def _job(checkpoint):
    return plan_job(parse_spec({"framework": "jax", "num_nodes": 2, "command": ["true"], "checkpoint": checkpoint}))


def test_a_job_without_one_is_left_alone():
    job = _job(None)

    assert with_checkpoint_folder(job, IDENTITY) is job


def test_on_this_machine_it_is_the_folder_itself(tmp_path):
    job = _job({"host_path": f"{tmp_path}/$(PATH)/$$(PATH)$x/$(1)", "path": "runs", "scope": "dag"})

    (first, _) = with_checkpoint_folder(job, IDENTITY).replicas

    folder = tmp_path / "$(PATH)" / "$$(PATH)$x" / "$(1)" / "runs" / IDENTITY.folder_name("dag")
    assert checkpoint_folder(job, IDENTITY) == folder
    assert with_variables({"PATH": "/bin"}, first.texts)[DIR_VARIABLE] == str(folder)
    assert first.volumes == ()


async def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    backend = LocalBackend(tmp_path / "jobs", 0.05, None)

    with pytest.raises(SubmitError, match=r"file/.* cannot be made .*; correct checkpoint.host_path"):
        await backend.submit(_job({"host_path": str(tmp_path / "file")}), IDENTITY)

    assert not list((tmp_path / "jobs").glob("*/job.json"))
