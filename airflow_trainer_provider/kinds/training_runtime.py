"""The TrainingRuntime that each TrainJob of ours gets for itself, named as the job.

A TrainJob cannot say restart policy, back-off, priority class or pod template in all of Trainer 2.1 to 2.3; its
runtime can. The runtime also sets every variable that the frameworks promise to scripts. Trainer's own policies for
PyTorch, JAX and XGBoost do nothing but set some of these, over what the user says, and know neither elastic jobs nor
``gpu`` for the number of processes, so they are left out. MPI's policy stays: it makes the ssh keys and the hostfile.
https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.frameworks.base import Address, Addresses
from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.kinds.base import SERVICES, Facts, Manifest, Meta, Resource
from airflow_trainer_provider.kinds.mpi_launch import FILES, launcher_command
from airflow_trainer_provider.kinds.native_blocks import PORT, Block, environment_of
from airflow_trainer_provider.kinds.pod import TRAINING_CONTAINER, label_index, pod_template
from airflow_trainer_provider.kinds.trainjob_ssh import KEYS, serve, use_ssh

BACKEND = "trainer"
GROUP_VERSION = "trainer.kubeflow.org/v1alpha1"
TRAINING_RUNTIMES = Resource(GROUP_VERSION, "TrainingRuntime", "trainingruntimes")
CLUSTER_TRAINING_RUNTIMES = Resource(GROUP_VERSION, "ClusterTrainingRuntime", "clustertrainingruntimes")

#: The name that Trainer demands of the training's container, and of the replicated job of the nodes.
NODE = "node"
LAUNCHER = "launcher"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
STEP_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
ATTEMPT_LABEL = "jobset.sigs.k8s.io/restart-attempt"
_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
#: A pod's name is a label's value too; behind the replicated job's name come ``-0-<index>`` and five letters.
_NAME_LENGTH = 63
#: Trainer's initializers may be in a runtime that we have not seen.
_LONGEST_STEP = "dataset-initializer"
#: The most characters of the name of a TrainJob that somebody else wrote, whose steps we have not seen.
MANIFEST_NAME_LIMIT = _NAME_LENGTH - len(f"-{_LONGEST_STEP}-0-0-abcde")
#: Lists of a pod whose entries are told apart by a field, as in Kubernetes' strategic merge.
_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), "name"),
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}
#: Those of them whose entries are merged and not replaced.
_MERGED = ("containers", "initContainers")
#: How long a worker may take until it answers mpirun, in seconds; its readiness has been waited for by then.
_PATIENCE = 60


def parse_runtime_ref(text: str) -> tuple[Resource, str]:
    """The runtime that ``runtime_ref`` names.

    :param text: a name, which is a ClusterTrainingRuntime's as in a TrainJob, or ``kind/name``.
    :raises SpecError: there is no such kind of runtime.
    """
    kind, slash, name = text.rpartition("/")
    kinds = {each.kind: each for each in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)}
    resource = kinds.get(kind) if slash else CLUSTER_TRAINING_RUNTIMES
    if resource is None or not name:
        allowed = f"a name, or kind/name with the kind {' or '.join(kinds)}"
        raise SpecError([Problem("runtime_ref", text, allowed, "Correct it.")])
    return resource, name


def runtime_path(job: Job, namespace: str) -> str | None:
    """The path of the runtime that the job starts from; None where it is made from the spec alone.

    :param job: the job.
    :param namespace: of the job.
    """
    return None if job.spec.runtime_ref is None else ref_path(job.spec.runtime_ref, namespace)


def ref_path(text: str, namespace: str) -> str:
    """The path of the runtime that ``runtime_ref`` names.

    :param text: see :func:`parse_runtime_ref`.
    :param namespace: of the job.
    """
    resource, name = parse_runtime_ref(text)
    if resource is TRAINING_RUNTIMES:
        return resource.path(namespace, name)
    return f"/apis/{resource.api_version}/{resource.plural}/{name}"


def name_limit(job: Job) -> int:
    """The most characters of the job's name, so that the longest of its pods' names is still a label's value."""
    ends = [f"-{NODE}-0-{len(job.nodes) - 1}"]
    if is_launched(job):
        ends.append(f"-{LAUNCHER}-0-0")
    if job.spec.runtime_ref is not None:
        ends.append(f"-{_LONGEST_STEP}-0-0")
    return _NAME_LENGTH - len("-abcde") - max(map(len, ends))


def is_launched(job: Job) -> bool:
    """Whether a replica that trains nothing starts the processes on the others."""
    return not job.framework.automatic_trains


