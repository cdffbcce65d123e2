"""Ends jobs on a cluster, and cleans up after jobs that have ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.suspension import suspend
from airflow_trainer_provider.cluster.operations.wait import pods_of, wait_for_ends
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import (
    annotated,
    is_being_ended,
    is_suspended_on_kill,
    owner_of,
    owner_reference,
)
from airflow_trainer_provider.errors import ApiError, SubmitError
from airflow_trainer_provider.kinds.base import JOBS, PODS, SECRETS
from airflow_trainer_provider.kinds.kept import expiry
from airflow_trainer_provider.kinds.objects import labels

log = logging.getLogger(__name__)


async def end(
    cluster: Cluster, job: JobObject, reason: str, owner: int | None = None, *, resumable: bool = True
) -> bool:
    """Request the end of a job: delete it, or suspend it where its ``on_kill_action`` says so.

    :param cluster: where it runs.
    :param job: as it was last seen.
    :param reason: the message that its status will have.
    :param owner: end it only if this try, or an earlier one, waits for it; None ends it in any case.
    :param resumable: whether it may be suspended; False deletes it, and no try resumes it.
    :return: False where a later try waits for it.
    """
    # Both annotations in one request: if the end is interrupted after it, the next try must not resume the job.
    marks = {labels.CANCELLED: reason} if resumable else {labels.CANCELLED: reason, labels.ON_KILL: "delete"}
    while True:
        if owner is not None and owner_of(job.main) > owner:
            return False
        if is_being_ended(job.main) and (resumable or not is_suspended_on_kill(job.main)):
            break
        changed = await _mark(cluster, job, marks)
        if changed is None:
            return True
        job = changed
    if is_suspended_on_kill(job.main):
        await suspend(cluster, job)
    else:
        # Background propagation: a controller that sees the job's parts deleted before the job would create them again.
        await cluster.client.delete(job.resource, job.namespace, job.name, uid=job.uid)
    return True


async def _mark(cluster: Cluster, job: JobObject, marks: Mapping[str, str | None]) -> JobObject | None:
    """Annotate a job that is to end.

    :param marks: the annotations.
    :return: the job; without the annotations where it had changed, None where it is gone.
    """
    try:
        patch = annotated(job.main, marks)
        return job.at(await cluster.client.patch(job.resource, job.namespace, job.name, patch))
    except ApiError as error:
        if error.is_not_found:
            return None
        if not error.is_conflict:
            raise
    return await _fresh(cluster, job)


async def withdraw(cluster: Cluster, job: JobObject) -> bool:
    """Delete a job of which no handle exists yet, whatever its ``on_kill_action`` says.

    :param cluster: where it runs.
    :param job: as it was last seen.
    :return: False where another try has adopted it.
    """
    owner = job.annotation(labels.OWNER)
    while True:
        version = job.main["metadata"]["resourceVersion"]
        try:
            await cluster.client.delete(job.resource, job.namespace, job.name, uid=job.uid, resource_version=version)
            return True
        except ApiError as error:
            if not error.is_conflict:
                raise
        fresh = await _fresh(cluster, job)
        if fresh is None:
            return True
        if fresh.annotation(labels.OWNER) != owner:
            return False
        job = fresh


async def wait_until_ended(cluster: Cluster, job: JobObject) -> None:
    """Wait until no pod of a job runs, except on nodes that do not answer.

    :raises SubmitError: its pods have not ended in time.
    """
    ends = await wait_for_ends(cluster, partial(pods_of, cluster, job), f"job {job.name}")
    if ends.left:
        raise SubmitError(
            f"Job {job.name} of an earlier try was asked to end and has not (pods {ends.left}); nothing was started."
        )


async def finish(cluster: Cluster, job: JobObject, *, succeeded: bool) -> None:
    """Apply the ``on_finish_action`` of an ended job whose outcome is in XCom.

    :param succeeded: whether it succeeded.
    """
    if job.kind.suspension.of_children and not succeeded:
        # One of its parts has failed, and the others may still run.
        await suspend(cluster, job)
    action = job.annotation(labels.ON_FINISH) or "keep"
    if action == "delete" or (action == "delete_succeeded" and succeeded):
        await cluster.client.delete(job.resource, job.namespace, job.name, uid=job.uid)
        return
    await _delete_private_key(cluster, job)
    if job.annotation(labels.CLEAN_PODS) == "All":
        await _delete_pods(cluster, job)
    ttl = job.annotation(labels.TTL)
    if ttl is not None and job.kind.retention.patch:
        patch = {"metadata": {"uid": job.uid}, **job.kind.retention.patch(int(ttl))}
        await cluster.client.patch(job.resource, job.namespace, job.name, patch)
    elif ttl is not None and job.kind.retention.by_owner:
        await _expire(cluster, job, int(ttl))


async def _delete_pods(cluster: Cluster, job: JobObject) -> None:
    """Delete the pods of a kept job, and their logs with them."""
    try:
        for pod in await pods_of(cluster, job):
            await cluster.client.delete(PODS, job.namespace, pod["metadata"]["name"], uid=pod["metadata"]["uid"])
    except ApiError as error:
        log.warning("Pods of %s could not be deleted, as run_policy.clean_pods asks: %s", job, error)


async def _expire(cluster: Cluster, job: JobObject, seconds: int) -> None:
    """Make the cluster delete a kept job later, where its kind has no time to live.

    :param seconds: from now.
    """
    manifest = expiry(job.uid, seconds)
    name, client = manifest["metadata"]["name"], cluster.client
    try:
        timer = await client.get_or_none(JOBS, job.namespace, name) or await client.create(
            JOBS, job.namespace, manifest
        )
        others = job.main["metadata"].get("ownerReferences") or ()
        metadata = {"uid": job.uid, "ownerReferences": [*others, owner_reference(timer)]}
        await client.patch(job.resource, job.namespace, job.name, {"metadata": metadata})
    except ApiError as error:
        log.warning("No time was set after which %s goes; it stays: %s", job, error)


async def _delete_private_key(cluster: Cluster, job: JobObject) -> None:
    """Delete the Secret with the ssh key of a job that is kept: none of its pods runs any more."""
    secret = job.annotation(labels.PRIVATE_KEY)
    # A client that may change the annotation must not be able to have other Secrets deleted.
    if secret not in (f"{job.name}{labels.SSH_SECRET}", f"{job.name}{labels.TRAINERS_SSH_SECRET}"):
        return
    try:
        await cluster.client.delete(SECRETS, job.namespace, secret)
    except ApiError as error:
        # Only logged: the outcome is safe, and does not change.
        log.warning("Secret %s/%s with the job's ssh key could not be deleted: %s", job.namespace, secret, error)


async def _fresh(cluster: Cluster, job: JobObject) -> JobObject | None:
    """The same job as it is now; None where it is gone, even if another one has its name."""
    main = await cluster.client.get_or_none(job.resource, job.namespace, job.name, uid=job.uid)
    return None if main is None else job.at(main)
