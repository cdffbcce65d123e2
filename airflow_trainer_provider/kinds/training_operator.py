"""The jobs of the Training Operator: PyTorchJob, TFJob, XGBoostJob, PaddleJob and JAXJob, kubeflow.org/v1.

The operator makes a pod and a headless Service ``<job>-<group>-<index>`` for each replica, and tells each the
rendezvous; what it leaves out of what the frameworks promise to scripts is added here.
https://github.com/kubeflow/training-operator/tree/v1.9.3/pkg/controller.v1

A job with a master or chief succeeds when that one does, and the workers that still run are ended. The operator never
starts a whole job again: with ``backoff_limit`` each replica that fails is started again in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.kinds import kubeflow, kubeflow_status, rendezvous
from airflow_trainer_provider.kinds.base import Facts, Kind, Manifest, Meta, Place, Rendered, Resource
from airflow_trainer_provider.kinds.pod import label_index, pod_template

BACKEND = "training-operator"
API_VERSION = "kubeflow.org/v1"
_RANKS = frozenset({"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"})


@dataclass(frozen=True)
class _Flavour:
    """What one kind has of its own.

    :param framework: its framework.
    :param resource: of its object.
    :param specs: the field that holds the replicas.
    :param types: group -> replica type.
    :param operators: job -> the variables that the operator sets.
    :param environment: (job, group, the job's name) -> those that it leaves out.
    :param more: other fields of the spec.
    :param command: what a replica runs instead of its command line; None for that.
    """

    framework: str
    resource: Resource
    specs: str
    types: Mapping[str, str]
    operators: Callable[[Job], frozenset[str]]
    environment: Callable[[Job, str, str], rendezvous.Values]
    more: Callable[[Job], Manifest] = lambda job: {}
    command: Callable[[Replica], tuple[str, ...] | None] = lambda replica: None


def restarts(job: Job) -> int:
    """How many restarts of replicas the job may have, all together.

    Each replica may start again as often as the whole job should, and an elastic job replaces so many nodes.
    """
    starting = [replica for replica in job.replicas if job.framework.role(replica.group).runs_command]
    nodes = job.spec.elastic.max_restarts if job.spec.elastic else 0
    return job.spec.run_policy.backoff_limit * len(starting) + nodes


def run_policy(job: Job) -> Manifest:
    """The job's ``runPolicy``."""
    # The operator fails a job when the last restart that its limit allows begins, not when it has failed.
    limit = {"backoffLimit": restarts(job) + 1} if restarts(job) else {}
    return {**kubeflow.run_policy(job), **limit}


def replica_spec(job: Job, replicas: tuple[Replica, ...], template: Manifest) -> Manifest:
    """A group's entry in the replica specs."""
    deadline = kubeflow.deadline_seconds(job)
    if deadline is not None:
        # The operator looks at a job's deadline only when something happens to its pods: so let something happen.
        template["spec"]["activeDeadlineSeconds"] = deadline
    policy = "OnFailure" if restarts(job) else "Never"
    return {"replicas": len(replicas), "restartPolicy": policy, "template": template}


def place(pod: Manifest, main: Manifest) -> Place | None:
    """The replica that a pod is, by the operator's labels."""
    labels = pod["metadata"].get("labels") or {}
    group = labels.get(kubeflow.REPLICA_TYPE_LABEL, "")
    # A launcher has no index.
    index = labels.get(kubeflow.REPLICA_INDEX_LABEL, "0")
    return (group, int(index)) if group in kubeflow.groups(main) and index.isdecimal() else None


def ttl(seconds: int) -> Manifest:
    """The merge patch by which the operator deletes the job so long after its end."""
    return {"spec": {"runPolicy": {"ttlSecondsAfterFinished": seconds}}}


def _render(flavour: _Flavour, job: Job, meta: Meta, facts: Facts) -> Rendered:
    specs: Manifest = {}
    for group, kind in flavour.types.items():
        replicas = job.group(group)
        if replicas:
            template = pod_template(
                job,
                replicas[0],
                meta,
                container=flavour.framework,
                index=label_index(kubeflow.REPLICA_INDEX_LABEL),
                env=flavour.environment(job, group, meta.name),
                command=flavour.command(replicas[0]),
            )
            specs[kind] = replica_spec(job, replicas, template)
    spec = {"runPolicy": run_policy(job), **flavour.more(job), flavour.specs: specs}
    return Rendered(kubeflow.main_object(flavour.resource, job, meta, spec))


def _pytorch_operators(job: Job) -> frozenset[str]:
    names = {"PET_NNODES", "PET_NPROC_PER_NODE"}
    if job.spec.elastic:
        names |= {"PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", "PET_RDZV_ID", "PET_MAX_RESTARTS"}
    elif job.group("master"):
        names |= _RANKS | {"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK"}
    return frozenset(names)


def _pytorch_more(job: Job) -> Manifest:
    more: Manifest = {"nprocPerNode": str(job.spec.num_proc_per_node)}
    if job.spec.elastic:
        more["elasticPolicy"] = {
            "minReplicas": job.spec.elastic.min_nodes,
            "maxReplicas": job.spec.elastic.max_nodes,
            "maxRestarts": job.spec.elastic.max_restarts,
            "rdzvBackend": "c10d",
            "rdzvId": "train",
        }
    return more


def _tensorflow_more(job: Job) -> Manifest:
    # Else the job has succeeded as soon as worker-0 has.
    return {} if job.group("chief") else {"successPolicy": "AllWorkers"}


def _kind(flavour: _Flavour) -> Kind:
    return Kind(
        key=flavour.resource.kind.lower(),
        resource=flavour.resource,
        frameworks=frozenset({flavour.framework}),
        render=partial(_render, flavour),
        read=kubeflow_status.read,
        groups=kubeflow.groups,
        place=place,
        pod_label=kubeflow.JOB_NAME_LABEL,
        name_limit=kubeflow.name_limit,
        suspend=kubeflow.suspend,
        check=partial(kubeflow.check, BACKEND, flavour.framework, flavour.operators),
        ttl=ttl,
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
