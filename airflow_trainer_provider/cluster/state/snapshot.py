"""Everything that a cluster shows of one job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.kueue import workloads_of
from airflow_trainer_provider.cluster.state.objects import is_rendered
from airflow_trainer_provider.cluster.state.own_pods import is_own, own_pods
from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.job.diagnosis.causes import DELETED
from airflow_trainer_provider.job.diagnosis.readable import readable
from airflow_trainer_provider.job.queue.place import QueuePlace, last_of
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds.base import EVENTS, PODS, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.objects.pod_secrets import pods_mask
from airflow_trainer_provider.kinds.status.containers import training_container_of
from airflow_trainer_provider.kinds.status.deletion import MISSED, as_gone, deletion_of
from airflow_trainer_provider.kinds.status.disrupted import to_write
from airflow_trainer_provider.kinds.status.events import SELECTORS
from airflow_trainer_provider.kinds.status.job_status import job_status
from airflow_trainer_provider.kinds.status.reading import Reading
from airflow_trainer_provider.kinds.status.replicas import read_replicas
from airflow_trainer_provider.text.mask import Mask


@dataclass(frozen=True)
class Snapshot:
    """A job's objects at one moment.

    :param job: its main object.
    :param pods: its pods that exist.
    :param gone: the last versions of its pods that were deleted.
    :param children: the child objects in which the job's kind keeps its status.
    :param events: what the job waits for, the oldest first; read only while pods are missing or pending.
    :param workloads: the Workloads by which Kueue decides when the job runs; read only while there are no pods.
    :param places: where the job's objects that wait are in their queues; known only where the job is watched.
    :param deleted: whether the main object is gone.
    """

    job: JobObject
    pods: Sequence[Manifest] = ()
    gone: Sequence[Manifest] = ()
    children: Sequence[Manifest] = ()
    events: Sequence[Manifest] = ()
    workloads: Sequence[Manifest] = ()
    places: Sequence[QueuePlace] = ()
    deleted: bool = False

    @classmethod
    async def read(cls, cluster: Cluster, job: JobObject, *, why: bool = False) -> Snapshot:
        """Read a snapshot from the cluster.

        :param why: also read the events that say why pods are missing or pending where other pods exist.
        """
        pods, children = await parts_of(cluster, job)
        snapshot = cls(job, pods, children=children)
        if not pods:
            return replace(snapshot, **await why_no_pods(cluster, job, children))
        phase = job.kind.read(job.main, children).phase
        if not why or (phase and phase.ended) or not lacks_pods(job, pods):
            return snapshot
        return replace(snapshot, events=await events_of(cluster, job))

    def status(self) -> JobStatus:
        """The job's status."""
        status = job_status(
            self.job.kind,
            self.job.main,
            self.pods,
            groups=self.job.groups,
            ranked=self.job.annotation(labels.RANKED) is not None,
            gone=self.gone,
            children=[*self.children, *self.workloads],
            events=self.events,
            deleted=self.deleted,
        )
        if self.job.kind.progress:
            status = status.model_copy(update={"progress": self.job.kind.progress(self.job.main)})
        if self.job.annotation(labels.TOOLS) is not None:
            status = status.model_copy(update={"node_address": self._node_address()})
        if status.phase is JobPhase.QUEUED:
            status = status.model_copy(update={"queue": last_of(self.places)})
        return readable(status, self.mask())

    def is_complete(self) -> bool:
        """Whether the job's controller considers it complete and starts no more pods, however its pods have ended."""
        return self.job.kind.read(self.job.main, self.children).phase is JobPhase.SUCCEEDED

    def lost_part(self) -> str | None:
        """The message that a part of the job was deleted, so that the job has failed; None where no part was."""
        read = self.job.kind.read(self.job.main, self.children)
        return read.message if read.reason == DELETED else None

    def with_parts(self, children: Sequence[Manifest]) -> list[Manifest]:
        """The child objects that exist, and the last versions of deleted ones that no controller creates again.

        :param children: those that exist, as they were read after this snapshot was taken.
        """
        there = {child["metadata"]["uid"] for child in children}
        known = () if self.job.kind.controller.remakes_children else self.children
        gone = [each for each in known if each["metadata"]["uid"] not in there]
        return [*children, *(each if deletion_of(each) else as_gone(each, MISSED) for each in gone)]

    def disruption(self) -> Manifest | None:
        """The merge patch that records which replicas were disrupted; None where there is nothing new."""
        job = self.job
        is_of_interest = job.annotation(labels.DISRUPTED) or any(map(_is_to_go, (*self.gone, *self.pods)))
        if job.annotation(labels.CANCELLED) is not None or not is_of_interest:
            return None
        replicas = read_replicas(job.kind, job.main, self.pods, self.gone, job.groups, ranked=False)
        reading = Reading(job.kind, job.main, job.kind.read(job.main, self.children), replicas)
        return to_write(reading, self.status().first_failed)

    def mask(self) -> Mask:
        """The mask for the secrets in the specs of the job's pods."""
        return pods_mask((*self.gone, *self.pods))

    def _node_address(self) -> str | None:
        """The lowest address of the nodes that have pods of the job, so that the same node is named each time."""
        addresses = ((pod.get("status") or {}).get("hostIP") for pod in self.pods)
        return min(filter(None, addresses), default=None)

    def pods_of(self, replica: str) -> list[Manifest]:
        """A replica's pods, the newest last. Of pods of the same age, deleted ones come first."""
        found = [pod for pod in (*self.gone, *self.pods) if self.replica_of(pod) == replica]
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def container_of(self, pod: Manifest) -> str:
        """The name of the training's container in a pod."""
        return training_container_of(self.job.kind, self.job.main, pod)

    def replica_of(self, pod: Manifest) -> str | None:
        """The name of a pod's replica; None where the pod is not a replica of this job."""
        ref = self.job.kind.replica_ref(pod, self.job.main)
        return ref.name if ref and is_own(self.job, pod) else None


