"""A training that is interrupted goes on from its last finished checkpoint, in the same job and in the next try's."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from airflow_trainer_provider.functions.code import code_of
from airflow_trainer_provider.job.result import RESULT_LIMIT_BYTES, summarize
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.spec.running.function import FUNCTION_COMMAND

#: Every so many steps there is a checkpoint; the interruption comes in the middle between two.
EVERY, INTERRUPTED, STEPS = 5, 7, 12


def replaced(path, text):
    draft = path.with_name(f".{path.name}.new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def train():
    folder, shared = Path(os.environ["TRAINER_CHECKPOINT_DIR"]), Path(os.environ["SHARED"])
    found = os.environ.get("TRAINER_RESUME_FROM")
    step = int(Path(found).read_text()) if found else 0

    def save():
        replaced(folder / f"step-{step}", str(step))
        replaced(folder / "LATEST", f"step-{step}")
        with (shared / "saved").open("a") as file:
            file.write(f"{step}\n")

    def stop(number, frame):
        save()
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    while step < STEPS:
        step += 1
        with (shared / "steps").open("a") as file:
            file.write(f"{step}\n")
        if step % EVERY == 0:
            save()
        while step == INTERRUPTED and not found:
            time.sleep(0.05)
    return {"step": step, "from": found and Path(found).name}


@pytest.mark.parametrize("limit", [0, 1])
async def test_an_interrupted_training_goes_on_from_its_last_finished_checkpoint(contract, limit):
    case = contract.case
    code = {"name": "train", "files": code_of(train, None, ()).call([], {}, RESULT_LIMIT_BYTES)}
    job = case.job(
        "",
        nodes=1,
        command=list(FUNCTION_COMMAND),
        function=code,
        checkpoint={"host_path": str(case.shared), "path": "runs"},
        run_policy={"backoff_limit": limit, "grace_period_seconds": 20},
    )
    handle = await contract.submit(job)
    await contract.until(lambda: len(contract.noted("steps")) == INTERRUPTED)

    case.interrupt(handle)
    status = await contract.end(handle)
    if status.phase is JobPhase.FAILED:
        # No restart is left, or its controller takes none: the next try of the task submits the job again.
        handle, status = await contract.run(job, 2)

    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    saved = INTERRUPTED if case.asks_to_end else EVERY
    assert contract.noted("steps") == [*map(str, range(1, INTERRUPTED + 1)), *map(str, range(saved + 1, STEPS + 1))]
    (folder,) = (case.shared / "runs").iterdir()
    assert (folder / "LATEST").read_text() == "step-10"
    assert summarize(handle, status, await contract.backend.result(handle))["result"]["from"] == f"step-{saved}"
    assert [line for line in contract.lines if f"the training resumes from {_seen(case, folder)}/step-{saved} " in line]


def _seen(case, folder):
    """The path by which the replicas know the folder."""
    return folder if case.backend.name == "local" else "/mnt/trainer-checkpoints"
