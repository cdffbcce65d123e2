"""The paths in the objects of each kind that correspond to the fields of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_trainer_provider.kinds.base import INGRESSES, SERVICES, Resource
from airflow_trainer_provider.kinds.objects.labels import TOOL
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.trainer.training_runtime import TRAINING_RUNTIMES
from airflow_trainer_provider.policies.field_path import ANY, FieldPath

QUEUE_LABEL = ("metadata", "labels", "kueue.x-k8s.io/queue-name")
_REPLICA_TYPES = {"ps": "PS"}


@dataclass(frozen=True)
class Pods:
    """The specs of pods in an object.

    :param path: to them; ``*`` stands for each key or item.
    :param is_map: whether ``*`` stands for keys, and not for items.
    :param launcher: the key, or the item's name, of the replicas that do not train; for an object with one pod
        template, the value of its label for the group.
    :param is_whole: whether the pods have no other source: a field that is missing here is not set elsewhere.
    """

    path: FieldPath
    is_map: bool = False
    launcher: str | None = None
    is_whole: bool = True


@dataclass(frozen=True)
class Restarts:
    """The fields of an object that limit how often a job may be restarted.

    :param path: of the limit.
    :param missing: the limit that applies where the field is absent.
    :param extra: the amount by which the limit exceeds ``run_policy.backoff_limit``.
    :param elastic: path of a number by which the limit also exceeds it; None where there is no such number.
    :param otherwise: path of the limit that applies where the first one is absent; None where there is no other.
    """

    path: FieldPath
    missing: int
    extra: int = 0
    elastic: FieldPath | None = None
    otherwise: FieldPath | None = None


@dataclass(frozen=True)
class Target:
    """The objects of one kind, and where they hold the fields of a spec.

    :param resource: of the objects.
    :param framework: the framework of the objects; None where they do not name it.
    :param pods: the specs of their pods.
    :param container: the name of the training's container; None for the first one.
    :param trainer: the path of the fields for the training's container in an object that has a runtime.
    :param counts: paths of the number of nodes, which may be partial; ``*`` where each group has a number.
    :param is_count_whole: whether the number of nodes is that of the whole job: a Job may be only a part of it.
    :param restarts: how often the job may be restarted.
    :param fields: field of a spec -> the path at which the object holds it.
    :param elsewhere: fields that another object of the job holds, which is also a target.
    :param only_ours: whether only objects of this provider are checked, because others need not be for training.
    :param label: the label of the objects that are checked; None to check all objects of the kind.
    """

    resource: Resource
    framework: str | None = None
    pods: tuple[Pods, ...] = ()
    container: str | None = None
    trainer: FieldPath | None = None
    counts: tuple[FieldPath, ...] = ()
    is_count_whole: bool = True
    restarts: Restarts | None = None
    fields: Mapping[FieldPath, FieldPath] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()
    only_ours: bool = False
    label: str | None = None


def replica_type(role: str) -> str:
    """A role as Kubeflow's replica specs name it: ``Worker``.

    :param role: of a framework.
    """
    return _REPLICA_TYPES.get(role, role.capitalize())


def _kubeflow(
    key: str, specs: str, framework: str, container: str | None, *, restarts: Restarts, **fields: FieldPath
) -> Target:
    run_policy = ("spec", "runPolicy")
    return Target(
        resource=KINDS[key].resource,
        framework=framework,
        pods=(Pods(("spec", specs, ANY, "template", "spec"), is_map=True, launcher="Launcher"),),
        container=container,
        counts=(("spec", specs, ANY, "replicas"),),
        restarts=restarts,
        fields={
            ("run_policy", "active_deadline_seconds"): (*run_policy, "activeDeadlineSeconds"),
            ("scheduling", "queue_name"): QUEUE_LABEL,
            **{(name,): path for name, path in fields.items()},
        },
    )


_LIMIT = ("spec", "runPolicy", "backoffLimit")
#: The operator fails a job when the number of restarts that have begun reaches its limit.
_OF_OPERATOR = Restarts(_LIMIT, missing=1, extra=1, elastic=("spec", "elasticPolicy", "maxRestarts"))
_JOB_SET = ("spec", "template", "spec")
_OF_STEP = (ANY, "template", "spec", "template", "spec")
_SLOTS = ("spec", "slotsPerWorker")
_PATCHES = ("spec", "runtimePatches", ANY, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")

#: The objects of jobs that hold the fields for policies.
TARGETS: tuple[Target, ...] = (
    Target(
        resource=KINDS["trainjob"].resource,
        pods=(
            Pods(("spec", "podTemplateOverrides", ANY, "spec"), is_whole=False),
            Pods(
                (*_PATCHES, *_OF_STEP),
                is_whole=False,
            ),
        ),
        trainer=("spec", "trainer"),
        counts=(("spec", "trainer", "numNodes"),),
        fields={
            ("run_policy", "active_deadline_seconds"): ("spec", "activeDeadlineSeconds"),
            ("num_proc_per_node",): ("spec", "trainer", "numProcPerNode"),
            ("scheduling", "queue_name"): QUEUE_LABEL,
        },
        elsewhere=frozenset({"run_policy.backoff_limit"}),
    ),
    Target(
        resource=TRAINING_RUNTIMES,
        pods=(Pods((*_JOB_SET, "replicatedJobs", *_OF_STEP), launcher="launcher"),),
        container="node",
        counts=(("spec", "mlPolicy", "numNodes"),),
        is_count_whole=False,
        restarts=Restarts((*_JOB_SET, "failurePolicy", "maxRestarts"), missing=0),
        elsewhere=frozenset({"run_policy.active_deadline_seconds", "scheduling.queue_name"}),
    ),
    # Each operator requires a container with the name of its framework, except for MPIJobs.
    _kubeflow("pytorchjob", "pytorchReplicaSpecs", "pytorch", "pytorch", restarts=_OF_OPERATOR),
    _kubeflow("tfjob", "tfReplicaSpecs", "tensorflow", "tensorflow", restarts=_OF_OPERATOR),
    _kubeflow("xgboostjob", "xgbReplicaSpecs", "xgboost", "xgboost", restarts=_OF_OPERATOR),
    _kubeflow("paddlejob", "paddleReplicaSpecs", "paddle", "paddle", restarts=_OF_OPERATOR),
    _kubeflow("jaxjob", "jaxReplicaSpecs", "jax", "jax", restarts=_OF_OPERATOR),
    _kubeflow("mpijob-v1", "mpiReplicaSpecs", "mpi", None, restarts=_OF_OPERATOR, num_proc_per_node=_SLOTS),
    _kubeflow(
        "mpijob-v2beta1", "mpiReplicaSpecs", "mpi", None, restarts=Restarts(_LIMIT, missing=6), num_proc_per_node=_SLOTS
    ),
    Target(
        resource=KINDS["job"].resource,
        pods=(Pods(("spec", "template", "spec"), launcher="launcher"),),
        counts=(("spec", "completions"), ("spec", "parallelism")),
        is_count_whole=False,
        restarts=Restarts(("spec", "backoffLimitPerIndex"), missing=6, otherwise=("spec", "backoffLimit")),
        fields={
            ("run_policy", "active_deadline_seconds"): ("spec", "activeDeadlineSeconds"),
            ("scheduling", "queue_name"): QUEUE_LABEL,
        },
        only_ours=True,
    ),
)

#: The objects of jobs' tools.
TOOL_TARGETS: tuple[Target, ...] = (Target(resource=SERVICES, label=TOOL), Target(resource=INGRESSES, label=TOOL))
