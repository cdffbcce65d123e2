"""Stops a job's pods and keeps the job, and lets it go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.kueue import WORKLOADS, workloads_of
from airflow_trainer_provider.errors import ApiError, ManageError
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import PODS, Kind, Manifest, Resource
from airflow_trainer_provider.kinds.events import queued_by_kueue

_NOT_FOUND = 404
#: How long Kueue may take to make a new job's Workload, in seconds.
_WORKLOAD_SECONDS = 10.0
#: What a pod may need to be gone after its grace period, in seconds.
_GONE_SECONDS = 60.0
_LOOK_SECONDS = 0.5


async def suspend(cluster: Cluster, kind: Kind, main: Manifest, wanted: bool) -> None:
    """Stop a job's pods and keep the job, or let it go on once those pods are gone.

    What Kueue has admitted it starts again when others suspend it. So the Workload of what carries the name of a queue
    is deactivated instead, and Kueue suspends the job itself.

    :param cluster: where the job is.
    :param kind: of its main object.
    :param main: its main object.
    :param wanted: False lets it go on.
    :raises ManageError: Kueue has no Workload for the job, or its pods do not go.
    """
    if not wanted:
        # A controller that meets a pod of before, on its way out, takes it for one that has failed.
        await until_stopped(cluster, kind, main)
    namespace = main["metadata"]["namespace"]
    for resource, each in await _parts(cluster, kind, main):
        if queued_by_kueue(each) and await cluster.serves(WORKLOADS):
            await _activate(cluster, each, not wanted)
        else:
            await cluster.client.patch(resource, namespace, each["metadata"]["name"], kind.suspend(wanted))


async def is_suspended(cluster: Cluster, kind: Kind, main: Manifest) -> bool:
    """Whether somebody wants the job's pods stopped, in whole or in part. A queue that holds a job does not count.

    :param main: the job's main object.
    """
    for _, each in await _parts(cluster, kind, main):
        workloads = await workloads_of(cluster, [each])
        held = any(not _is_active(workload) for workload in workloads)
        if held or (not workloads and _has(each, kind.suspend(True))):
            return True
    return False


async def until_stopped(cluster: Cluster, kind: Kind, main: Manifest) -> None:
    """Wait until a job is suspended, and no pod of it is left that has not ended.

    :param main: the job's main object.
    :raises ManageError: its pods have not gone in time.
    """
    namespace, name = main["metadata"]["namespace"], main["metadata"]["name"]
    patience: float | None = None
    while True:
        parts = await _parts(cluster, kind, main)
        pods = (await cluster.client.list(PODS, namespace, label_selector=f"{kind.pod_label}={name}")).items
        left = [pod for pod in pods if _is_there(pod)]
        if not left and all(_has(each, kind.suspend(True)) for _, each in parts):
            return
        if patience is None:
            patience = time.monotonic() + _grace(left) + _GONE_SECONDS
        if time.monotonic() > patience:
            pending = ", ".join(pod["metadata"]["name"] for pod in left)
            why = f"pods {pending} are still there" if left else "its controller has not taken it up"
            raise ManageError(f"Training job {name} in namespace {namespace} has not stopped: {why}.")
        await asyncio.sleep(_LOOK_SECONDS)


async def _parts(cluster: Cluster, kind: Kind, main: Manifest) -> list[tuple[Resource, Manifest]]:
    """The objects that are suspended for the job, as they are now."""
    namespace, name = main["metadata"]["namespace"], main["metadata"]["name"]
    if not kind.suspend_children:
        try:
            return [(kind.resource, await cluster.client.get(kind.resource, namespace, name))]
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return []
            raise
    return [
        (resource, child)
        for resource in kind.children
        for child in (await cluster.client.list(resource, namespace, label_selector=f"{labels.JOB}={name}")).items
        if not _finished(child)
    ]


async def _activate(cluster: Cluster, managed: Manifest, active: bool) -> None:
    patience = time.monotonic() + _WORKLOAD_SECONDS
    while not (workloads := await workloads_of(cluster, [managed])):
        if time.monotonic() > patience:
            raise ManageError(
                f"{managed['kind']} {managed['metadata']['name']} carries the name of a queue, and Kueue has no "
                "Workload for it: see whether Kueue runs, and manages its kind."
            )
        await asyncio.sleep(_LOOK_SECONDS)
    for workload in workloads:
        metadata = workload["metadata"]
        await cluster.client.patch(WORKLOADS, metadata["namespace"], metadata["name"], {"spec": {"active": active}})


def _is_active(workload: Manifest) -> bool:
    return bool(workload["spec"].get("active", True))


def _is_there(pod: Manifest) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended or "deletionTimestamp" in pod["metadata"]


def _grace(pods: Iterable[Manifest]) -> float:
    return max((float(pod["spec"].get("terminationGracePeriodSeconds") or 0) for pod in pods), default=0.0)


def _has(value: Manifest, patch: Manifest) -> bool:
    """Whether a merge patch would change nothing."""
    return all(
        _has(value.get(name) or {}, wanted) if isinstance(wanted, dict) else value.get(name) == wanted
        for name, wanted in patch.items()
    )


def _finished(child: Manifest) -> bool:
    conditions = child.get("status", {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
