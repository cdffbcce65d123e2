"""Waits until a job's pods are gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.kinds.base import PODS, Manifest

#: What a pod may need to be gone after its grace period, in seconds.
_GONE_SECONDS = 60.0
_LOOK_SECONDS = 0.5


class Remaining(NamedTuple):
    """What a wait goes on for.

    :param what: for the error, once the time is up.
    :param pods: those that are waited for.
    """

    what: str
    pods: Sequence[Manifest] = ()


async def wait_until_gone(look: Callable[[], Awaitable[Remaining | None]]) -> str | None:
    """Wait until nothing remains, or a minute has passed after the longest grace period of the pods.

    :param look: what remains now; None ends the wait.
    :return: what still remains then; None where nothing does.
    """
    deadline: float | None = None
    while (remaining := await look()) is not None:
        if deadline is None:
            deadline = time.monotonic() + longest_grace(remaining.pods) + _GONE_SECONDS
        if time.monotonic() > deadline:
            return remaining.what
        await asyncio.sleep(_LOOK_SECONDS)
    return None


async def pods_of(cluster: Cluster, job: JobObject) -> list[Manifest]:
    """A job's pods, as they are now."""
    return (await cluster.client.list(PODS, job.namespace, label_selector=f"{job.kind.pod_label}={job.name}")).items


def names_of(pods: Iterable[Manifest]) -> str:
    """The names of some pods, for a message."""
    return ", ".join(pod["metadata"]["name"] for pod in pods)


def has_ended(pod: Manifest) -> bool:
    """Whether none of a pod's containers runs, or will run."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def longest_grace(pods: Iterable[Manifest]) -> float:
    """How long the slowest of some pods may take to end, in seconds."""
    return max((float(pod["spec"].get("terminationGracePeriodSeconds") or 0) for pod in pods), default=0.0)
