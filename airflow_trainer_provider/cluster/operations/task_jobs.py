"""Finds the jobs of one task in the cluster, whichever try submitted them."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import identity_of, owner_of
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels


async def jobs_of(
    cluster: Cluster, kinds: Iterable[Kind], namespace: str, identity: Identity, *, not_older_than: str = ""
) -> list[JobObject]:
    """The task's jobs, the latest try's first.

    :param identity: the task.
    :param not_older_than: the resource version that has to be in what is read; empty reads the newest state.
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
