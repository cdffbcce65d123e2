"""The types that kinds are built from: resources of the Kubernetes API, and what kinds render and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.status import JobPhase

#: A Kubernetes object, as it is sent and received.
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A resource of the Kubernetes API.

    :param api_version: e.g. ``kubeflow.org/v1``; ``v1`` for the core group.
    :param kind: e.g. ``PyTorchJob``.
    :param plural: as it appears in URL paths, e.g. ``pytorchjobs``.
    """

    api_version: str
    kind: str
    plural: str

    @property
    def full_name(self) -> str:
        """The plural with the API group, as kubectl accepts it: ``pytorchjobs.kubeflow.org``; ``services`` for the core
        group.
        """
        return f"{self.plural}.{self._group}".rstrip(".")

    @property
    def crd(self) -> str | None:
        """The name of the CustomResourceDefinition; None for resources that are built into Kubernetes."""
        return self.full_name if "." in self._group and not self._group.endswith(".k8s.io") else None

    @property
    def _group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str, name: str = "") -> str:
        """The API path of one object; without a name, the path of all objects in a namespace.

        :raises SpecError: a name would lead to another path.
        """
        end = f"/{_segment('name', name)}" if name else ""
        return f"{self._root}/namespaces/{_segment('namespace', namespace)}/{self.plural}{end}"

    def cluster_path(self, name: str) -> str:
        """The API path of one object of a cluster-scoped resource.

        :raises SpecError: the name would lead to another path.
        """
        return f"{self._root}/{self.plural}/{_segment('name', name)}"

    @property
    def _root(self) -> str:
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


def _segment(field: str, name: str) -> str:
    """A name as one segment of a path, whatever characters it has."""
    # Percent-encoding does not escape dots, and no object in Kubernetes has one of these names.
    if name in ("", ".", ".."):
        raise SpecError([Problem(field, name, "the name of an object in Kubernetes", "Correct it.")])
    return quote(name, safe="")


PODS = Resource("v1", "Pod", "pods")
SERVICES = Resource("v1", "Service", "services")
SECRETS = Resource("v1", "Secret", "secrets")
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
PERSISTENT_VOLUME_CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
EVENTS = Resource("v1", "Event", "events")
JOBS = Resource("batch/v1", "Job", "jobs")
INGRESSES = Resource("networking.k8s.io/v1", "Ingress", "ingresses")


@dataclass(frozen=True)
class Meta:
    """The metadata that is written to a job's objects.

    :param name: of the job, and of its main object.
    :param labels: for every object and pod; few and short, for label selectors.
    :param annotations: for the main object only.
    :param user_labels: the labels that the user gave the job, for the main object; pods get their labels with the pod
        settings.
    """

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    user_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def main_labels(self) -> dict[str, str]:
        """The labels of the main object."""
        return {**self.user_labels, **self.labels}


@dataclass(frozen=True)
class Rendered:
    """The objects of one job, without their namespace.

    :param main: the object that represents the job: it carries the annotations, and all others except ``kept`` are
        deleted with it.
    :param before: objects that are created before the main object.
    :param after: objects that are created after the main object.
    :param kept: objects that outlive the job and are reused if they exist: they are created first, and have no owner.
    :param note: for the task's log: which of several representations of the job was chosen, and why.
    """

    main: Manifest
    before: tuple[Manifest, ...] = ()
    after: tuple[Manifest, ...] = ()
    kept: tuple[Manifest, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class ControllerStatus:
    """The status that a job's own objects report, without the status of its pods.

    :param phase: succeeded, failed, suspended or restarting; None while it waits or runs.
    :param reason: one CamelCase word.
    :param message: details about the reason, for users.
    :param restarts: how many times the whole job was restarted.
    :param job_set: the UID of the JobSet that counts the restarts; None where no JobSet does, or where it does not
        exist.
    :param keeps_complete: whether a replica that the controller considers complete is not started again, whatever
        happens to the others.
    :param without_part: the names of the replicas whose child object, e.g. their Job, no longer exists: no controller
        starts them, and how they ended may be unknown.
    """

    phase: JobPhase | None = None
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    restarts: int = 0
    job_set: str | None = None
    keeps_complete: bool = False
    without_part: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Facts:
    """The facts about a cluster that decide how a job is rendered.

    :param schema: OpenAPI schema of the main object in the installed CRD; None where it has not been read yet.
    :param runtime: the runtime that the job's ``runtime_ref`` names, as the cluster has it.
    """

    schema: Mapping[str, Any] | None = None
    runtime: Manifest | None = None


@dataclass(frozen=True)
class ReplicaRef:
    """A reference to one of a job's replicas.

    :param group: its role.
    :param index: its index within the group.
    """

    group: str
    index: int

    @property
    def name(self) -> str:
        """E.g. ``worker-1``."""
        return f"{self.group}-{self.index}"
