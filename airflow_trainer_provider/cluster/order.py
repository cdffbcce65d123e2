"""What is asked of a cluster: a job that a spec describes, or the user's own manifest."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from airflow_trainer_provider.cluster.objects import base_name
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.identity import NAME_LENGTH, Identity, spec_digest
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Facts, Kind, Manifest, Rendered

#: How long a pod has to end unless it says otherwise, in seconds.
_KUBERNETES_GRACE = 30.0


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


def manifest_order(kind: Kind, framework: str, manifest: Manifest, identity: Identity) -> Order:
    """The order for a manifest of the user's own. Its name and labels get ours added; all else is left as it is.

    :param kind: of the manifest.
    :param framework: which it runs.
    :param manifest: the main object.
    :param identity: the task, and its try.
    """
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def render(name: str, facts: Facts) -> Rendered:
        main = copy.deepcopy(manifest)
        meta = labels.meta_of_manifest(framework, digest, identity, name)
        metadata = main.setdefault("metadata", {})
        for field in ("namespace", "generateName"):
            metadata.pop(field, None)
        metadata["name"] = name
        metadata["labels"] = {**(metadata.get("labels") or {}), **meta.labels}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **meta.annotations}
        return Rendered(main)

    metadata = manifest.get("metadata") or {}
    readable = metadata.get("name") or metadata.get("generateName")
    return Order(
        kind=kind,
        identity=identity,
        digest=digest,
        name=identity.job_name(readable, NAME_LENGTH - len("-99")),
        grace=_KUBERNETES_GRACE,
        render=render,
    )
