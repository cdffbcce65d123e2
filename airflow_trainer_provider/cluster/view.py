"""Everything that a cluster shows of one job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.kueue import workloads_of
from airflow_trainer_provider.cluster.objects import annotation, groups_of, is_rendered
from airflow_trainer_provider.errors import JobLost
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import EVENTS, PODS, Kind, Manifest
from airflow_trainer_provider.kinds.standing import job_status


@dataclass(frozen=True)
class View:
    """What was seen of a job.

    :param kind: of its main object.
    :param main: its main object.
    :param pods: those that are there.
    :param gone: the last version of those that were there.
    :param children: the objects by which the main one's kind tells how it stands.
    :param events: of the job's objects, the oldest first; asked for only while there are no pods.
    :param workloads: those by which Kueue decides when the job runs; asked for only while there are no pods.
    :param deleted: whether the main object is gone.
    """

    kind: Kind
    main: Manifest
    pods: Sequence[Manifest] = ()
    gone: Sequence[Manifest] = ()
    children: Sequence[Manifest] = ()
    events: Sequence[Manifest] = ()
    workloads: Sequence[Manifest] = ()
    deleted: bool = False

    @classmethod
    async def read(cls, cluster: Cluster, kind: Kind, main: Manifest) -> View:
        """Ask the cluster for it.

        :param main: the job's main object.
        """
        pods, children = await parts_of(cluster, kind, main)
        view = cls(kind, main, pods, children=children)
        return view if pods else replace(view, **await why_no_pods(cluster, main, children))

    def status(self) -> JobStatus:
        """How the job stands."""
        status = job_status(
            self.kind,
            self.main,
            self.pods,
            groups=groups_of(self.kind, self.main),
            ranked=annotation(self.main, labels.RANKED) is not None,
            gone=self.gone,
            children=[*self.children, *self.workloads],
            events=self.events,
            deleted=self.deleted,
        )
        return status.model_copy(update={"progress": self.kind.progress(self.main)}) if self.kind.progress else status

    def pods_of(self, replica: str) -> list[Manifest]:
        """A replica's pods, the newest last; those that are gone before those that are there."""
        found = [pod for pod in (*self.gone, *self.pods) if self.replica_of(pod) == replica]
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def replica_of(self, pod: Manifest) -> str | None:
        """The name of the replica that a pod is; None where it is none."""
        place = self.kind.place(pod, self.main)
        return f"{place[0]}-{place[1]}" if place else None


async def parts_of(
    cluster: Cluster, kind: Kind, main: Manifest, *, not_older_than: str = ""
) -> tuple[list[Manifest], list[Manifest]]:
    """A job's pods, and the objects by which its kind tells how it stands.

    :param main: the job's main object.
    :param not_older_than: the moment that has to be in what is read; empty for all until now.
    """
    namespace, name = main["metadata"]["namespace"], main["metadata"]["name"]
    pods = await cluster.client.list(
        PODS, namespace, label_selector=f"{kind.pod_label}={name}", not_older_than=not_older_than
    )
    # What others made does not carry our labels; it has the job's own name.
    ours = is_rendered(main)
    label_selector = f"{labels.JOB}={name}" if ours else ""
    field_selector = "" if ours else f"metadata.name={name}"
    children = []
    for resource in kind.children:
        listing = await cluster.client.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            not_older_than=not_older_than,
        )
        children += listing.items
    return pods.items, children


async def why_no_pods(cluster: Cluster, main: Manifest, children: Sequence[Manifest]) -> dict[str, Any]:
    """What says why a job has no pods: the events of all its objects, for controllers say nowhere else what they could
    not create, and its Kueue Workloads.

    :return: fields of a :class:`View`.
    """
    workloads = await workloads_of(cluster, [main, *children])
    return {"events": await warnings_of(cluster, main), "workloads": workloads}


async def warnings_of(cluster: Cluster, main: Manifest) -> list[Manifest]:
    """The warnings about a job's objects, the oldest first.

    :param main: the job's main object.
    """
    name, namespace = main["metadata"]["name"], main["metadata"]["namespace"]
    warnings = await cluster.client.list(EVENTS, namespace, field_selector="type=Warning")
    # What controllers make for a job, they call by the job's name and something behind it.
    events = [each for each in warnings.items if f"{each['involvedObject'].get('name')}-".startswith(f"{name}-")]
    return in_order(events)


def in_order(events: Iterable[Manifest]) -> list[Manifest]:
    """Events, the oldest first."""
    return sorted(events, key=_event_time)


def lost(main: Manifest) -> JobLost:
    """The error for a job that somebody deleted."""
    kind, name, namespace = main["kind"], main["metadata"]["name"], main["metadata"]["namespace"]
    return JobLost(
        f"Training job {name} is gone: somebody deleted its {kind} in namespace {namespace}, or the namespace itself. "
        "How it would have ended is not known."
    )


def was_cancelled(main: Manifest) -> bool:
    """Whether a task wanted the job to end."""
    return annotation(main, labels.CANCELLED) is not None


def _event_time(event: Manifest) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
