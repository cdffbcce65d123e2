"""Ends jobs on a cluster, and clears away what has ended."""

from __future__ import annotations

import asyncio
import time

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.objects import annotated, annotation
from airflow_trainer_provider.cluster.suspension import suspend
from airflow_trainer_provider.errors import ApiError, SubmitError
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import PODS, Kind, Manifest

_CONFLICT = 409
_NOT_FOUND = 404
#: What a pod may need to be gone after its grace period, in seconds.
_GONE_SECONDS = 60
_LOOK_SECONDS = 0.5


async def end(cluster: Cluster, kind: Kind, main: Manifest, reason: str, owner: int | None = None) -> bool:
    """Ask a job to end: delete it, or suspend it where it was submitted so.

    :param cluster: where it runs.
    :param kind: of its main object.
    :param main: its main object, as it was last seen.
    :param reason: what its status will say.
    :param owner: end it only if this try waits for it; None ends it whoever waits.
    :return: False where another try waits for it.
    """
    namespace, name, uid = (main["metadata"][field] for field in ("namespace", "name", "uid"))
    while True:
        if owner is not None and annotation(main, labels.OWNER) != str(owner):
            return False
        if annotation(main, labels.CANCELLED) is not None or "deletionTimestamp" in main["metadata"]:
            break
        try:
            patch = annotated(main, {labels.CANCELLED: reason})
            main = await cluster.client.patch(kind.resource, namespace, name, patch)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return True
            if error.status != _CONFLICT:
                raise
            fresh = await _get(cluster, kind, namespace, name)
            if fresh is None or fresh["metadata"]["uid"] != uid:
                return True
            main = fresh
    if annotation(main, labels.ON_KILL) == "suspend":
        await suspend(cluster, kind, main, True)
    else:
        # In the background: a controller that sees its job's parts go before the job would make them again.
        await cluster.client.delete(kind.resource, namespace, name, uid=uid)
    return True


async def until_gone(cluster: Cluster, kind: Kind, main: Manifest, grace: float) -> None:
    """Wait until no pod of a job is left.

    :param grace: how long its pods may take to end, in seconds.
    :raises SubmitError: they have not ended in time.
    """
    namespace, name = main["metadata"]["namespace"], main["metadata"]["name"]
    patience = time.monotonic() + grace + _GONE_SECONDS
    while True:
        listing = await cluster.client.list(PODS, namespace, label_selector=f"{kind.pod_label}={name}")
        if all(pod.get("status", {}).get("phase") in ("Succeeded", "Failed") for pod in listing.items):
            return
        if time.monotonic() > patience:
            left = ", ".join(pod["metadata"]["name"] for pod in listing.items)
            raise SubmitError(
                f"Job {name} of an earlier try was asked to end and has not (pods {left}); nothing was started."
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def finish(cluster: Cluster, kind: Kind, main: Manifest, *, succeeded: bool) -> None:
    """Do with an ended job whose outcome is safe what its ``on_finish_action`` says.

    :param succeeded: how it ended.
    """
    namespace, name, uid = (main["metadata"][field] for field in ("namespace", "name", "uid"))
    action = annotation(main, labels.ON_FINISH) or "keep"
    if action == "delete" or (action == "delete_succeeded" and succeeded):
        await cluster.client.delete(kind.resource, namespace, name, uid=uid)
        return
    ttl = annotation(main, labels.TTL)
    if ttl is not None and kind.ttl:
        await cluster.client.patch(kind.resource, namespace, name, kind.ttl(int(ttl)))


async def _get(cluster: Cluster, kind: Kind, namespace: str, name: str) -> Manifest | None:
    try:
        return await cluster.client.get(kind.resource, namespace, name)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return None
        raise
