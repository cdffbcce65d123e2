"""Finds jobs in a namespace, whoever created them. It only reads."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.state.groups import job_object
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import annotation, is_ours
from airflow_trainer_provider.job.backend import Wanted
from airflow_trainer_provider.kinds.base import JOBS, SERVICES, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels

#: Kinds of objects that own Jobs as parts of a training job: such Jobs are not jobs to wait for.
_WHOLES = frozenset({"Service", "JobSet", "MPIJob", "TrainJob"})


async def find(cluster: Cluster, kinds: Iterable[Kind], namespace: str, wanted: Wanted) -> list[JobObject]:
    """The jobs that match a search.

    :param cluster: where to look.
    :param kinds: of these kinds.
    :param namespace: in which namespace.
    :param wanted: which jobs; ``kinds`` selects the kinds, not its own kind.
    """
    found: dict[str, JobObject] = {}
    for kind in await cluster.served(kinds):
        field = f"metadata.name={wanted.name}" if wanted.name else ""
        listing = await cluster.client.list(
            kind.resource, namespace, label_selector=wanted.selector or "", field_selector=field
        )
        for main in listing.items:
            if _is_whole(kind, main, named=wanted.kind is not None):
                # One object may be served in two versions.
                found.setdefault(main["metadata"]["uid"], await job_object(cluster, kind, _typed(kind, main)))
    return list(found.values())


async def jobs(cluster: Cluster, kinds: Iterable[Kind], namespace: str, selector: str = "") -> list[JobObject]:
    """All jobs of a namespace, including those created outside Airflow; without the replica counts of their runtimes.

    :param cluster: the cluster.
    :param kinds: of these kinds.
    :param namespace: where to look.
    :param selector: a label selector; empty for all.
    """
    found = []
    for kind in await cluster.served(kinds):
        # It is unknown whether a Job that was created outside Airflow is a training job.
        ours = "" if kind.resource.crd else labels.OURS
        both = ",".join(filter(None, (ours, selector)))
        listing = await cluster.client.list(kind.resource, namespace, label_selector=both)
        found += [JobObject(kind, main) for main in listing.items if _stands_for_a_job(kind, main)]
    return found


def _stands_for_a_job(kind: Kind, main: Manifest) -> bool:
    return bool(kind.resource.crd) or annotation(main, labels.IDENTITY) is not None


def _is_whole(kind: Kind, main: Manifest, *, named: bool) -> bool:
    """Whether an object is a job of its own, and not a part of one."""
    if kind.resource == SERVICES:
        return is_ours(main) and annotation(main, labels.IDENTITY) is not None
    owners = main["metadata"].get("ownerReferences") or ()
    return named or kind.resource != JOBS or not any(owner["kind"] in _WHOLES for owner in owners)


def _typed(kind: Kind, main: Manifest) -> Manifest:
    # The API server leaves both fields out of the items of a list.
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, **main}