def runtime_of(job: Job, meta: Meta, facts: Facts, deadline: int | None) -> Manifest:
    """The job's own runtime.

    :param job: the job.
    :param meta: what is written on the job's objects.
    :param facts: with the runtime that ``runtime_ref`` names, whose replicated jobs and policies it then starts from.
    :param deadline: of each of its Jobs, in seconds, where the TrainJob cannot carry it.
    :raises SpecError: no image, or the named runtime does not fit the job.
    """
    base = deepcopy(dict((facts.runtime or {}).get("spec") or {}))
    template = base.get("template") or {}
    spec = template.get("spec") or {}
    found = {each["name"]: each for each in spec.get("replicatedJobs") or ()}
    _check_base(job, base, found)
    steps = _launched(job, meta, found) if is_launched(job) else [_nodes(job, meta, found)]
    names = {step["name"] for step in steps}
    jobs = [*(each for name, each in found.items() if name not in names), *steps]
    for step in steps if deadline is not None else ():
        step["template"]["spec"]["activeDeadlineSeconds"] = deadline
    metadata = template.get("metadata") or {}
    metadata["labels"] = {**(metadata.get("labels") or {}), **meta.labels}
    # The end of a JobSet runs the training again.
    spec.pop("ttlSecondsAfterFinished", None)
    spec["replicatedJobs"] = jobs
    spec["failurePolicy"] = _failure_policy(job, deadline)
    if is_launched(job):
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [LAUNCHER]}
    base["mlPolicy"] = _policy(job, base.get("mlPolicy") or {})
    base["template"] = {**template, "metadata": metadata, "spec": spec}
    return {
        "apiVersion": TRAINING_RUNTIMES.api_version,
        "kind": TRAINING_RUNTIMES.kind,
        "metadata": {"name": meta.name, "labels": dict(meta.labels)},
        "spec": base,
    }


def _check_base(job: Job, base: Mapping[str, Any], found: Mapping[str, Manifest]) -> None:
    if not found:
        return
    steps = (NODE, LAUNCHER) if is_launched(job) else (NODE,)
    missing = [name for name in steps if name not in found]
    if missing:
        allowed = f"a runtime with the replicated jobs {', '.join(steps)}"
        fix = f"It has {', '.join(found)} only. Name another runtime, or drop runtime_ref."
        raise SpecError([Problem("runtime_ref", job.spec.runtime_ref, allowed, fix)])
    if ((base.get("mlPolicy") or {}).get("torch") or {}).get("envInjection"):
        allowed = "a runtime without torch.envInjection, as the job's own runtime sets the variables"
        fix = "Name another runtime, or give the job with manifest=."
        raise UnsupportedField(BACKEND, Problem("runtime_ref", job.spec.runtime_ref, allowed, fix))


def _policy(job: Job, base: Mapping[str, Any]) -> Manifest:
    if not is_launched(job):
        return {"numNodes": len(job.nodes)}
    mpi = {"mpiImplementation": "OpenMPI", "sshAuthMountPath": KEYS, **(base.get("mpi") or {})}
    # The number of nodes is that of launchers here, and those of TrainJob's trainer the nodes'.
    return {
        "numNodes": 1,
        "mpi": {**mpi, "numProcPerNode": job.spec.num_proc_per_node, "runLauncherAsNode": False},
    }


