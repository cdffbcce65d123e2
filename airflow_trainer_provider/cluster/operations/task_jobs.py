"""Finds the jobs of one task in the cluster, whichever try submitted them, and ends those of its earlier tries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.end import end, finish, wait_until_ended
from airflow_trainer_provider.cluster.operations.wait import wait_for_ends
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import identity_of, is_being_deleted, owner_of
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import PODS, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS

_ELSEWHERE = "the task was tried again elsewhere"


async def jobs_of(
    cluster: Cluster, kinds: Iterable[Kind], namespace: str, identity: Identity, *, not_older_than: str = ""
) -> list[JobObject]:
    """The task's jobs, the latest try's first.

    :param identity: the task.
    :param not_older_than: the resource version that the answers have to be as new as; empty reads the newest state.
    """
    found = []
    for kind in kinds:
        listing = await cluster.client.list(
            kind.resource, namespace, label_selector=_selector(identity), not_older_than=not_older_than
        )
        # The label is a short digest: two tasks may share it.
        found += [JobObject(kind, item) for item in listing.items if _is_of(identity, item)]
    return sorted(found, key=lambda job: (owner_of(job.main), job.main["metadata"]["creationTimestamp"]), reverse=True)


def _selector(identity: Identity) -> str:
    keys = identity.keys
    task = f"{labels.TASK}={keys[0]}" if len(keys) == 1 else f"{labels.TASK} in ({','.join(keys)})"
    return f"{labels.OURS},{task}"


def _is_of(identity: Identity, main: Manifest) -> bool:
    recorded = identity_of(main)
    return recorded is not None and identity.is_same_task(recorded)


async def end_earlier(cluster: Cluster, namespace: str, identity: Identity) -> None:
    """End the jobs of a task in a namespace, of any kind, and wait until no pod of them runs.

    Jobs that have ended are finished as ``on_finish_action`` says: some pods of a failed job may still run.

    :param cluster: where they are.
    :param namespace: where they are.
    :param identity: the task, and the try that starts its job elsewhere.
    :raises SubmitError: a later try has one of them, or one does not end.
    """
    kinds = await cluster.served(KINDS.values())
    for job in await jobs_of(cluster, kinds, namespace, identity):
        ensure_current(job, identity)
        phase = (await Snapshot.read(cluster, job)).status().phase
        if phase in (JobPhase.SUCCEEDED, JobPhase.FAILED) and not is_being_deleted(job.main):
            await finish(cluster, job, succeeded=phase is JobPhase.SUCCEEDED)
        elif not await end(cluster, job, _ELSEWHERE, latest_owner(job, identity), resumable=False):
            raise SubmitError(f"A later try of this task has adopted job {job.name}.")
        await wait_until_ended(cluster, job)
    await wait_for_pods(cluster, kinds, namespace, identity)


async def wait_for_pods(cluster: Cluster, kinds: Sequence[Kind], namespace: str, identity: Identity) -> bool:
    """Wait for the pods of a task's deleted jobs: a job is deleted before its pods end.

    :param cluster: where they were.
    :param kinds: of the jobs that may still exist. Pods of existing jobs are not waited for.
    :param namespace: where they were.
    :param identity: the task.
    :return: whether there was something to wait for; meanwhile another client may have started a job of the task.
    :raises SubmitError: the pods have not ended in time.
    """
    # Only the key with the deployment: the key without it may be that of another Airflow's task, whose pods keep
    # running.
    selector = f"{labels.OURS},{labels.TASK}={identity.key}"

    async def look() -> list[Manifest]:
        pods = (await cluster.client.list(PODS, namespace, label_selector=selector)).items
        if all(map(is_being_deleted, pods)):
            return pods
        # Another submit of the same try may create its job at this moment.
        names = {
            main["metadata"]["name"]
            for kind in kinds
            for main in (await cluster.client.list(kind.resource, namespace, label_selector=selector)).items
        }
        return [pod for pod in pods if pod["metadata"]["labels"].get(labels.JOB) not in names]

    ends = await wait_for_ends(cluster, look, "earlier tries")
    if ends.left:
        raise SubmitError(
            f"Jobs of earlier tries were deleted, and their pods {ends.left} do not end; nothing was started. Pods of "
            "a node that is off go when the node is deleted from the cluster, or with kubectl delete pod --force."
        )
    return ends.waited


def is_later(job: JobObject, identity: Identity) -> bool:
    """Whether a job belongs to a later try of the task, or to a later run that has the same id.

    :param job: of the task.
    :param identity: the try.
    """
    return identity.is_out_of_date(identity_of(job.main) or identity, owner_of(job.main))


def latest_owner(job: JobObject, identity: Identity) -> int:
    """The latest try whose job may be ended by a try of the task.

    :param job: of the task; not one of a later try.
    :param identity: the try that ends it.
    """
    # A job of a deleted run may have an owner with a greater number: no try of that run is left.
    return max(owner_of(job.main), identity.try_number)


def ensure_current(job: JobObject, identity: Identity) -> None:
    """Raise an error where a later try of the task owns a job, or a later run that has the same id.

    :param job: of the task.
    :param identity: the try that wants a job.
    :raises SubmitError: a later try owns it.
    """
    if is_later(job, identity):
        raise SubmitError(
            f"Try {owner_of(job.main)} of this task already has job {job.name}; "
            f"try {identity.try_number} is out of date and starts nothing."
        )
