"""One storm: jobs whose pods, nodes, watch, API server and readers do what a plan says."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

from airflow_trainer_provider.cluster.logs.follow import JobLogs
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.timeouts import end_tasks
from tests.fakes.jobs import ours
from tests.unit.cluster.logs.storm.nodes import EPOCH, KIND, SECOND, Nodes, now, stamp
from tests.unit.cluster.logs.storm.plan import Job, Plan


async def run(plan: Plan) -> Nodes:
    """Let all jobs live, and their readers read.

    :return: the nodes, with all that their pods have written; the plan's jobs have what was shown of it.
    """
    storm = _Storm(plan)
    watch = asyncio.create_task(storm.nodes.watch())
    await asyncio.gather(*(each for job in plan.jobs for each in (storm.live(job), storm.read(job))))
    await end_tasks([watch])
    storm.nodes.recovery.close()
    return storm.nodes


class _Storm:
    def __init__(self, plan: Plan) -> None:
        self.nodes = Nodes(plan.seed, plan.lag, plan.saves, plan.careless)

    async def live(self, job: Job) -> None:
        """From the job's begin to its end."""
        if job.ends < 0:
            asyncio.get_running_loop().call_later(-job.ends, _end, job)
        await asyncio.gather(*map(self._live_in_turn, job.replicas))
        if job.ends >= 0:
            await asyncio.sleep(job.ends)
        _end(job)

    async def _live_in_turn(self, lives: list[Any]) -> None:
        for life in lives:
            await self.nodes.begin(life)

    async def read(self, job: Job) -> None:
        """Read what it writes, to its end."""
        reader = job.reader
        await asyncio.sleep(reader.begins)
        if reader.taken_over is not None:
            first = asyncio.create_task(self._read_on(job))
            await asyncio.wait({first}, timeout=reader.taken_over)
            await end_tasks([first])
            await asyncio.sleep(reader.gap)
        reader.begun_at = now()
        await self._read_on(job)
        job.read_at = now()

    async def _read_on(self, job: Job) -> None:
        reader, chance = job.reader, self.nodes.chance(f"reader of {job.name}")
        likely, seconds = reader.stalls
        cluster: Any = SimpleNamespace(client=self.nodes, nodes=self.nodes)
        async with aclosing(JobLogs(cluster, self._object(job), "task").blocks(job.ended)) as blocks:
            async for block in blocks:
                for line in block.lines():
                    reader.lines.append((now(), line.replica, line.text))
                    if likely and chance.random() < likely:
                        reader.stalled_for += seconds
                        await asyncio.sleep(seconds)

    def _object(self, job: Job) -> JobObject:
        metadata = ours(job.name)
        metadata["annotations"] |= self.nodes.annotations.get(job.name, {})
        metadata |= {"name": job.name, "namespace": "default", "uid": f"uid-{job.name}", "resourceVersion": "1"}
        metadata |= {"creationTimestamp": stamp(EPOCH * SECOND)}
        return JobObject(KIND, {"metadata": metadata, "spec": {"jaxReplicaSpecs": {"Worker": {"replicas": 1}}}})


def _end(job: Job) -> None:
    if not job.ended.is_set():
        job.ended_at = now()
        job.ended.set()