def _failure_policy(job: Job, deadline: int | None) -> Manifest:
    policy: Manifest = {"maxRestarts": job.spec.run_policy.backoff_limit}
    if deadline is not None:
        policy["rules"] = [
            {"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
        ]
    return policy


def _nodes(job: Job, meta: Meta, found: Mapping[str, Manifest]) -> Manifest:
    """All replicas as the pods of one Job, whose index is the rank."""
    groups = {replica.group for replica in job.replicas}
    # One text for all pods cannot say master-0 and worker-0.
    first = job.leader if len(groups) == 1 else replace(job.leader, group=NODE)
    addresses = addresses_of(job, meta.name)
    env = environment_of(job, Block(NODE, job.replicas), addresses)
    pod = _pod(job, first, meta, found.get(NODE), env)
    pod["spec"]["containers"][0].setdefault("ports", []).append({"containerPort": PORT, "protocol": "TCP"})
    return _replicated(NODE, pod, found.get(NODE), len(job.nodes), job, trains=True)


def _launched(job: Job, meta: Meta, found: Mapping[str, Manifest]) -> list[Manifest]:
    addresses = addresses_of(job, meta.name)
    worker, launcher = job.nodes[0], job.leader
    if job.source(launcher, "resources")[0] == "resources_per_node":
        # It is no node.
        launcher = replace(launcher, resources=None)
    workers = _pod(job, worker, meta, found.get(NODE), job.framework.environment(job, worker, addresses))
    env = {"TRAINER_FILES": FILES, **job.framework.environment(job, launcher, addresses)}
    pod = _pod(job, launcher, meta, found.get(LAUNCHER), env)
    if not found:
        serve(workers)
        use_ssh(pod)
    command = launcher_command(launcher, pod, _PATIENCE)
    if command:
        container = pod["spec"]["containers"][0]
        container["command"] = list(command)
        container.pop("args", None)
    nodes = _replicated(NODE, workers, found.get(NODE), len(job.nodes), job, trains=False)
    launch = _replicated(LAUNCHER, pod, found.get(LAUNCHER), 1, job, trains=True)
    # What a launcher waits for has to stand before it.
    return [nodes, {**launch, "dependsOn": [{"name": NODE, "status": "Ready"}]}]


def addresses_of(job: Job, name: str) -> Addresses:
    """Where the replicas reach each other: the host names that a JobSet gives, below the Service that it makes.

    The leader of an elastic job is known by its host name alone: its rendezvous looks whether it is to be held here.

    :param name: of the job.
    """
    addresses = {
        replica.name: Address(f"{name}-{NODE}-0-{index}.{name}", PORT) for index, replica in enumerate(job.nodes)
    }
    if is_launched(job):
        addresses[job.leader.name] = Address(f"{name}-{LAUNCHER}-0-0.{name}", PORT)
    if job.spec.elastic:
        addresses[job.leader.name] = Address(leader_host(name), PORT)
    return addresses


def leader_host(name: str) -> str:
    """The host name of the node with index 0.

    :param name: of the job.
    """
    return f"{name}-{NODE}-0-0"


def leader_service(meta: Meta) -> Manifest:
    """The Service by which the others reach the leader under its host name alone.

    :param meta: what is written on the job's objects.
    """
    selector = {JOB_SET_LABEL: meta.name, STEP_LABEL: NODE, INDEX_LABEL: "0"}
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {"name": leader_host(meta.name), "labels": dict(meta.labels)},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector},
    }


def _pod(job: Job, replica: Replica, meta: Meta, step: Manifest | None, env: Mapping[str, str]) -> Manifest:
    base = ((((step or {}).get("template") or {}).get("spec") or {}).get("template")) or {}
    merged = merged_template(base, _renamed(job.spec.pod_template or {}))
    attempt = {"TRAINER_ATTEMPT": label_index(ATTEMPT_LABEL)}
    pod = pod_template(
        replace(job, spec=job.spec.model_copy(update={"pod_template": merged})),
        replica,
        meta,
        container=NODE,
        index=label_index(INDEX_LABEL),
        env={**attempt, **env},
        restart_policy="Never",
    )
    if not pod["spec"]["containers"][0].get("image"):
        field, _ = job.source(replica, "image")
        fix = "Set image for all replicas; the runtime of runtime_ref, if there is one, brings none either."
        raise SpecError([Problem(field, None, "the name of a container image", fix)])
    return pod


def _replicated(name: str, pod: Manifest, step: Manifest | None, count: int, job: Job, *, trains: bool) -> Manifest:
    step = deepcopy(step or {})
    template = step.get("template") or {}
    metadata = template.get("metadata") or {}
    if trains:
        metadata["labels"] = {**(metadata.get("labels") or {}), _ANCESTOR: "trainer"}
    # A lost node of an elastic job is made anew; else one that fails fails the job, and what is left is ended.
    again = job.spec.elastic.max_restarts if job.spec.elastic else 0
    spec = {
        **{key: value for key, value in (template.get("spec") or {}).items() if key != "ttlSecondsAfterFinished"},
        "backoffLimit": again,
        "completionMode": "Indexed",
        "parallelism": count,
        "completions": count,
        "template": pod,
    }
    return {**step, "name": name, "replicas": 1, "template": {"metadata": metadata, "spec": spec}}


def _renamed(template: Mapping[str, Any]) -> Manifest:
    """A user's template whose training container has the name that Trainer demands."""
    renamed = deepcopy(dict(template))
    for container in (renamed.get("spec") or {}).get("containers") or ():
        if container.get("name") == TRAINING_CONTAINER:
            container["name"] = NODE
    return renamed


def merged_template(base: Mapping[str, Any], over: Mapping[str, Any]) -> Manifest:
    """A pod template laid over another.

    :param base: of the runtime.
    :param over: of the user; wins where both say something.
    """
    merged = deepcopy(dict(base))
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merged_template(below, value)
        elif key in _KEYS and below:
            merged[key] = _merged_list(key, below, value)
        else:
            merged[key] = deepcopy(value)
    return merged


def _merged_list(field: str, base: Sequence[Manifest], over: Sequence[Manifest]) -> list[Manifest]:
    key = _KEYS[field]
    entries = {entry.get(key): entry for entry in base}
    for entry in over:
        name = entry.get(key)
        below = entries.get(name) if field in _MERGED else None
        entries[name] = merged_template(below, entry) if below else deepcopy(entry)
    return list(entries.values())
