"""What is asked of a cluster: a job that a spec describes, or the user's own manifest."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.cluster.objects import SUFFIX_LENGTH, base_name
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.identity import NAME_LENGTH, Identity, spec_digest
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Facts, Kind, Rendered
from airflow_trainer_provider.kinds.manifest import ManifestJob

#: How long a pod has to end unless it says otherwise, in seconds.
_KUBERNETES_GRACE = 30.0
#: Fields of an object's metadata that are the API server's, or ours: a manifest that was read from a cluster has them.
_SERVERS = frozenset(
    {"namespace", "generateName", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"}
)


@dataclass(frozen=True)
class Order:
    """One job that a task wants.

    :param kind: what it becomes.
    :param identity: the task, and its try.
    :param digest: the same for orders of the same job only.
    :param name: of the job, as long as no other has it.
    :param grace: how long its pods may take to end, in seconds.
    :param render: (name, facts) -> its objects.
    :param runtime: the path of the runtime that it starts from, if it does.
    """

    kind: Kind
    identity: Identity
    digest: str
    name: str
    grace: float
    render: Callable[[str, Facts], Rendered]
    runtime: str | None = None


def order_of(kind: Kind, namespace: str, job: Job, identity: Identity) -> Order:
    """The order for a job that a spec describes.

    :param kind: which carries it.
    :param namespace: where it will be.
    :param job: the job.
    :param identity: the task, and its try.
    """
    return Order(
        kind=kind,
        identity=identity,
        digest=spec_digest(job.spec),
        name=base_name(kind, job, identity),
        grace=job.spec.run_policy.grace_period_seconds,
        render=lambda name, facts: kind.render(job, labels.meta_of(job, identity, name), facts),
        runtime=kind.runtime(job, namespace) if kind.runtime else None,
    )


def manifest_order(job: ManifestJob, namespace: str, identity: Identity) -> Order:
    """The order for a manifest of the user's own. Its name and labels get ours added; all else is left as it is.

    :param job: the manifest, and what it is.
    :param namespace: where it will be.
    :param identity: the task, and its try.
    """
    kind, manifest = job.kind, dict(job.spec.manifest)

    def render(name: str, facts: Facts) -> Rendered:
        main = copy.deepcopy(manifest)
        main.pop("status", None)
        meta = labels.meta_of_manifest(job, identity, name)
        metadata = {field: value for field, value in (main.get("metadata") or {}).items() if field not in _SERVERS}
        groups = {}
        if kind.groups_with and facts.runtime:
            groups = {labels.GROUPS: json.dumps(kind.groups_with(main, facts.runtime))}
        main["metadata"] = {
            **metadata,
            "name": name,
            "labels": {**(metadata.get("labels") or {}), **meta.labels},
            "annotations": {**(metadata.get("annotations") or {}), **meta.annotations, **groups},
        }
        return Rendered(main)

    metadata = manifest.get("metadata") or {}
    readable = job.spec.name or metadata.get("name") or metadata.get("generateName")
    return Order(
        kind=kind,
        identity=identity,
        digest=spec_digest(job.spec),
        name=identity.job_name(readable, min(kind.manifest_name_limit, NAME_LENGTH) - SUFFIX_LENGTH),
        grace=max(_graces(manifest), default=_KUBERNETES_GRACE),
        render=render,
        runtime=kind.manifest_runtime(manifest, namespace) if kind.manifest_runtime else None,
    )


def _graces(value: Any) -> Iterator[float]:
    """Every grace period that is written anywhere in a manifest, in seconds."""
    if isinstance(value, Mapping):
        given = value.get("terminationGracePeriodSeconds")
        if isinstance(given, int):
            yield float(given)
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _graces(each)
