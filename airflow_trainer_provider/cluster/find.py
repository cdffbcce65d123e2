"""Finds jobs by name or by label, whoever made them, and whether or not they are there yet. Reads, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.groups import with_groups
from airflow_trainer_provider.cluster.objects import annotation, handle_of, is_ours
from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import JOBS, SERVICES, Kind, Manifest
from airflow_trainer_provider.kinds.registry import BACKENDS, KINDS
from airflow_trainer_provider.spec.validation import choice

#: What makes Jobs of its own for a training job: those are parts, and not jobs to wait for.
_WHOLES = frozenset({"Service", "JobSet", "MPIJob", "TrainJob"})


@dataclass(frozen=True)
class Wanted:
    """Which jobs are meant.

    :param name: the job's name; or
    :param selector: a label selector of Kubernetes.
    :param kind: as Kubernetes calls it, or the key of one of :data:`~airflow_trainer_provider.kinds.registry.KINDS`;
        None for any.
    :param every: all jobs that match; False for the only one.
    """

    name: str | None = None
    selector: str | None = None
    kind: str | None = None
    every: bool = False

    def __post_init__(self) -> None:
        if (not self.name) == (not self.selector):
            fix = "Give one of the two. What is rendered to nothing counts as not given."
            raise SpecError([Problem("name", self.name, "either name or selector", fix)])
        if not self.kinds:
            known = sorted({each.resource.kind for each in KINDS.values() if each.resource != SERVICES})
            raise SpecError([choice("kind", self.kind, known, "Use one of these.")])

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Those that it may be of."""
        kind = self.kind and self.kind.lower()
        return tuple(each for each in KINDS.values() if not kind or kind in (each.key, each.resource.kind.lower()))

    def __str__(self) -> str:
        what = self.kind or "training job"
        return f"{what} called {self.name}" if self.name else f"{what} with labels {self.selector}"


async def find(cluster: Cluster, namespace: str, wanted: Wanted) -> list[JobHandle]:
    """The jobs that are meant, as far as they are there.

    :param cluster: where to look.
    :param namespace: in which namespace.
    :param wanted: which jobs.
    :raises SpecError: several match, and one is meant.
    """
    backends = {kind.key: backend for backend, kinds in BACKENDS.items() for kind in kinds}
    found: dict[str, tuple[Kind, Manifest]] = {}
    for kind in wanted.kinds:
        if not await cluster.serves(kind.resource):
            continue
        field = f"metadata.name={wanted.name}" if wanted.name else ""
        listing = await cluster.client.list(
            kind.resource, namespace, label_selector=wanted.selector or "", field_selector=field
        )
        for main in listing.items:
            if _is_whole(kind, main, named=wanted.kind is not None):
                # One object may be served in two versions.
                found.setdefault(main["metadata"]["uid"], (kind, _typed(kind, main)))
    if len(found) > 1 and not wanted.every:
        raise _ambiguous(namespace, wanted, list(found.values()))
    return [
        handle_of(backends[kind.key], kind, await with_groups(cluster, kind, main), cluster.connection.id)
        for kind, main in found.values()
    ]


def _is_whole(kind: Kind, main: Manifest, *, named: bool) -> bool:
    """Whether an object stands for a job by itself."""
    if kind.resource == SERVICES:
        return is_ours(main) and annotation(main, labels.IDENTITY) is not None
    owners = main["metadata"].get("ownerReferences") or ()
    return named or kind.resource != JOBS or not any(owner["kind"] in _WHOLES for owner in owners)


def _typed(kind: Kind, main: Manifest) -> Manifest:
    # The API server leaves both out of what is in a list.
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, **main}


def _ambiguous(namespace: str, wanted: Wanted, found: Sequence[tuple[Kind, Manifest]]) -> SpecError:
    names = ", ".join(sorted(f"{kind.resource.kind} {main['metadata']['name']}" for kind, main in found))
    allowed = f"what fits one job only in namespace {namespace}; it fits {len(found)}: {names}"
    fix = "Narrow it, name the kind, or wait for all of them with every_match=True."
    field, value = ("name", wanted.name) if wanted.name else ("selector", wanted.selector)
    return SpecError([Problem(field, value, allowed, fix)])
