"""Shows a job's log lines to a user. Nothing is written to the job."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.logs.cursor import LogCursor, split_time
from airflow_trainer_provider.cluster.logs.follow import JobLogs
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.errors import ApiError, ManageError
from airflow_trainer_provider.functions.frames import MOST_LINES, is_frame
from airflow_trainer_provider.job.backend import Backend, LogBlock, LogSelection
from airflow_trainer_provider.job.follow import end_of
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.pod_secrets import pods_mask
from airflow_trainer_provider.text.printable import plain, shorten


async def show_logs(
    backend: Backend, cluster: Cluster, handle: JobHandle, job: JobObject, selection: LogSelection
) -> AsyncGenerator[LogBlock, None]:
    """The lines of a job's existing pods, pod by pod; or all lines as they are written, up to the job's end.

    :param backend: which watches the job.
    :param cluster: where it is.
    :param handle: of the job.
    :param job: as it was read.
    :param selection: which lines.
    :raises ManageError: the job has no such replica.
    """
    snapshot = await Snapshot.read(cluster, job)
    names = _selected(job, snapshot, selection.replica)
    cursor = LogCursor()
    if not selection.follow or selection.tail is not None or selection.previous:
        async for block in _present_lines(cluster, snapshot, names, cursor, selection):
            yield block
    if selection.follow:
        wanted = None if selection.replica is None else {selection.replica}
        logs = JobLogs(cluster, job, "", cursor=cursor, replicas=wanted)
        async with end_of(backend, handle) as ended, aclosing(logs.blocks(ended)) as blocks:
            async for block in blocks:
                yield block


def _selected(job: JobObject, snapshot: Snapshot, replica: str | None) -> list[str]:
    """The names of the replicas whose lines are shown."""
    names = [each.name for each in snapshot.status().replicas]
    if replica is None:
        return names
    if replica not in names:
        raise ManageError(f"Training job {job.name} has no replica {replica}: it has {', '.join(names)}.")
    return [replica]


async def _present_lines(
    cluster: Cluster, snapshot: Snapshot, names: Sequence[str], cursor: LogCursor, selection: LogSelection
) -> AsyncGenerator[LogBlock, None]:
    """The lines that exist now, without those that are written later."""
    for name in names:
        for pod in snapshot.pods_of(name):
            async for block in _pod_lines(cluster, pod, snapshot.container_of(pod), name, cursor, selection):
                yield block


async def _pod_lines(
    cluster: Cluster, pod: Manifest, training: str, replica: str, cursor: LogCursor, selection: LogSelection
) -> AsyncGenerator[LogBlock, None]:
    spec, name = pod["spec"], pod["metadata"]["name"]
    for container in [each["name"] for each in (*(spec.get("initContainers") or ()), *spec["containers"])]:
        label = replica if container == training else f"{replica}/{container}"
        # Which lines are the last ones is known only at the end: lines of a function's value may be among those read.
        last: deque[str] = deque(maxlen=selection.tail)
        try:
            async with aclosing(_container_lines(cluster, pod, container, cursor, selection)) as blocks:
                async for lines in blocks:
                    last.extend(lines)
                    if selection.tail is None:
                        yield LogBlock(label, [*last])
                        last.clear()
            yield LogBlock(label, last)
        except ApiError as error:
            if last:
                yield LogBlock(label, last)
            yield LogBlock(label, [f"... no log of container {container} in pod {name}: {error}"])


async def _container_lines(
    cluster: Cluster, pod: Manifest, container: str, cursor: LogCursor, selection: LogSelection
) -> AsyncGenerator[list[str], None]:
    """The lines of a container, without those of a function's value, of which there are at most ``MOST_LINES``."""
    metadata, mask = pod["metadata"], pods_mask([pod])
    tail_lines = None if selection.tail is None else selection.tail + MOST_LINES
    stream = cluster.client.log_blocks(
        metadata["namespace"], metadata["name"], container, tail_lines=tail_lines, previous=selection.previous
    )
    async with aclosing(stream):
        async for block in stream:
            lines = [split_time(line) for line in block.split(b"\n")]
            _advance(cursor, metadata["uid"], container, lines)
            texts = (mask.text(plain(text)) for _, text in lines)
            yield [shorten(text) for text in texts if not is_frame(text)]


def _advance(cursor: LogCursor, pod_uid: str, container: str, lines: list[tuple[int | None, bytes]]) -> None:
    for at, _ in lines:
        if at is not None:
            cursor.advance(pod_uid, container, at)
