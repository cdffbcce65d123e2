"""The neutral shape that every kind fills in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.status import Progress
from airflow_trainer_provider.kinds.base import ControllerStatus, Facts, Manifest, Meta, Rendered, ReplicaRef, Resource


@dataclass(frozen=True)
class Renderer:
    """How a job that a spec describes becomes objects of a kind.

    :param check: refuses what the kind cannot express, with
        :class:`~airflow_trainer_provider.errors.UnsupportedField`.
    :param render: (job, meta, facts) -> its objects.
    :param name_limit: job -> the most characters of its name.
    :param tool_pod: (job, its name) -> labels of the pod that the job's tools run in, and of no other one.
    :param runtime_path: (job, namespace) -> the path of the runtime that the job starts from; None for none.
    :param with_runtime: (job, facts) -> the job that ``render`` is given: what the task leaves out has the values of
        that runtime.
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
    :param deadline: (manifest, seconds, facts) -> the manifest with a deadline that is no later.
    :param name_limit: the most characters of its name.
    :param as_new: manifest -> the manifest without what the API server sets in ``spec``; one that was read from a
        cluster has it.
    """

    check: Callable[[Manifest], None]
    deadline: Callable[[Manifest, int, Facts], Manifest]
    name_limit: int = 63
    as_new: Callable[[Manifest], Manifest] = lambda manifest: manifest


@dataclass(frozen=True)
class RuntimeGroups:
    """How many replicas a job has, where the runtime that it starts from decides.

    :param path: (main object, namespace) -> the path of that runtime; None where the main object alone decides.
    :param groups: (main object, runtime) -> how many replicas of each group, in the order of their ranks.
    """

    path: Callable[[Manifest, str], str | None]
    groups: Callable[[Manifest, Manifest], Mapping[str, int]]


@dataclass(frozen=True)
class Suspension:
    """How a job is stopped without being deleted.

    :param patch: whether -> the merge patch that stops the job, or lets it go on.
    :param of_children: whether that patch is for each of the children, not for the main object.
    """

    patch: Callable[[bool], Manifest]
    of_children: bool = False


@dataclass(frozen=True)
class Controller:
    """What the controller of a kind does by itself. The default is what most do.

    :param remakes_children: whether it creates a child again that was deleted. Where nothing does, ``Kind.read`` is
        given the last versions of those that are gone too, as ``deletion`` marks them.
    :param replaces_pods: whether it makes a pod again that was deleted, also where its training had ended.
    :param leaves_deleted: whether it looks no more at an object whose deletion was asked for.
    :param without_restart: (main object, its pods) -> the merge patch that makes it fail the job before it starts a
        replica more often than ``backoff_limit`` allows; None where it need not.
    :param blocked_by: (main object, its pods) -> the replica whose failure keeps the job from starting, though the
        controller neither counts nor cures it; None where there is none.
    :param deadline_at: main object -> when its time is up, where the controller does not end it then in any case; None
        for one that does.
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

    :param patch: seconds -> the merge patch by which the cluster deletes the job after so long, or with None never;
        None where the kind has no such field.
    :param by_owner: whether a job of a kind without such a field may go with an owner whose time is over. Kubernetes
        then deletes its parts before its main object.
    """

    patch: Callable[[int | None], Manifest] | None = None
    by_owner: bool = True


@dataclass(frozen=True)
class Creation:
    """What it takes to create a main object, whether a renderer or the user wrote it.

    :param before: resources of the objects that a submit creates before the main one, which then owns them.
    :param reads_schema: whether its contents depend on ``Facts.schema``.
    :param unseen: what an admission webhook says when it has not seen yet what was created before the main object.
    """

    before: tuple[Resource, ...] = ()
    reads_schema: bool = False
    unseen: str | None = None


@dataclass(frozen=True)
class Kind:
    """One way to write a job down for Kubernetes. All its functions are pure.

    The fields say how a job of the kind is observed and controlled, whoever created it. The parts at the end say how
    one is created.

    :param key: short name, unique among the kinds: ``pytorchjob``.
    :param resource: of the main object.
    :param frameworks: those that the kind can carry.
    :param read: (main object, child objects) -> what they say of the job.
    :param groups: main object -> how many replicas of each group, in the order of their ranks.
    :param replica_ref: (pod, main object) -> the replica that the pod is; None where it is none.
    :param container: (main object, group) -> the name of the training's container in the group's pods; None where no
        name is its own.
    :param pod_label: the label by which pods of the job are found; its value is the job's name.
    :param suspension: how a job is stopped without being deleted.
    :param children: resources of the objects that ``read`` is given beside the main one; they carry our labels.
    :param controller: what its controller does by itself.
    :param retention: how an ended job is deleted after some time.
    :param progress: main object -> what the training reports; None where the kind has no field for it.
    :param runtime_groups: replaces ``groups`` for jobs that were not rendered here; None where no runtime decides.
    :param creation: what it takes to create a main object.
    :param renderer: makes objects from a spec; None where no spec becomes a job of the kind, which then carries no
        framework.
    :param manifests: what applies to a user's own manifest; None where it cannot be of the kind.
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
