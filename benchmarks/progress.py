"""What the progress of many jobs costs the process that waits for them: the same wait, with reports and without.

Each job writes a line a second, in which regular expressions find a step and a metric, and has a full history. The
jobs are made up, and so is Airflow: it takes a while for each write, as the process that supervises a triggerer does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timezone
from typing import Any, cast

from airflow_trainer_provider.hooks.masking import masked
from airflow_trainer_provider.hooks.supervisor.ask import ask
from airflow_trainer_provider.hooks.supervisor.queue import RequestQueue, Turn
from airflow_trainer_provider.job.backend import Backend, LogLine, Tracked
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.progress.reporter import Reporter, Values
from airflow_trainer_provider.job.progress.tracker import Tracker
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from benchmarks.report import heading, table, verdict

JOBS = 1000
SECONDS = 60.0
MOST_CORES = 0.5
#: What a write takes in Airflow's supervisor and API server, in seconds.
_WRITE_SECONDS = 0.01
_METRICS = {"step": r"step (\d+)", "loss": r"loss=([\d.]+)"}
_NOW = datetime.now(timezone.utc)


class _Backend:
    """A job that runs, and whose leader writes a line a second."""

    async def watch(self, handle: JobHandle) -> AsyncIterator[JobStatus]:
        replica = ReplicaStatus(group="worker", index=0, started_at=_NOW)
        yield JobStatus(phase=JobPhase.RUNNING, queued_at=_NOW, started_at=_NOW, replicas=(replica,))
        await asyncio.Event().wait()

    async def logs(
        self, handle: JobHandle, reader: str, ended: asyncio.Event, tracked: Tracked | None = None
    ) -> AsyncIterator[LogLine]:
        await asyncio.sleep(int(handle.uid) % 100 / 100)
        for step in range(1000, 10**9):
            yield LogLine("worker-0", f"INFO epoch 3 step {step} loss={1 / step:.6f} lr=0.001", (step, 1), time.time())
            await asyncio.sleep(1)


class _Airflow:
    """Takes reports, as XCom does."""

    def __init__(self) -> None:
        self.writes = 0
        self.size = 0
        tracker = Tracker("0", "worker-0", _METRICS)
        for step in range(1000):
            tracker.observe(f"step {step} loss={1 / (step + 1):.6f}", _NOW.timestamp() - 1000 + step, (step, 1))
        self._earlier = tracker.snapshot()

    def reporter(self, handle: JobHandle) -> Reporter:
        async def load(is_last: bool) -> Mapping[str, Any]:
            earlier = {**(self._earlier or {}), "position": [handle.uid, 999, 1]}
            return {"progress": json.loads(json.dumps(earlier))}

        async def report(read: Any, is_last: bool) -> None:
            async def write() -> None:
                await ask(self._write, read())

            await RequestQueue.here().run(write, Turn.LAST if is_last else Turn.USUAL)

        return Reporter(handle, _METRICS, report, load)

    def _write(self, values: Values) -> None:
        for value in values.values():
            self.size = max(self.size, len(json.dumps(masked(value))))
        time.sleep(_WRITE_SECONDS)
        self.writes += 1


async def _measure(jobs: int, seconds: float, airflow: _Airflow | None) -> tuple[float, float]:
    """Cores, and the longest time for which the event loop was late, in milliseconds."""
    log = logging.getLogger("benchmark")
    tasks = []
    for number in range(jobs):
        handle = JobHandle(
            name=f"j{number}", uid=str(number), backend="b", framework="f", leader="worker-0", owner=1, location="/l"
        )
        waiting = follow(
            cast("Backend", _Backend()),
            handle,
            emit=lambda line: log.info("%s", line),
            reader="r",
            deadline=None,
            reporter=airflow.reporter(handle) if airflow else None,
        )
        tasks.append(asyncio.ensure_future(waiting))
    await asyncio.sleep(10)
    began, cpu, late = time.monotonic(), time.process_time(), 0.0
    while time.monotonic() - began < seconds:
        before = time.monotonic()
        await asyncio.sleep(0.01)
        late = max(late, time.monotonic() - before - 0.01)
    cores = (time.process_time() - cpu) / (time.monotonic() - began)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return cores, 1000 * late


def main(*, quick: bool = False) -> bool:
    """Print the table.

    :param quick: only show that it works.
    :return: whether the bound was held.
    """
    jobs, seconds = (20, 2.0) if quick else (JOBS, SECONDS)
    # What triggers log is written, and not read, as it costs them the same everywhere.
    logging.basicConfig(filename=os.devnull, level=logging.INFO, force=True)
    heading(f"{jobs} jobs that report once a second each, and the same wait without reports")
    airflow = _Airflow()
    without, without_late = asyncio.run(_measure(jobs, seconds, None))
    cores, late = asyncio.run(_measure(jobs, seconds, airflow))
    rows = [
        ("without reports", f"{without:.3f}", "", f"{without_late:.0f}", "0"),
        ("with reports", f"{cores:.3f}", f"{cores / without:.1f}", f"{late:.0f}", str(airflow.writes)),
    ]
    table(["Wait", "cores", "ratio", "event loop late at most, ms", "writes"], rows)
    bound = f"at most {MOST_CORES} cores for the reports of {jobs} jobs"
    return verdict(f"{bound}: {cores - without:.3f}, {airflow.size} bytes a write", cores - without <= MOST_CORES)
