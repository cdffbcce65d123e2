"""What ``[trainer] log_replicas`` lets into a task's log, of a real job."""

from __future__ import annotations

import sys

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.spec import parse_spec

pytestmark = pytest.mark.local

SCRIPT = "import os; print('line of', os.environ['TRAINER_REPLICA'])"
JOB = {"framework": "jax", "num_nodes": 2, "command": [sys.executable, "-c", SCRIPT]}


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ("all", ["[worker-0] line of worker-0", "[worker-1] line of worker-1"]),
        ("leader", ["[worker-0] line of worker-0"]),
        ("none", []),
    ],
)
async def test_the_lines_of_these_replicas_are_shown(tmp_path, monkeypatch, option, shown):
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path / "jobs"))
    monkeypatch.setenv("AIRFLOW__TRAINER__LOG_REPLICAS", option)
    hook, job, lines = TrainerHook("local"), plan_job(parse_spec(JOB)), []
    backend = (await hook.choose(job)).backend
    handle = (await backend.submit(job, Identity(dag_id="d", run_id="r", task_id="t"))).handle

    await hook.wait(handle, emit=lines.append, reader="test", deadline=None)

    assert sorted(line for line in lines if line.startswith("[")) == shown
    # Why it waits, and how it ends, is shown in any case.
    assert lines[-1] == f"Training job {handle.name}: succeeded."
