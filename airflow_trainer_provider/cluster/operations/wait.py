"""Waits until pods have ended, or are gone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.kinds.base import PODS, Manifest
from airflow_trainer_provider.kinds.status.pod_end import conditions, parse_time

log = logging.getLogger(__name__)

#: How long a pod may take to be gone after its grace period, in seconds.
_GONE_SECONDS = 60.0
_LOOK_SECONDS = 0.5
#: How long after its grace period a pod has to exist before its node may count as unreachable.
_UNREACHABLE_AFTER = timedelta(seconds=15)
#: How many pods a message names at most.
_MOST_NAMES = 5


class Remaining(NamedTuple):
    """What a wait still waits for.

    :param what: a text for the error when the time is up.
    :param pods: the pods that are waited for.
    """

    what: str
    pods: Sequence[Manifest] = ()


async def wait_until_gone(look: Callable[[], Awaitable[Remaining | None]]) -> str | None:
    """Wait until nothing remains, or a minute has passed after the longest grace period of the pods.

    :param look: returns what remains now; None ends the wait.
    :return: what still remains when the time is up; None where nothing does.
    """
    deadline: float | None = None
    while (remaining := await look()) is not None:
        if deadline is None:
            deadline = time.monotonic() + longest_grace(remaining.pods) + _GONE_SECONDS
        if time.monotonic() > deadline:
            return remaining.what
        await asyncio.sleep(_LOOK_SECONDS)
    return None


class Ends(NamedTuple):
    """The result of a wait for pods to end.

    :param waited: whether some pods had not ended at first.
    :param left: the names of the pods that have not ended; None where all have.
    """

    waited: bool
    left: str | None


async def wait_for_ends(cluster: Cluster, look: Callable[[], Awaitable[Iterable[Manifest]]], whose: str) -> Ends:
    """Wait until no pod runs, or a minute has passed after the longest of their grace periods.

    Pods of a node that does not answer are not waited for beyond their grace period: such a pod is never reported as
    ended.

    :param cluster: where they are.
    :param look: returns the pods that exist now.
    :param whose: whose pods they are, for the log.
    """
    waited = False
    unreachable: list[Manifest] = []

    async def remaining() -> Remaining | None:
        nonlocal waited
        pods: list[Manifest] = []
        unreachable.clear()
        now = datetime.now(timezone.utc) + cluster.client.clock.ahead
        for pod in await look():
            if not has_ended(pod):
                (unreachable if is_unreachable(pod, now) else pods).append(pod)
        if pods and not waited:
            waited = True
            log.info("Waiting until pods of %s have ended: %s.", whose, names_of(pods))
        return Remaining(names_of(pods), pods) if pods else None

    left = await wait_until_gone(remaining)
    if unreachable:
        log.warning(
            "Pods of %s were to end, and may still run, as their nodes do not answer: %s. They end once the nodes "
            "answer, and are forgotten where the nodes are deleted from the cluster.",
            whose,
            names_of(unreachable),
        )
    return Ends(waited, left)


async def pods_of(cluster: Cluster, job: JobObject) -> list[Manifest]:
    """A job's pods, as they are now."""
    return (await cluster.client.list(PODS, job.namespace, label_selector=f"{job.kind.pod_label}={job.name}")).items


def names_of(pods: Iterable[Manifest]) -> str:
    """The names of some pods, for a message."""
    names = [pod["metadata"]["name"] for pod in pods]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def has_ended(pod: Manifest) -> bool:
    """Whether none of a pod's containers runs, or will run."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_unreachable(pod: Manifest, now: datetime) -> bool:
    """Whether a pod should have ended by now, and its node does not answer.

    The node controller sets only the condition Ready of the pods of such a node, while a kubelet would set
    ContainersReady as well. After the time of their tolerations it deletes the pods, with a condition that says so.

    :param now: by the API server's clock.
    """
    gone_at = pod["metadata"].get("deletionTimestamp")
    if gone_at is None or now < parse_time(gone_at) + _UNREACHABLE_AFTER:
        return False
    found = {each["type"]: each for each in conditions(pod.get("status") or {})}
    states = {name: each["status"] for name, each in found.items()}
    is_evicted = found.get("DisruptionTarget", {}).get("reason") == "DeletionByTaintManager"
    return is_evicted or (states.get("Ready") == "False" and states.get("ContainersReady") == "True")


def longest_grace(pods: Iterable[Manifest]) -> float:
    """How long the slowest of some pods may take to end, in seconds."""
    return max((float(pod["spec"].get("terminationGracePeriodSeconds") or 0) for pod in pods), default=0.0)
