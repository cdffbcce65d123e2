"""What a training reports while it runs is in the log, and its metrics are in XCom."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.paths import HERE
from tests.contract.test_progress import *  # noqa: F403


async def test_progress_and_metrics(contract):
    if contract.backend.name != "trainer":
        pytest.skip("only Kubeflow Trainer has a place for it")
    script = (HERE / "job_manifests" / "scripts" / "report_progress.py").read_text()

    handle = await contract.submit(contract.case.job(f'{script}\nwait_for("go")', nodes=1))
    following = asyncio.ensure_future(contract.end(handle))
    await contract.until(lambda: any("% done" in line and "loss 0.25" in line for line in contract.lines))
    contract.release("go")

    status = await following
    assert status.phase is JobPhase.SUCCEEDED
    assert summarize(handle, status, await contract.backend.result(handle))["metrics"] == {"loss": 0.25}
