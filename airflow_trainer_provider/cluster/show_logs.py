"""A job's log lines for somebody who looks at it. Nothing is written down on the job."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.follow_logs import JobLogs
from airflow_trainer_provider.cluster.log_place import LogPlace, split_time
from airflow_trainer_provider.cluster.log_shown import shorten
from airflow_trainer_provider.cluster.manage import ClusterJob
from airflow_trainer_provider.cluster.view import View
from airflow_trainer_provider.errors import ApiError, ManageError
from airflow_trainer_provider.job.backend import LogBlock
from airflow_trainer_provider.job.follow import end_of
from airflow_trainer_provider.job.log_text import plain
from airflow_trainer_provider.kinds.base import Manifest


async def show_logs(
    cluster: Cluster,
    job: ClusterJob,
    *,
    replica: str | None = None,
    tail: int | None = None,
    previous: bool = False,
    follow: bool = False,
) -> AsyncGenerator[LogBlock, None]:
    """The lines of a job's pods that are there, pod by pod; or all lines as they are written, up to the job's end.

    :param replica: only this one's, e.g. ``worker-1``.
    :param tail: only so many last lines of each container.
    :param previous: of each container before its last restart.
    :param follow: and all that come then, up to the job's end.
    :raises ManageError: the job has no such replica.
    """
    view = await View.read(cluster, job.kind, job.main)
    names = [each.name for each in view.status().replicas]
    if replica is not None and replica not in names:
        raise ManageError(f"Training job {job.name} has no replica {replica}: it has {', '.join(names)}.")
    place = LogPlace()
    if not follow or tail is not None or previous:
        for name in [replica] if replica else names:
            for pod in view.pods_of(name):
                async for block in _pod_lines(cluster, pod, name, place, tail, previous):
                    yield block
    if follow:
        backend = ClusterBackend(job.backend, cluster, job.namespace)
        wanted = None if replica is None else {replica}
        logs = JobLogs(cluster, job.kind, job.main, "", place=place, replicas=wanted)
        handle = job.handle(cluster.connection.id)
        async with end_of(backend, handle) as ended, aclosing(logs.blocks(ended)) as blocks:
            async for block in blocks:
                yield block


async def _pod_lines(
    cluster: Cluster, pod: Manifest, replica: str, place: LogPlace, tail: int | None, previous: bool
) -> AsyncGenerator[LogBlock, None]:
    spec, metadata = pod["spec"], pod["metadata"]
    first = spec["containers"][0]["name"]
    for container in [each["name"] for each in (*(spec.get("initContainers") or ()), *spec["containers"])]:
        name = replica if container == first else f"{replica}/{container}"
        stream = cluster.client.log_blocks(
            metadata["namespace"], metadata["name"], container, tail_lines=tail, previous=previous
        )
        try:
            async with aclosing(stream):
                async for block in stream:
                    lines = [split_time(line) for line in block.split(b"\n")]
                    for at, _ in lines:
                        if at is not None:
                            place.told(metadata["uid"], container, at)
                    yield LogBlock(name, [shorten(plain(text)) for _, text in lines])
        except ApiError as error:
            yield LogBlock(name, [f"... no log of container {container} in pod {metadata['name']}: {error}"])
