"""The common interface of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.status import Progress
from airflow_trainer_provider.kinds.base import ControllerStatus, Facts, Manifest, Meta, Rendered, ReplicaRef, Resource


@dataclass(frozen=True)
class Renderer:
    """Turns a job that a spec describes into objects of a kind.

    :param check: refuses what the kind cannot express, with
        :class:`~airflow_trainer_provider.errors.UnsupportedField`.
    :param render: (job, meta, facts) -> its objects.
    :param name_limit: job -> the maximum length of its name.
    :param tool_pod: (job, its name) -> labels that select the pod that the job's tools run in, and no other pod.
    :param runtime_path: (job, namespace) -> the path of the runtime that the job starts from; None for none.
    :param with_runtime: (job, facts) -> the job that is passed to ``render``: fields that the task leaves out have the
        values of that runtime.
    """

    check: Callable[[JobPlan], None]
    render: Callable[[JobPlan, Meta, Facts], Rendered]
    name_limit: Callable[[JobPlan], int]
    tool_pod: Callable[[JobPlan, str], Mapping[str, str]]
    runtime_path: Callable[[JobPlan, str], str | None] = lambda job, namespace: None
    with_runtime: Callable[[JobPlan, Facts], JobPlan] = lambda job, facts: job


@dataclass(frozen=True)
class ManifestRules:
    """What applies to a user's own manifest of a kind.

    :param check: refuses a manifest that could not be followed, with
        :class:`~airflow_trainer_provider.errors.SpecError`.
    :param deadline: (manifest, seconds, facts) -> the manifest with a deadline of at most that many seconds.
    :param name_limit: the maximum length of its name.
    :param as_new: manifest -> the manifest without the values that the API server generates in ``spec``; a manifest
        that was read from a cluster has them.
    """

    check: Callable[[Manifest], None]
    deadline: Callable[[Manifest, int, Facts], Manifest]
    name_limit: int = 63
    as_new: Callable[[Manifest], Manifest] = lambda manifest: manifest


@dataclass(frozen=True)
class RuntimeGroups:
    """The number of replicas of a job, where the runtime that it starts from decides.

    :param path: (main object, namespace) -> the path of that runtime; None where the main object alone decides.
    :param groups: (main object, runtime) -> how many replicas of each group, in the order of their ranks.
    """

    path: Callable[[Manifest, str], str | None]
    groups: Callable[[Manifest, Manifest], Mapping[str, int]]


@dataclass(frozen=True)
class Suspension:
    """How a job is stopped without being deleted.

    :param patch: whether to suspend -> the merge patch that suspends the job, or resumes it.
    :param of_children: whether the patch is for each child object instead of the main object.
    """

    patch: Callable[[bool], Manifest]
    of_children: bool = False


@dataclass(frozen=True)
class Controller:
    """What the controller of a kind does by itself. The defaults describe most controllers.

    :param remakes_children: whether it re-creates a deleted child object. Where it does not, ``Kind.read`` also gets
        the last versions of deleted children, as ``deletion`` marks them.
    :param replaces_pods: whether it re-creates a deleted pod, even where the pod's training had ended.
    :param leaves_deleted: whether it stops reconciling an object whose deletion was requested.
    :param without_restart: (main object, its pods) -> the merge patch that makes it fail the job before it starts a
        replica more often than ``backoff_limit`` allows; None where no patch is needed.
    :param blocked_by: (main object, its pods) -> the replica whose failure keeps the job from starting, and which the
        controller neither counts nor replaces; None where there is no such replica.
    :param deadline_at: main object -> when its deadline passes, for a controller that may not end the job at that time;
        None for a controller that always does.
    """

    remakes_children: bool = True
    replaces_pods: bool = False
    leaves_deleted: bool = False
    without_restart: Callable[[Manifest, Sequence[Manifest]], Manifest | None] = lambda main, pods: None
    blocked_by: Callable[[Manifest, Sequence[Manifest]], ReplicaRef | None] = lambda main, pods: None
    deadline_at: Callable[[Manifest], datetime | None] = lambda main: None


@dataclass(frozen=True)
class Retention:
    """How the cluster deletes an ended job after some time.

    :param patch: seconds -> the merge patch that makes the cluster delete the job that many seconds after its end, or
        never with None. The field itself is None where the kind has no time to live.
    :param by_owner: whether a job of a kind without a time to live may be deleted with an owner that expires.
        Kubernetes then deletes its parts before its main object.
    """

    patch: Callable[[int | None], Manifest] | None = None
    by_owner: bool = True


@dataclass(frozen=True)
class Creation:
    """The prerequisites for creating a main object, whether a renderer or the user wrote it.

    :param before: resources of the objects that a submit creates before the main one, which then owns them.
    :param reads_schema: whether its contents depend on ``Facts.schema``.
    :param unseen: the message of an admission webhook that has not yet seen the objects that were created before the
        main object.
    """

    before: tuple[Resource, ...] = ()
    reads_schema: bool = False
    unseen: str | None = None


@dataclass(frozen=True)
class Kind:
    """One representation of a job in Kubernetes. All its functions are pure.

    The fields say how a job of the kind is observed and controlled, whoever created it. The parts at the end say how
    one is created.

    :param key: short name, unique among the kinds: ``pytorchjob``.
    :param resource: of the main object.
    :param frameworks: the frameworks that the kind supports.
    :param read: (main object, child objects) -> the status that they report.
    :param groups: main object -> how many replicas of each group, in the order of their ranks.
    :param replica_ref: (pod, main object) -> the replica that the pod runs; None where it runs no replica.
    :param container: (main object, group) -> the name of the training's container in the group's pods; None where no
        name identifies it.
    :param pod_label: the label by which pods of the job are found; its value is the job's name.
    :param suspension: how a job is stopped without being deleted.
    :param children: resources of the child objects that are passed to ``read``; they carry the labels of this provider.
    :param controller: what its controller does by itself.
    :param retention: how an ended job is deleted after some time.
    :param progress: main object -> what the training reports; None where the kind has no field for it.
    :param runtime_groups: replaces ``groups`` for jobs that this provider did not render; None where no runtime decides
        the number of replicas.
    :param creation: the prerequisites for creating a main object.
    :param renderer: makes objects from a spec; None where no spec is rendered as this kind, which then supports no
        framework.
    :param manifests: what applies to a user's own manifest; None where a manifest of this kind is not accepted.
    """

    key: str
    resource: Resource
    frameworks: frozenset[str]
    read: Callable[[Manifest, Sequence[Manifest]], ControllerStatus]
    groups: Callable[[Manifest], Mapping[str, int]]
    replica_ref: Callable[[Manifest, Manifest], ReplicaRef | None]
    container: Callable[[Manifest, str], str | None]
    pod_label: str
    suspension: Suspension
    children: tuple[Resource, ...] = ()
    controller: Controller = Controller()
    retention: Retention = Retention()
    progress: Callable[[Manifest], Progress | None] | None = None
    runtime_groups: RuntimeGroups | None = None
    creation: Creation = Creation()
    renderer: Renderer | None = None
    manifests: ManifestRules | None = None
