"""The jobs of the Training Operator: PyTorchJob, TFJob, XGBoostJob, PaddleJob and JAXJob, kubeflow.org/v1.

The operator creates a pod and a headless Service ``<job>-<group>-<index>`` for each replica, and sets the variables of
the rendezvous. This module adds the variables that the frameworks promise to scripts and that the operator does not
set. https://github.com/kubeflow/training-operator/tree/v1.9.3/pkg/controller.v1

A job with a master or chief succeeds when that replica does, and the operator ends the workers that still run. The
operator never restarts a whole job: with ``backoff_limit`` the kubelet restarts the containers that fail, and the
operator fails the job when the sum of the restarts in all running pods reaches the limit of its run policy.
https://github.com/kubeflow/training-operator/blob/v1.9.3/pkg/core/job.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from airflow_trainer_provider.job.plan.framework import Address
from airflow_trainer_provider.job.plan.limits import check_roster
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.kinds.base import Facts, Manifest, Meta, Rendered, ReplicaRef, Resource
from airflow_trainer_provider.kinds.kind import Controller, Kind, ManifestRules, Renderer, Retention, Suspension
from airflow_trainer_provider.kinds.kubeflow import common, conditions
from airflow_trainer_provider.kinds.merge_patch import bounded
from airflow_trainer_provider.kinds.objects import rendezvous
from airflow_trainer_provider.kinds.objects.pod import label_index, pod_template
from airflow_trainer_provider.kinds.objects.scheduling.gang import KAI, refuse_schedulers

BACKEND = "training-operator"
API_VERSION = "kubeflow.org/v1"
#: A stand-in for the port of a replica, with as many digits as the operator's ports.
_ANY_PORT = 2222
_RANKS = frozenset({"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"})


@dataclass(frozen=True)
class _Flavour:
    """What distinguishes one of these kinds.

    :param framework: its framework.
    :param resource: the resource of its object.
    :param specs: the field that holds the replicas.
    :param types: group -> replica type.
    :param operators: job -> the variables that the operator sets.
    :param environment: (job, group, the job's name) -> the variables that the operator does not set.
    :param more: job -> other fields of the spec.
    :param command: replica -> the command that it runs instead of its own; None to keep its own.
    :param is_grouped_by_kai: whether the KAI scheduler treats its pods as one gang.
    """

    framework: str
    resource: Resource
    specs: str
    types: Mapping[str, str]
    operators: Callable[[JobPlan], frozenset[str]]
    environment: Callable[[JobPlan, str, str], rendezvous.Values]
    more: Callable[[JobPlan], Manifest] = lambda job: {}
    command: Callable[[Replica], tuple[str, ...] | None] = lambda replica: None
    is_grouped_by_kai: bool = True


def restarts(job: JobPlan) -> int:
    """How many restarts all replicas of the job may have in total: the operator does not count them per replica."""
    return job.spec.run_policy.backoff_limit + (job.spec.elastic.max_restarts if job.spec.elastic else 0)


def run_policy(job: JobPlan) -> Manifest:
    """The job's ``runPolicy``."""
    # The operator fails the job when the number of restarts reaches its limit, not when the last restart has failed.
    limit = {"backoffLimit": restarts(job) + 1} if restarts(job) else {}
    return {**common.run_policy(job, len(job.replicas)), **limit}


def replica_spec(job: JobPlan, replicas: tuple[Replica, ...], template: Manifest) -> Manifest:
    """A group's entry in the replica specs."""
    deadline = common.deadline_seconds(job)
    if deadline is not None:
        # The operator checks a job's deadline only when something happens to its pods, so the pods have the deadline,
        # too.
        template["spec"]["activeDeadlineSeconds"] = deadline
    policy = "OnFailure" if restarts(job) else "Never"
    return {"replicas": len(replicas), "restartPolicy": policy, "template": template}


def replica_ref(pod: Manifest, main: Manifest) -> ReplicaRef | None:
    """The replica that a pod runs, according to the operator's labels."""
    labels = pod["metadata"].get("labels") or {}
    group = labels.get(common.REPLICA_TYPE_LABEL, "")
    # A launcher's pod has no index label.
    index = labels.get(common.REPLICA_INDEX_LABEL, "0")
    return ReplicaRef(group, int(index)) if group in common.groups(main) and index.isdecimal() else None


def ttl(seconds: int | None) -> Manifest:
    """The merge patch that makes the operator delete the job ``seconds`` after its end."""
    return {"spec": {"runPolicy": {"ttlSecondsAfterFinished": seconds}}}


def deadline(main: Manifest, seconds: int, facts: Facts) -> Manifest:
    """A user's own manifest with a deadline for the job and for its pods; see :func:`replica_spec`."""
    bound = common.deadline(main, seconds, facts)
    for field, specs in bound["spec"].items():
        if field.endswith("ReplicaSpecs") and isinstance(specs, dict):
            each = {"template": {"spec": {"activeDeadlineSeconds": seconds}}}
            bounds = {group: bounded(spec, each) for group, spec in specs.items() if isinstance(spec, dict)}
            bound["spec"] = {**bound["spec"], field: {**specs, **bounds}}
    return bound


def without_restart(main: Manifest, pods: Sequence[Manifest]) -> Manifest | None:
    """The merge patch that makes the operator fail a job before it restarts a replica more often than allowed.

    Without the patch, the operator begins one restart too many, and then fails the job at once.

    :param main: the job's object.
    :param pods: its pods.
    :return: None unless a container has failed, waits for its restart, and all restarts are used up.
    """
    limit = (main["spec"].get("runPolicy") or {}).get("backoffLimit") or 0
    containers = [container for pod in pods for container in _counted(pod)]
    restarts = sum(container.get("restartCount", 0) for container in containers)
    if restarts + 1 != limit or not any(map(_waits_to_restart, containers)):
        return None
    return {"spec": {"runPolicy": {"backoffLimit": restarts}}}


def blocked_by(main: Manifest, pods: Sequence[Manifest]) -> ReplicaRef | None:
    """The replica whose init container keeps failing. The operator does not count restarts in pods that are not
    running.

    :param main: the job's object.
    :param pods: its pods.
    :return: None unless an init container has failed, waits for its restart, and all restarts are used up.
    """
    limit = (main["spec"].get("runPolicy") or {}).get("backoffLimit")
    restarts = sum(container.get("restartCount", 0) for pod in pods for container in _containers(pod))
    if limit is None or restarts < limit:
        return None
    return next((replica_ref(pod, main) for pod in pods if _waits_for_init(pod)), None)


def _waits_for_init(pod: Manifest) -> bool:
    status = pod.get("status") or {}
    return status.get("phase") == "Pending" and any(map(_waits_to_restart, status.get("initContainerStatuses") or ()))


def _counted(pod: Manifest) -> Sequence[Manifest]:
    """The statuses of the containers whose restarts the operator counts."""
    return _containers(pod) if (pod.get("status") or {}).get("phase") == "Running" else ()


def _containers(pod: Manifest) -> Sequence[Manifest]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _waits_to_restart(container: Manifest) -> bool:
    state = container.get("state") or {}
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    # For some seconds, the kubelet may report that a container has terminated before it reports the back-off of its
    # restart.
    return waiting.get("reason") == "CrashLoopBackOff" or bool(terminated.get("exitCode"))


def _render(flavour: _Flavour, job: JobPlan, meta: Meta, facts: Facts) -> Rendered:
    # The operator writes the list of replicas into its own variables, with host names that end with the namespace.
    check_roster(job, {each.name: Address(f"{meta.name}-{each.name}", _ANY_PORT) for each in job.replicas})
    specs: Manifest = {}
    for group, kind in flavour.types.items():
        replicas = job.group(group)
        if replicas:
            template = pod_template(
                job,
                replicas[0],
                meta,
                container=flavour.framework,
                index=label_index(common.REPLICA_INDEX_LABEL),
                env=flavour.environment(job, group, meta.name),
                command=flavour.command(replicas[0]),
            )
            specs[kind] = replica_spec(job, replicas, template)
    spec = {"runPolicy": run_policy(job), **flavour.more(job), flavour.specs: specs}
    return Rendered(common.main_object(flavour.resource, job, meta, spec))


def _pytorch_operators(job: JobPlan) -> frozenset[str]:
    names = {"PET_NNODES", "PET_NPROC_PER_NODE"}
    if job.spec.elastic:
        names |= {"PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", "PET_RDZV_ID", "PET_MAX_RESTARTS"}
        names |= {"PET_RDZV_CONF"} if job.spec.elastic.rdzv_conf else set()
    elif job.group("master"):
        names |= _RANKS | {"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK"}
    return frozenset(names)


def _pytorch_more(job: JobPlan) -> Manifest:
    more: Manifest = {"nprocPerNode": str(job.spec.num_proc_per_node)}
    if job.spec.elastic:
        options = [{"key": key, "value": value} for key, value in job.spec.elastic.rdzv_conf.items()]
        more["elasticPolicy"] = {
            "minReplicas": job.spec.elastic.min_nodes,
            "maxReplicas": job.spec.elastic.max_nodes,
            "maxRestarts": job.spec.elastic.max_restarts,
            "rdzvBackend": "c10d",
            "rdzvId": "train",
            **({"rdzvConf": options} if options else {}),
        }
    return more


def _tensorflow_more(job: JobPlan) -> Manifest:
    # Otherwise the job succeeds as soon as worker-0 does.
    return {} if job.group("chief") else {"successPolicy": "AllWorkers"}


def _check(flavour: _Flavour, job: JobPlan) -> None:
    common.check(BACKEND, flavour.framework, flavour.operators, job)
    if not flavour.is_grouped_by_kai:
        fix = f"KAI does not group the pods of a {flavour.resource.kind}; choose another scheduler."
        refuse_schedulers(BACKEND, job, (KAI,), "coscheduling or volcano", fix)


def _kind(flavour: _Flavour) -> Kind:
    return Kind(
        key=flavour.resource.kind.lower(),
        resource=flavour.resource,
        frameworks=frozenset({flavour.framework}),
        read=conditions.read,
        groups=common.groups,
        replica_ref=replica_ref,
        container=lambda main, group: flavour.framework,
        pod_label=common.JOB_NAME_LABEL,
        suspension=Suspension(common.suspend),
        controller=Controller(
            replaces_pods=True,
            leaves_deleted=True,
            without_restart=without_restart,
            blocked_by=blocked_by,
            deadline_at=common.deadline_at,
        ),
        retention=Retention(ttl),
        renderer=Renderer(
            check=partial(_check, flavour),
            render=partial(_render, flavour),
            name_limit=common.name_limit,
            tool_pod=partial(common.tool_pod, common.REPLICA_TYPE_LABEL),
        ),
        manifests=ManifestRules(check=common.check_manifest, deadline=deadline),
    )


PYTORCHJOB = _kind(
    _Flavour(
        framework="pytorch",
        resource=Resource(API_VERSION, "PyTorchJob", "pytorchjobs"),
        specs="pytorchReplicaSpecs",
        types={"master": "Master", "worker": "Worker"},
        operators=_pytorch_operators,
        environment=rendezvous.pytorch,
        more=_pytorch_more,
    )
)
TFJOB = _kind(
    _Flavour(
        framework="tensorflow",
        resource=Resource(API_VERSION, "TFJob", "tfjobs"),
        specs="tfReplicaSpecs",
        types={"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"},
        operators=lambda job: frozenset({"TF_CONFIG"}),
        environment=rendezvous.tensorflow,
        more=_tensorflow_more,
    )
)
XGBOOSTJOB = _kind(
    _Flavour(
        framework="xgboost",
        resource=Resource(API_VERSION, "XGBoostJob", "xgboostjobs"),
        specs="xgbReplicaSpecs",
        types={"master": "Master", "worker": "Worker"},
        operators=lambda job: _RANKS | {"WORKER_ADDRS", "WORKER_PORT"},
        environment=rendezvous.xgboost,
        command=rendezvous.xgboost_command,
    )
)
PADDLEJOB = _kind(
    _Flavour(
        framework="paddle",
        resource=Resource(API_VERSION, "PaddleJob", "paddlejobs"),
        specs="paddleReplicaSpecs",
        types={"worker": "Worker"},
        operators=lambda job: frozenset({"PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_JOB_ID"}),
        environment=rendezvous.paddle,
        is_grouped_by_kai=False,
    )
)
JAXJOB = _kind(
    _Flavour(
        framework="jax",
        resource=Resource(API_VERSION, "JAXJob", "jaxjobs"),
        specs="jaxReplicaSpecs",
        types={"worker": "Worker"},
        operators=lambda job: frozenset({"COORDINATOR_ADDRESS", "COORDINATOR_PORT", "NUM_PROCESSES", "PROCESS_ID"}),
        environment=rendezvous.jax,
    )
)
