"""The cluster backends and their kinds, those to prefer first. A new one is one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.kinds.base import CONFIG_MAPS, SECRETS, SERVICES, Kind, Manifest, Resource
from airflow_trainer_provider.kinds.batch_job import BATCH_JOB
from airflow_trainer_provider.kinds.mpijob import MPIJOB_V1, MPIJOB_V2BETA1
from airflow_trainer_provider.kinds.native import NATIVE
from airflow_trainer_provider.kinds.training_operator import JAXJOB, PADDLEJOB, PYTORCHJOB, TFJOB, XGBOOSTJOB
from airflow_trainer_provider.kinds.training_runtime import TRAINING_RUNTIMES
from airflow_trainer_provider.kinds.trainjob import TRAINJOB

if TYPE_CHECKING:
    from airflow_trainer_provider.kinds.manifest import ManifestJob

#: Backend name -> its kinds.
BACKENDS: Mapping[str, tuple[Kind, ...]] = {
    "trainer": (TRAINJOB,),
    "training-operator": (PYTORCHJOB, TFJOB, XGBOOSTJOB, MPIJOB_V1, PADDLEJOB, JAXJOB),
    "mpi-operator": (MPIJOB_V2BETA1,),
    # The second carries no spec.
    "native": (NATIVE, BATCH_JOB),
}
#: Key -> kind.
KINDS: Mapping[str, Kind] = {kind.key: kind for kinds in BACKENDS.values() for kind in kinds}
_RESOURCES = {
    (resource.api_version, resource.kind): resource
    for resource in (
        CONFIG_MAPS,
        SECRETS,
        SERVICES,
        TRAINING_RUNTIMES,
        *(kind.resource for kind in KINDS.values()),
    )
}


def resource_of(manifest: Manifest) -> Resource:
    """The resource of an object that a kind rendered."""
    return _RESOURCES[manifest["apiVersion"], manifest["kind"]]


def kind_for(backend: str, job: Job | ManifestJob) -> Kind:
    """The kind that carries a job.

    :param backend: the backend's name.
    :param job: the job.
    :raises SpecError: the backend has none for the job's framework, or for the manifest.
    """
    if not isinstance(job, Job):
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
    """The kinds of a backend that a user's own manifest may be of. A Service stands for a job only where we made it so.

    :param backend: the backend's name.
    """
    return tuple(kind for kind in BACKENDS[backend] if kind is not NATIVE)


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
