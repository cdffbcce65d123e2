"""The neutral shape that every kind fills in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.status import JobPhase, Progress

#: A Kubernetes object, as it is sent and received.
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A resource of the Kubernetes API.

    :param api_version: e.g. ``kubeflow.org/v1``; ``v1`` for the core group.
    :param kind: e.g. ``PyTorchJob``.
    :param plural: as it stands in paths, e.g. ``pytorchjobs``.
    """

    api_version: str
    kind: str
    plural: str

    @property
    def crd(self) -> str | None:
        """The name of the CustomResourceDefinition; None for what every cluster has."""
        group = self.api_version.rpartition("/")[0]
        return f"{self.plural}.{group}" if "." in group and not group.endswith(".k8s.io") else None

    def path(self, namespace: str, name: str = "") -> str:
        """The path of one object, or without a name of all in a namespace."""
        root = "/apis" if "/" in self.api_version else "/api"
        return f"{root}/{self.api_version}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


PODS = Resource("v1", "Pod", "pods")
SERVICES = Resource("v1", "Service", "services")
SECRETS = Resource("v1", "Secret", "secrets")
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
EVENTS = Resource("v1", "Event", "events")
JOBS = Resource("batch/v1", "Job", "jobs")


@dataclass(frozen=True)
class Meta:
    """What is written on a job's objects.

    :param name: of the job, and of its main object.
    :param labels: for every object and pod; few and short, to find them by.
    :param annotations: for the main object only.
    """

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rendered:
    """The objects of one job, without their namespace.

    :param main: the one that stands for the job: it carries the annotations, and all others go when it goes.
    :param before: what has to be there first.
    :param after: what is made once the main object is there.
    """

    main: Manifest
    before: tuple[Manifest, ...] = ()
    after: tuple[Manifest, ...] = ()


@dataclass(frozen=True)
class Standing:
    """What a job's own objects say of it; its pods say the rest.

    :param phase: succeeded, failed, suspended or restarting; None while it waits or runs.
    :param reason: one CamelCase word.
    :param message: more on the reason, for people.
    :param restarts: how often the whole job was started again.
    """

    phase: JobPhase | None = None
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    restarts: int = 0


@dataclass(frozen=True)
class Facts:
    """What a cluster brings that decides how a job is written down.

    :param schema: OpenAPI schema of the main object, as the installed CRD has it; None where nobody asked yet.
    :param runtime: the runtime that the job's ``runtime_ref`` names, as the cluster has it.
    """

    schema: Mapping[str, Any] | None = None
    runtime: Manifest | None = None


#: A replica's group and its index there.
Place = tuple[str, int]


def nothing_to_refuse(job: Job) -> None:
    """Take every job that its framework takes."""


def any_manifest(main: Manifest) -> None:
    """Leave the user's own manifest to the API server."""


@dataclass(frozen=True)
class Kind:
    """One way to write a job down for Kubernetes. All its functions are pure.

    :param key: short name, unique among the kinds: ``pytorchjob``.
    :param resource: of the main object.
    :param render: (job, meta, facts) -> its objects.
    :param read: (main object, child objects) -> what they say of the job.
    :param groups: main object -> how many replicas of each group, in the order of their ranks.
    :param place: (pod, main object) -> the replica that the pod is; None where it is none.
    :param pod_label: the label by which pods of the job are found; its value is the job's name.
    :param name_limit: job -> the most characters of its name.
    :param check: refuses what the kind cannot express, with
        :class:`~airflow_trainer_provider.errors.UnsupportedField`.
    :param children: resources of the objects that ``read`` is given beside the main one; they carry our labels.
    :param suspend: whether -> the merge patch that stops the job, or lets it go on.
    :param suspend_children: whether that patch is for each of the children, not for the main object.
    :param frameworks: those that the kind can carry.
    :param ttl: seconds -> the merge patch by which the cluster deletes the ended job after so long; None where it
        cannot.
    :param progress: main object -> what the training told of itself; None where the kind has no place for it.
    :param unseen: what an admission webhook says when it has not seen yet what was created before the main object.
    :param reads_schema: whether ``render`` depends on ``Facts.schema``.
    :param runtime: (job, namespace) -> the path of the runtime that the job starts from; None for none.
    :param manifest_name_limit: the most characters of the name of a user's own manifest.
    :param manifest_check: refuses a user's own manifest that could not be followed, with
        :class:`~airflow_trainer_provider.errors.SpecError`.
    :param manifest_runtime: (a user's own manifest, namespace) -> the path of the runtime without which ``groups``
        would not tell how many replicas it has; None where it does.
    :param groups_with: (main object, that runtime) -> as ``groups``.
    """

    key: str
    resource: Resource
    frameworks: frozenset[str]
    render: Callable[[Job, Meta, Facts], Rendered]
    read: Callable[[Manifest, Sequence[Manifest]], Standing]
    groups: Callable[[Manifest], Mapping[str, int]]
    place: Callable[[Manifest, Manifest], Place | None]
    pod_label: str
    name_limit: Callable[[Job], int]
    suspend: Callable[[bool], Manifest]
    check: Callable[[Job], None] = nothing_to_refuse
    children: tuple[Resource, ...] = ()
    suspend_children: bool = False
    ttl: Callable[[int], Manifest] | None = None
    progress: Callable[[Manifest], Progress | None] | None = None
    unseen: str | None = None
    reads_schema: bool = False
    runtime: Callable[[Job, str], str | None] | None = None
    manifest_name_limit: int = 63
    manifest_check: Callable[[Manifest], None] = any_manifest
    manifest_runtime: Callable[[Manifest, str], str | None] | None = None
    groups_with: Callable[[Manifest, Manifest], Mapping[str, int]] | None = None
