"""Finds the kind of a user's own manifest."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.plan.plan import ManifestPlan
from airflow_trainer_provider.kinds.registry import BACKENDS, manifest_kinds
from airflow_trainer_provider.spec import ManifestSpec
from airflow_trainer_provider.spec.values.limits import MOST_REPLICAS


def plan_manifest(spec: ManifestSpec, deadline: float | None = None) -> ManifestPlan:
    """Determine the backend, the kind and the framework of a manifest.

    :param spec: what the user asked for.
    :param deadline: seconds that the job may take at most; it is not part of the user's spec.
    :raises SpecError: the kind is unknown or contradicts the framework, or a job from the manifest could not be
        followed.
    """
    given = (spec.manifest["apiVersion"], spec.manifest["kind"])
    known = {
        (kind.resource.api_version, kind.resource.kind): (backend, kind)
        for backend in BACKENDS
        for kind in manifest_kinds(backend)
    }
    if given not in known:
        allowed = ", ".join(f"{kind} ({version})" for version, kind in known)
        fix = "Correct apiVersion and kind: it has to be the job itself."
        raise SpecError([Problem("manifest.kind", f"{given[1]} ({given[0]})", allowed, fix)])
    backend, kind = known[given]
    only = next(iter(kind.frameworks)) if len(kind.frameworks) == 1 else None
    if only and spec.framework not in (None, only):
        fix = "Drop framework, or correct manifest.kind."
        raise SpecError([Problem("framework", spec.framework, f"{only!r}, which a {given[1]} runs", fix)])
    assert kind.manifests is not None, "manifest_kinds has only kinds with such rules"
    kind.manifests.check(dict(spec.manifest))
    # A manifest that was read from a cluster may have the annotations of an earlier job: they are left out.
    _check_total(kind.groups({**spec.manifest, "metadata": {}}))
    return ManifestPlan(spec, backend, kind.key, get_framework(spec.framework or only or ""), deadline)


def _check_total(groups: Mapping[str, int | None]) -> None:
    total = sum(count or 0 for count in groups.values())
    if total > MOST_REPLICAS:
        allowed = f"at most {MOST_REPLICAS} replicas in all; these are {total}"
        raise SpecError([Problem("manifest.spec", f"{total} replicas", allowed, "Start fewer replicas.")])
