"""A user's own manifest, and the kind that it is of."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.frameworks.base import Framework
from airflow_trainer_provider.kinds.base import Kind
from airflow_trainer_provider.kinds.registry import BACKENDS, manifest_kinds
from airflow_trainer_provider.spec import ManifestSpec


@dataclass(frozen=True)
class ManifestJob:
    """A job that a user's own manifest describes; what :class:`~airflow_trainer_provider.frameworks.layout.Job` is
    for a spec.

    :param spec: what the user asked for.
    :param backend: the backend of the manifest's kind.
    :param kind: of the manifest.
    :param framework: which it runs; the unknown one where nobody says.
    """

    spec: ManifestSpec
    backend: str
    kind: Kind
    framework: Framework


def manifest_job(spec: ManifestSpec) -> ManifestJob:
    """Find out what a manifest is.

    :param spec: what the user asked for.
    :raises SpecError: it is of no kind that is known here, contradicts the framework, or could not be followed.
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
    kind.manifest_check(dict(spec.manifest))
    return ManifestJob(spec, backend, kind, get_framework(spec.framework or only or ""))
