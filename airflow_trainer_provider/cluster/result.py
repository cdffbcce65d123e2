"""Reads the result that rank 0 of a job on a cluster wrote: the termination message of its pod, or lines of the pod's
log.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from airflow_trainer_provider.cluster.answers import is_refusal, is_transient
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.logs.cursor import split_time
from airflow_trainer_provider.cluster.logs.pace import Pace
from airflow_trainer_provider.cluster.logs.streams import LogStreams
from airflow_trainer_provider.cluster.state.objects import is_rendered
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.functions.frames import Framed, Frames
from airflow_trainer_provider.functions.runner import FRAME
from airflow_trainer_provider.job.result import RESULT_PATH_VARIABLE, masked_result, no_value, read_result
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.containers import status_of

#: How many bytes a kubelet keeps of the termination messages of all containers of a pod. Each container has an equal
#: share, whether it writes a message or not, and at most 4096 bytes (kubernetes: status_manager.go,
#: ``normalizeStatus``).
_MESSAGES_BYTES = 12 * 1024
_MESSAGE_BYTES = 4096
#: How many lines other processes of the container may have written after those of the value. Where there are more, the
#: whole log is read.
_OTHER_LINES = 1000
#: The pause before a log in which lines are missing is read again, in seconds: an answer that broke off may look
#: complete.
_AGAIN_SECONDS = 1.0


async def result_of(client: Client, snapshot: Snapshot, seen: Frames) -> bytes | None:
    """The result that rank 0 wrote; None where it wrote none.

    :param client: of the cluster.
    :param snapshot: the job at its end.
    :param seen: the lines of a value that were seen while the job's logs were followed.
    :raises ApiError: the API server does not answer.
    """
    # Rank 0 need not be in the first replica: the rendezvous of an elastic job assigns the ranks again.
    for replica in snapshot.status().replicas:
        for pod in reversed(snapshot.pods_of(replica.name)):
            container = snapshot.container_of(pod)
            message = (_termination_message(pod, container) or "").encode()
            if problem := _why_cut(pod, message):
                return no_value("", problem)
            # The script of a job created outside Airflow may write anything there, a result or not.
            if message and (is_rendered(snapshot.job.main) or read_result(message).error is None):
                framed = Framed.parse(message)
                if framed is None:
                    return masked_result(message, snapshot.mask())
                content = await _value(client, pod, container, framed, seen)
                # In a thread: a large value takes a part of a second, and would block the event loop.
                return await asyncio.to_thread(masked_result, content, snapshot.mask())
    return None


async def _value(client: Client, pod: Manifest, container: str, framed: Framed, seen: Frames) -> bytes:
    """The value in the lines of a pod's log; or why it is not available, for the job's summary.

    The log that was followed also has the lines that the kubelet has rotated away since. The log as it is now also has
    the lines that were not followed.
    """
    if value := seen.value(framed):
        return value
    read, where = Frames(), f"the log of pod {pod['metadata']['name']}"
    for attempt, tail_lines in enumerate((framed.count + _OTHER_LINES, None, None)):
        if attempt:
            await asyncio.sleep(_AGAIN_SECONDS)
        try:
            read.take(await _lines(client, pod, container, framed, tail_lines))
        except ApiError as error:
            # An outage: the next try finds the job, and its log.
            if is_transient(error) or is_refusal(error):
                raise
            where += f", which cannot be read ({error})"
            break
        finally:
            read.fill(seen)
        if value := read.value(framed):
            return value
    return read.problem(framed, where)


async def _lines(client: Client, pod: Manifest, container: str, framed: Framed, tail_lines: int | None) -> list[str]:
    """The lines of a value, among the last ones of a log.

    :param tail_lines: how many are read; None for all.
    """
    metadata = pod["metadata"]
    mark, pace = f"{FRAME} {framed.sha256[:8]} ".encode(), Pace.here()

    async def read() -> list[str]:
        found: list[str] = []
        blocks = client.log_blocks(metadata["namespace"], metadata["name"], container, tail_lines=tail_lines)
        # With a permit, as thousands of jobs may end at once.
        async with LogStreams.here().permit(lambda held: False), aclosing(blocks):
            async for block in blocks:
                await pace.turn()
                if mark in block:
                    lines = (split_time(line)[1] for line in block.split(b"\n") if mark in line)
                    found += [line.decode("utf-8", "replace") for line in lines]
        return found

    return await client.repeat(read)


def _why_cut(pod: Manifest, message: bytes) -> str | None:
    """Why a message may be cut: the more containers a pod has, the less is kept of each message. None where it is
    whole.
    """
    lists = ("containers", "initContainers", "ephemeralContainers")
    containers = sum(len(pod["spec"].get(name) or ()) for name in lists)
    kept = _MESSAGES_BYTES // max(1, containers)
    if kept >= _MESSAGE_BYTES or len(message) < kept:
        return None
    return (
        f"the result has more than {kept - 1} bytes, which are the most that are kept in a pod of {containers} "
        f"containers: they share 12 KiB. Write large results to storage, and only their address to "
        f"${RESULT_PATH_VARIABLE}, or have fewer containers in the pod."
    )


def _termination_message(pod: Manifest, container: str) -> str | None:
    """The result that the training's container wrote, where the container succeeded."""
    terminated = (status_of(pod, container).get("state") or {}).get("terminated") or {}
    return (terminated.get("message") or None) if terminated.get("exitCode") == 0 else None
