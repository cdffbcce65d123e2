"""Reads the last status of a job on a cluster, once the job has ended and none of its pods runs any more."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.suspension import suspend
from airflow_trainer_provider.cluster.operations.wait import has_ended, longest_grace
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import is_cancelled
from airflow_trainer_provider.cluster.state.snapshot import Snapshot, lost, parts_of
from airflow_trainer_provider.cluster.state.watcher import JobWatcher
from airflow_trainer_provider.errors import ApiError, JobLost
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.status.deletion import keep_first_deletion

log = logging.getLogger(__name__)

#: The resource version for which an API server need not ask its database.
_IN_MEMORY = "0"
#: How long to wait for the remaining pods of an ended job beyond their grace period, in seconds.
_SURVIVE_SECONDS = 15.0


async def is_confirmed(cluster: Cluster, watcher: JobWatcher, snapshot: Snapshot) -> bool:
    """Whether the cluster confirms the end of a job that has failed because a part of it is gone.

    The watches of the main object and of its parts are not in step: the part may not have been seen yet, or was deleted
    together with the main object.

    :param cluster: where it runs.
    :param watcher: of the job.
    :param snapshot: of the job, which shows the end.
    """
    if watcher.is_gone or not snapshot.lost_part():
        return True
    try:
        job = await watcher.read()
    except JobLost:
        return False
    _, children = await parts_of(cluster, job)
    return replace(snapshot, job=job, children=snapshot.with_parts(children)).status().phase.ended


async def read_last(cluster: Cluster, watcher: JobWatcher, snapshot: Snapshot) -> Snapshot:
    """The last snapshot of a job at its end, once none of its pods runs.

    :param cluster: where it ran.
    :param watcher: of the job.
    :param snapshot: the first one that showed the end.
    :raises JobLost: the job is gone, and its outcome is not known.
    """
    lost_part = snapshot.lost_part()
    is_known = snapshot.status().phase.ended and not lost_part
    if watcher.is_gone and not is_known and not is_cancelled(snapshot.job.main):
        raise lost(snapshot.job)
    marked = None
    if lost_part and not watcher.is_gone:
        # Later readers, such as the next try, see parts that are suspended, and without this annotation they could wait
        # for them.
        marked = await _with_lost_part(cluster, snapshot.job, lost_part)
    if snapshot.job.kind.suspension.of_children and not watcher.is_gone:
        await suspend(cluster, snapshot.job)
    await _until_survivors_ended(watcher, _SURVIVE_SECONDS + longest_grace(snapshot.pods))
    last = watcher.snapshot()
    if marked:
        last = replace(last, job=marked)
    return last if watcher.is_gone else await _read_again(cluster, last)


async def _with_lost_part(cluster: Cluster, job: JobObject, message: str) -> JobObject | None:
    """Annotate a job with the part of it that was deleted; None where that is refused."""
    patch = {"metadata": {"uid": job.uid, "annotations": {labels.PART_DELETED: message}}}
    try:
        return job.at(await cluster.client.patch(job.resource, job.namespace, job.name, patch))
    except ApiError as error:
        log.warning("That a part of training job %s was deleted cannot be written on it: %s", job.name, error)
    return None


async def _until_survivors_ended(watcher: JobWatcher, seconds: float) -> None:
    """Wait until no pod of an ended job runs, or the time is up."""
    until = time.monotonic() + seconds
    while not all(map(has_ended, watcher.snapshot().pods)) and (left := until - time.monotonic()) > 0:
        await watcher.wait(left)


async def _read_again(cluster: Cluster, snapshot: Snapshot) -> Snapshot:
    """Read the pods of an ended job again: their watch may lag behind that of the job."""
    # The memory of the API server is enough where it also says that all pods have ended.
    pods, children = await parts_of(cluster, snapshot.job, not_older_than=_IN_MEMORY)
    if not all(map(has_ended, pods)) or len(pods) < len(snapshot.pods):
        pods, children = await parts_of(cluster, snapshot.job)
    known = {pod["metadata"]["uid"]: pod for pod in snapshot.pods}
    for pod in pods:
        keep_first_deletion(pod, known.get(pod["metadata"]["uid"], pod))
    there = {pod["metadata"]["uid"] for pod in pods}
    gone = [*snapshot.gone, *(pod for pod in snapshot.pods if pod["metadata"]["uid"] not in there)]
    return replace(snapshot, pods=pods, gone=gone, children=snapshot.with_parts(children))
