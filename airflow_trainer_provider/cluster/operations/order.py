"""The order for one job on a cluster: made from a spec, or from the user's own manifest."""

from __future__ import annotations

import copy
import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_trainer_provider.cluster.state.objects import SUFFIX_LENGTH, base_name
from airflow_trainer_provider.job.backend import Admit
from airflow_trainer_provider.job.identity import NAME_LENGTH, Identity, spec_digest
from airflow_trainer_provider.job.plan.checkpoint import mounted
from airflow_trainer_provider.job.plan.plan import JobPlan, ManifestPlan
from airflow_trainer_provider.kinds.base import Facts, Rendered
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.merge_patch import merged, value_at
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.objects.function import with_function
from airflow_trainer_provider.kinds.objects.tools import with_addresses, with_tools
from airflow_trainer_provider.kinds.objects.volumes.claims import with_claims
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.size import check_size

log = logging.getLogger(__name__)

#: Metadata fields that the API server or this provider sets, and that a manifest which was read from a cluster has.
_SERVERS = frozenset(
    {
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "selfLink",
        # With these two, the owner of the object that was read would own this one, and finalizers would keep it from
        # being deleted.
        "ownerReferences",
        "finalizers",
    }
)


@dataclass(frozen=True)
class Order:
    """One job that a task requests.

    :param kind: of its main object.
    :param identity: the task, and its try.
    :param digest: equal only for orders of the same job.
    :param name: of the try's first job; see :meth:`name_of`.
    :param render: (name, facts) -> its objects; raises :class:`~airflow_trainer_provider.errors.SpecError` where they
        are too large.
    :param runtime: the API path of the runtime that it uses; None without a runtime.
    """

    kind: Kind
    identity: Identity
    digest: str
    name: str
    render: Callable[[str, Facts], Rendered]
    runtime: str | None = None

    def name_of(self, number: int) -> str:
        """The name of one of the jobs that the try may have, one after the other.

        :param number: from 1.
        """
        return self.name if number == 1 else f"{self.name}-{number}"


def order_of(kind: Kind, namespace: str, job: JobPlan, identity: Identity, admit: Admit | None = None) -> Order:
    """The order for a job that a spec describes.

    :param kind: that the job is rendered as.
    :param namespace: where it will be.
    :param job: the job.
    :param identity: the task, and its try.
    :param admit: called before the job is rendered, with the job and what its runtime adds, if it adds anything.
    """
    renderer = kind.renderer
    assert renderer is not None, "a kind that carries a framework has a renderer"

    digest = spec_digest(job.asked or job.spec)

    def render(name: str, facts: Facts) -> Rendered:
        whole = renderer.with_runtime(job, facts)
        if whole is not job:
            if added := _added(job, whole):
                log.info("Runtime %s gives what the task leaves out: %s.", job.spec.runtime_name, added)
            if admit is not None:
                admit(whole)
        if job.spec.checkpoint:
            whole = mounted(whole, identity.folder_name(job.spec.checkpoint.scope))
        meta = with_addresses(labels.meta_of(whole, identity, name, digest), whole, namespace)
        rendered = with_function(renderer.render(whole, meta, facts), whole, meta)
        rendered = with_claims(rendered, whole, meta)
        rendered = with_tools(rendered, whole, meta, namespace, renderer.tool_pod(whole, name))
        check_size(whole, rendered)
        if rendered.note:
            log.info("%s", rendered.note)
        return rendered

    return Order(
        kind=kind,
        identity=identity,
        digest=digest,
        name=base_name(renderer, job, identity),
        render=render,
        runtime=renderer.runtime_path(job, namespace),
    )


def _added(job: JobPlan, whole: JobPlan) -> str:
    """What a job gets from its runtime, as text.

    :param job: laid out from the task alone.
    :param whole: the same job with its runtime.
    """
    given, all_of_it = (each.spec.model_dump(exclude_none=True) for each in (job, whole))
    fields = [f"{name}={value}" for name, value in all_of_it.items() if value != given.get(name)]
    if whole.framework.automatic_trains != job.framework.automatic_trains:
        fields.append(f"the {whole.leader.group} is one of the nodes")
    return ", ".join(fields)


def manifest_order(job: ManifestPlan, namespace: str, identity: Identity) -> Order:
    """The order for the user's own manifest.

    The job gets a name, labels and annotations from this provider, and the task's deadline. Fields that the cluster
    sets are dropped, its time to live is set later, and everything else stays as it is.

    :param job: the manifest, and its kind.
    :param namespace: where it will be.
    :param identity: the task, and its try.
    """
    kind, manifest = KINDS[job.kind], dict(job.spec.manifest)
    rules, runtime_groups, retention = kind.manifests, kind.runtime_groups, kind.retention.patch
    assert rules is not None, "the kind of a user's own manifest has rules for it"
    # A job with a time to live could be deleted before its outcome is read: the field is set once the outcome is safe.
    ttl = value_at(manifest, retention(0)) if retention else None
    kept = {labels.TTL: str(ttl)} if isinstance(ttl, int) else {}

    def render(name: str, facts: Facts) -> Rendered:
        main = rules.as_new(copy.deepcopy(manifest))
        main.pop("status", None)
        if retention and kept:
            main = merged(main, retention(None))
        if job.deadline is not None:
            main = rules.deadline(main, math.ceil(job.deadline), facts)
        meta = labels.meta_of_manifest(job, identity, name)
        metadata = {field: value for field, value in (main.get("metadata") or {}).items() if field not in _SERVERS}
        groups = {}
        if runtime_groups and facts.runtime:
            groups = {labels.GROUPS: json.dumps(runtime_groups.groups(main, facts.runtime))}
        main["metadata"] = {
            **metadata,
            "name": name,
            "labels": {**_theirs(metadata.get("labels")), **meta.labels},
            "annotations": {**_theirs(metadata.get("annotations")), **kept, **meta.annotations, **groups},
        }
        rendered = Rendered(main)
        check_size(job, rendered)
        return rendered

    metadata = manifest.get("metadata") or {}
    readable = job.spec.name or metadata.get("name") or metadata.get("generateName")
    return Order(
        kind=kind,
        identity=identity,
        digest=spec_digest(job.spec),
        name=identity.job_name(readable, min(rules.name_limit, NAME_LENGTH) - SUFFIX_LENGTH),
        render=render,
        runtime=runtime_groups.path(manifest, namespace) if runtime_groups else None,
    )


def _theirs(names: Mapping[str, str] | None) -> dict[str, str]:
    """Labels or annotations without this provider's own, which a manifest read from a cluster may have."""
    return {name: value for name, value in (names or {}).items() if not name.startswith(f"{labels.PREFIX}/")}
