"""The cluster backends and their kinds, the preferred ones first. A new kind is one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan, Plan
from airflow_trainer_provider.kinds.base import (
    CONFIG_MAPS,
    INGRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    SECRETS,
    SERVICES,
    Manifest,
    Resource,
)
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.kubeflow.training_operator import JAXJOB, PADDLEJOB, PYTORCHJOB, TFJOB, XGBOOSTJOB
from airflow_trainer_provider.kinds.mpi_operator.mpijob import MPIJOB_V1, MPIJOB_V2BETA1
from airflow_trainer_provider.kinds.native.batch_job import BATCH_JOB
from airflow_trainer_provider.kinds.native.native import NATIVE
from airflow_trainer_provider.kinds.objects.scheduling.gang import POD_GROUPS
from airflow_trainer_provider.kinds.trainer.training_runtime import TRAINING_RUNTIMES
from airflow_trainer_provider.kinds.trainer.trainjob import TRAINJOB
from airflow_trainer_provider.spec.validation import choice

#: Backend name -> its kinds.
BACKENDS: Mapping[str, tuple[Kind, ...]] = {
    "trainer": (TRAINJOB,),
    "training-operator": (PYTORCHJOB, TFJOB, XGBOOSTJOB, MPIJOB_V1, PADDLEJOB, JAXJOB),
    "mpi-operator": (MPIJOB_V2BETA1,),
    # BATCH_JOB has no renderer.
    "native": (NATIVE, BATCH_JOB),
}
#: Key -> kind.
KINDS: Mapping[str, Kind] = {kind.key: kind for kinds in BACKENDS.values() for kind in kinds}
_BACKEND_OF = {kind.key: backend for backend, kinds in BACKENDS.items() for kind in kinds}
_RESOURCES = {
    (resource.api_version, resource.kind): resource
    for resource in (
        CONFIG_MAPS,
        INGRESSES,
        PERSISTENT_VOLUME_CLAIMS,
        SECRETS,
        SERVICES,
        TRAINING_RUNTIMES,
        *POD_GROUPS.values(),
        *(kind.resource for kind in KINDS.values()),
    )
}


def resource_of(manifest: Manifest) -> Resource:
    """The resource of an object that a kind rendered."""
    return _RESOURCES[manifest["apiVersion"], manifest["kind"]]


def backend_of(kind: Kind) -> str:
    """The name of a kind's backend."""
    return _BACKEND_OF[kind.key]


def kinds_called(name: str | None) -> tuple[Kind, ...]:
    """The kinds that a user may mean.

    :param name: its name in Kubernetes, or a key of :data:`KINDS`; None for all.
    :raises SpecError: there is no kind of that name.
    """
    found = tuple(kind for kind in KINDS.values() if not name or name.lower() in (kind.key, kind.resource.kind.lower()))
    if not found:
        known = sorted({each.resource.kind for each in KINDS.values() if each.resource != SERVICES})
        raise SpecError([choice("kind", name, known, "Use one of these.")])
    return found


def kind_for(backend: str, job: Plan) -> Kind:
    """The kind that represents a job.

    :param backend: the backend's name.
    :param job: the job.
    :raises SpecError: the backend has no kind for the job's framework, or for the manifest.
    """
    if not isinstance(job, JobPlan):
        return manifest_kind(backend, job.spec.manifest)
    name = job.framework.name
    kind = next((kind for kind in BACKENDS[backend] if name in kind.frameworks), None)
    if kind is None:
        others = [other for other, kinds in BACKENDS.items() if any(name in kind.frameworks for kind in kinds)]
        allowed = ", ".join(sorted({each for kind in BACKENDS[backend] for each in kind.frameworks}))
        fix = f"For {job.framework.title} use backend {' or '.join(map(repr, others))}."
        raise UnsupportedField(backend, Problem("framework", name, allowed, fix))
    return kind


def manifest_kinds(backend: str) -> tuple[Kind, ...]:
    """The kinds of a backend that a user's own manifest may have. A Service represents a job only if this provider
    created it.

    :param backend: the backend's name.
    """
    return tuple(kind for kind in BACKENDS[backend] if kind.manifests)


def manifest_kind(backend: str, manifest: Mapping[str, Any]) -> Kind:
    """The kind of a user's own manifest.

    :param backend: the backend's name.
    :param manifest: the object.
    :raises SpecError: the backend knows no such kind.
    """
    given = (manifest.get("apiVersion"), manifest.get("kind"))
    kinds = {(kind.resource.api_version, kind.resource.kind): kind for kind in manifest_kinds(backend)}
    if given not in kinds:
        allowed = ", ".join(f"{kind} ({version})" for version, kind in kinds)
        fix = f"Correct apiVersion and kind, or choose another backend than {backend!r}."
        raise SpecError([Problem("manifest.kind", f"{given[1]} ({given[0]})", allowed, fix)])
    return kinds[given]
