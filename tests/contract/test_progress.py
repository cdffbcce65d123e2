"""What a script reports by its lines is known soon, and whoever waits next goes on from there."""

from __future__ import annotations

import asyncio
import json
import time

from airflow_trainer_provider.job.follow import end_of, follow
from airflow_trainer_provider.job.progress.reporter import Reporter
from airflow_trainer_provider.job.status import JobPhase

_SCRIPT = """
def say(*steps):
    for step in steps:
        print(f"step {step} loss={1 / step:.4f}", flush=True)
        report = {"total_steps": 20, "metrics": {"acc": step / 20}, "checkpoint": {"path": f"/c/{step}"}}
        print("INFO " + json.dumps({"trainer_progress": report}), flush=True)
    note("said", str(time.time()))

say(*range(1, 6))
wait_for("more")
say(*range(6, 11))
wait_for("go")
say(11)
"""
_METRICS = {"step": r"step (\d+)", "loss": r"loss=([\d.]+)"}


class _XCom:
    """What was written, as XCom has it."""

    def __init__(self):
        self.values, self.times = {}, {}

    async def write(self, read, is_last):
        for key, value in read().items():
            self.values[key] = json.loads(json.dumps(value, allow_nan=False))
            self.times.setdefault((key, value.get("step")), time.time())

    @property
    def step(self):
        return self.values.get("progress", {}).get("step")

    def reporter(self, handle):
        async def load(is_last):
            return dict(self.values)

        return Reporter(handle, _METRICS, self.write, load)


def _wait(contract, handle, xcom):
    waiting = follow(
        contract.backend,
        handle,
        emit=contract.lines.append,
        reader="contract",
        deadline=None,
        reporter=xcom.reporter(handle),
    )
    return asyncio.ensure_future(waiting)


async def test_reports_are_known_soon_and_survive_whoever_waits(contract):
    handle, xcom = await contract.submit(contract.case.job(_SCRIPT, nodes=1)), _XCom()
    first = _wait(contract, handle, xcom)
    await contract.until(lambda: first.done() or xcom.step == 5)
    assert xcom.times["progress", 5] - float(contract.noted("said")[0]) < 60
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    # Lines that the log gets, and that no snapshot has.
    contract.release("more")
    async with end_of(contract.backend, handle) as ended:
        lines = contract.backend.logs(handle, "contract", ended)
        contract.lines += [str(await anext(lines)) for _ in range(10)]
        await lines.aclose()
    second = _wait(contract, handle, xcom)
    await contract.until(lambda: second.done() or xcom.step == 10)
    contract.release("go")
    status = await second

    assert status.phase is JobPhase.SUCCEEDED
    progress = xcom.values["progress"]
    assert (progress["step"], progress["total_steps"], progress["percent"]) == (11, 20, 55.0)
    assert progress["metrics"] == {"loss": 0.0909, "acc": 0.55}
    assert progress["checkpoint"]["path"] == "/c/11"
    assert progress["restarts"] == []
    for name in ("loss", "acc"):
        assert [entry["step"] for entry in progress["history"][name]] == [list(range(1, 12))]
    assert sum("loss=" in line for line in contract.lines) == 11
    replica = xcom.values["status"]["replicas"][0]
    assert replica["name"] == contract.case.leader
    states = [state for state, _, _ in replica["segments"]]
    assert "running" in states
    assert all(end is not None for _, _, end in replica["segments"])
