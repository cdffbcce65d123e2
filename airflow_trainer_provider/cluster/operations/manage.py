"""Suspends, resumes and deletes existing jobs, for users and for tasks."""

from __future__ import annotations

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations import suspension
from airflow_trainer_provider.cluster.operations.wait import Remaining, names_of, pods_of, wait_until_gone
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import is_cancelled, is_ours
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.errors import ApiError, ManageError
from airflow_trainer_provider.kinds.objects import labels


async def suspend(cluster: Cluster, job: JobObject, *, wait: bool = True) -> bool:
    """Stop the job's pods and keep the job. A task that waits for it continues to wait.

    :param wait: whether to wait until the pods are gone.
    :return: False where it was suspended already.
    :raises ManageError: the job has ended, or its pods are not gone in time.
    """
    already = await suspension.is_suspended(cluster, job)
    if not already:
        await _refuse_ended(cluster, job, "suspended")
        await suspension.suspend(cluster, job)
    if wait:
        await suspension.wait_until_stopped(cluster, job)
    return not already


async def resume(cluster: Cluster, job: JobObject) -> bool:
    """Resume a suspended job, once the pods of its previous run are gone. Its pods are new ones, which start from the
    beginning. A job that was suspended because its task was killed is resumed as well; the task's next try adopts it.

    :return: False where it is not suspended.
    :raises ManageError: the job has ended, or its pods are not gone in time.
    """
    if not await suspension.is_suspended(cluster, job):
        await _refuse_ended(cluster, job, "resumed")
        return False
    await suspension.wait_until_stopped(cluster, job)
    if is_cancelled(job.main):
        # Not earlier: until its pods are gone the job is cancelled, and a task that waits for it has to see that.
        await cluster.client.patch(job.resource, job.namespace, job.name, _cancelled(job, None))
    await suspension.resume(cluster, job)
    return True


async def delete(cluster: Cluster, job: JobObject, reason: str, *, wait: bool = False) -> bool:
    """Delete the job with all that belongs to it.

    :param reason: the reason that tasks which wait for the job get as their error.
    :param wait: whether to wait until its pods are gone.
    :return: False where it is gone already, or another job has its name.
    :raises ManageError: its pods are not gone in time.
    """
    if is_ours(job.main) and not is_cancelled(job.main):
        try:
            await cluster.client.patch(job.resource, job.namespace, job.name, _cancelled(job, reason))
        except ApiError as error:
            if error.is_not_found or error.is_conflict:
                return False
            raise
    # Background propagation: a controller that sees the job's parts deleted before the job would create them again.
    deleted = await cluster.client.delete(job.resource, job.namespace, job.name, uid=job.uid)
    if deleted and wait:
        await _wait_until_deleted(cluster, job)
    return deleted


def _cancelled(job: JobObject, reason: str | None) -> dict[str, object]:
    return {"metadata": {"uid": job.uid, "annotations": {labels.CANCELLED: reason}}}


async def _refuse_ended(cluster: Cluster, job: JobObject, what: str) -> None:
    status = (await Snapshot.read(cluster, job)).status()
    if status.phase.ended:
        message = f"Training job {job.name} has ended ({status.phase.value}): it cannot be {what}."
        raise ManageError(message, retryable=False)


async def _wait_until_deleted(cluster: Cluster, job: JobObject) -> None:
    async def look() -> Remaining | None:
        main = await cluster.client.get_or_none(job.resource, job.namespace, job.name, uid=job.uid)
        pods = await pods_of(cluster, job)
        if main is None and not pods:
            return None
        return Remaining(names_of(pods) or str(job), pods)

    if left := await wait_until_gone(look):
        raise ManageError(f"Training job {job.name} is deleted, and not gone yet: {left}.")
