"""A job on a cluster: its main object, and what is known of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from airflow_trainer_provider.cluster.state.objects import annotation, owner_of
from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.kinds.base import Manifest, Resource
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.merge_patch import value_at
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS, backend_of
from airflow_trainer_provider.spec.values.names import is_label


class ClusterLocation(NamedTuple):
    """The location of a job on a cluster. ``JobHandle.location`` has it as text:
    ``pytorchjob/training/kubernetes_default``.

    :param kind: of the job's main object.
    :param namespace: of the main object.
    :param conn_id: of the connection to the cluster.
    """

    kind: Kind
    namespace: str
    conn_id: str

    @classmethod
    def of(cls, handle: JobHandle) -> ClusterLocation:
        """Parse the location of a handle.

        :raises SpecError: the location has another form. A handle comes from XCom, where any task may write.
        """
        key, _, rest = handle.location.partition("/")
        namespace, _, conn_id = rest.partition("/")
        if key not in KINDS or not is_label(namespace) or not conn_id:
            allowed = "a kind, a namespace and a connection, e.g. pytorchjob/training/kubernetes_default"
            fix = "Pass the handle that an operator made."
            raise SpecError([Problem("job.location", handle.location, allowed, fix)])
        # Interned: thousands of waiting jobs have the same namespace and connection.
        return cls(KINDS[key], sys.intern(namespace), sys.intern(conn_id))

    def __str__(self) -> str:
        return f"{self.kind.key}/{self.namespace}/{self.conn_id}"


@dataclass(frozen=True, slots=True)
class JobObject:
    """A job on a cluster, whether this provider created it or not.

    :param kind: of its main object.
    :param main: its main object, as it was last read.
    :param runtime_groups: how many replicas each group has, by its runtime; None where the main object says it.
    """

    kind: Kind
    main: Manifest
    runtime_groups: Mapping[str, int] | None = None

    @property
    def backend(self) -> str:
        """Name of the backend that the job's kind belongs to."""
        return backend_of(self.kind)

    @property
    def resource(self) -> Resource:
        """Resource of the main object."""
        return self.kind.resource

    @property
    def name(self) -> str:
        """Its name, which another job of another kind may have as well."""
        return str(self.main["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Namespace of the main object."""
        return str(self.main["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """Uid of the main object."""
        return str(self.main["metadata"]["uid"])

    @property
    def groups(self) -> Mapping[str, int]:
        """How many replicas each group has, in the order of their ranks."""
        return labels.written_groups(self.main) or self.runtime_groups or self.kind.groups(self.main)

    @property
    def framework(self) -> str | None:
        """Name of the job's framework; None where neither an annotation nor its kind says."""
        only = next(iter(self.kind.frameworks)) if len(self.kind.frameworks) == 1 else None
        return annotation(self.main, labels.FRAMEWORK) or only

    @property
    def expires(self) -> bool:
        """Whether the cluster itself deletes the main object some time after the job's end."""
        patch = self.kind.retention.patch
        return patch is not None and value_at(self.main, patch(0)) is not None

    def annotation(self, name: str) -> str | None:
        """One of the main object's annotations."""
        return annotation(self.main, name)

    def at(self, main: Manifest) -> JobObject:
        """The same job with another version of its main object.

        :param main: a newer version, or a trimmed one.
        """
        return replace(self, main=main)

    def handle(self, conn_id: str) -> JobHandle:
        """The handle by which a backend finds the job.

        :param conn_id: of the connection to its cluster.
        """
        leader = next(iter(self.groups), "worker")
        return JobHandle(
            name=self.name,
            uid=self.uid,
            backend=self.backend,
            framework=self.framework or "",
            leader=f"{leader}-0",
            owner=owner_of(self.main),
            location=str(ClusterLocation(self.kind, self.namespace, conn_id)),
            tools=labels.written_tools(self.main),
            expires=self.expires,
        )

    def __str__(self) -> str:
        return f"{self.kind.key} {self.name} in namespace {self.namespace}"