async def parts_of(
    cluster: Cluster, job: JobObject, *, not_older_than: str = ""
) -> tuple[list[Manifest], list[Manifest]]:
    """A job's pods, and the objects in which its kind keeps its status.

    :param not_older_than: the resource version that the answers have to be as new as; empty reads the newest state.
    """
    pods = await cluster.client.list(
        PODS, job.namespace, label_selector=f"{job.kind.pod_label}={job.name}", not_older_than=not_older_than
    )
    # Only the children of a job that was made from a spec carry our labels. Others have the name of the job.
    ours = is_rendered(job.main)
    label_selector = f"{labels.JOB}={job.name}" if ours else ""
    field_selector = "" if ours else f"metadata.name={job.name}"
    children = []
    for resource in job.kind.children:
        listing = await cluster.client.list(
            resource,
            job.namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            not_older_than=not_older_than,
        )
        children += listing.items
    return own_pods(job, pods.items), children


def lacks_pods(job: JobObject, pods: Collection[Manifest]) -> bool:
    """Whether pods of a job are missing or pending.

    :param job: a job that has not ended.
    :param pods: its pods that exist.
    """
    phases = [((pod.get("status") or {}).get("phase"), job.kind.replica_ref(pod, job.main)) for pod in pods]
    there = {ref for phase, ref in phases if ref and phase != "Failed"}
    return any(phase == "Pending" for phase, _ in phases) or len(there) < sum(job.groups.values())


async def why_no_pods(cluster: Cluster, job: JobObject, children: Sequence[Manifest]) -> dict[str, Any]:
    """Read why a job has no pods: the events of all its objects, and its Kueue Workloads.

    Only in events do controllers report what they could not create.

    :return: fields of a :class:`Snapshot`.
    """
    workloads = await workloads_of(cluster, [job.main, *children])
    return {"events": await events_of(cluster, job), "workloads": workloads}


async def events_of(cluster: Cluster, job: JobObject, selectors: Iterable[str] = SELECTORS) -> list[Manifest]:
    """The events of a job's objects, the oldest first.

    :param selectors: field selectors; an event that fits one of them is read.
    """
    listings = [await cluster.client.list(EVENTS, job.namespace, field_selector=each) for each in selectors]
    # Controllers name the objects of a job after the job, with a suffix.
    found = (each for listing in listings for each in listing.items)
    return in_order(each for each in found if f"{each['involvedObject'].get('name')}-".startswith(f"{job.name}-"))


def in_order(events: Iterable[Manifest]) -> list[Manifest]:
    """Events, the oldest first."""
    return sorted(events, key=_event_time)


def lost(job: JobObject) -> JobLost:
    """The error for a job whose main object is gone, and whose end was not seen.

    :param job: as it was last seen.
    """
    what, name, namespace = job.resource.kind, job.name, job.namespace
    if job.expires:
        return expired(name, job.kind, namespace)
    return JobLost(
        f"Training job {name} is gone: its {what} in namespace {namespace} was deleted, or the namespace itself. "
        "How it would have ended is not known."
    )


def expired(name: str, kind: Kind, namespace: str) -> JobLost:
    """The error for a job that is gone, where the cluster itself deletes the job some time after its end.

    :param name: of the job.
    :param kind: of its main object.
    :param namespace: of its main object.
    """
    return JobLost(
        f"Training job {name} is gone: most likely it has ended, and its {kind.resource.kind} in namespace {namespace} "
        "was deleted by its own ttlSecondsAfterFinished before its outcome was read. Whether it succeeded is not "
        "known: look at what it left, and mark the task, or clear it to train again. Drop the field: on_finish_action "
        "does the same.",
        retryable=False,
    )


def _is_to_go(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _event_time(event: Manifest) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
