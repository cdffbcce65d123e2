"""Where the objects of each kind hold what a field of a spec says."""

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
    :param launcher: the key, or the item's name, of the replicas that do not train; of an object with one pod template,
        the value of the label for the group.
    :param is_whole: whether the pods have no other source: what is missing here is missing.
    """

    path: FieldPath
    is_map: bool = False
    launcher: str | None = None
    is_whole: bool = True


@dataclass(frozen=True)
class Restarts:
    """Where an object says how often a job may be started again.

    :param path: of the number.
    :param missing: the number where there is none.
    :param extra: what it is higher by than ``run_policy.backoff_limit``.
    :param elastic: path of a number that it is higher by as well; None for none.
    :param otherwise: path of the number that counts where the first is missing; None for none.
    """

    path: FieldPath
    missing: int
    extra: int = 0
    elastic: FieldPath | None = None
    otherwise: FieldPath | None = None


@dataclass(frozen=True)
class Target:
    """Objects of one kind.

    :param resource: of the objects.
    :param framework: that they are for; None where they do not say.
    :param pods: the specs of their pods.
    :param container: the name of the training's container; None for the first one.
    :param trainer: the path of what stands for the training's container in an object that has a runtime.
    :param counts: path of the number of nodes, which may be partial; ``*`` for one number for each group.
    :param is_count_whole: whether the number of nodes is that of the job: one Job may be a part of it.
    :param restarts: how often the job may be started again.
    :param fields: field of a spec -> where the object holds the same.
    :param elsewhere: fields that another object of the job holds, which is a target too.
    :param only_ours: whether objects of others are left alone: they need not be for training.
    :param label: without it an object is not of the kind, and is left alone; None where each object is.
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
    """A role as Kubeflow's replica specs have it: ``Worker``.

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
#: The operator fails a job when as many restarts as its limit have begun.
_OF_OPERATOR = Restarts(_LIMIT, missing=1, extra=1, elastic=("spec", "elasticPolicy", "maxRestarts"))
_JOB_SET = ("spec", "template", "spec")
_OF_STEP = (ANY, "template", "spec", "template", "spec")
_SLOTS = ("spec", "slotsPerWorker")
_PATCHES = ("spec", "runtimePatches", ANY, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")

#: The objects that jobs are made of, and that hold what policies are about.
TARGETS: tuple[Target, ...] = (
    Target(
        resource=KINDS["trainjob"].resource,
        pods=(
            Pods(("spec", "podTemplateOverrides", ANY, "spec"), is_whole=False),
            Pods(
                (
                    *("spec", "runtimePatches", ANY, "trainingRuntimeSpec", "template", "spec", "replicatedJobs"),
                    *_OF_STEP,
                ),
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
    # Each operator demands a container of its framework's name, but those of MPIJobs.
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

#: The objects that the tools of jobs are made of.
TOOL_TARGETS: tuple[Target, ...] = (Target(resource=SERVICES, label=TOOL), Target(resource=INGRESSES, label=TOOL))
