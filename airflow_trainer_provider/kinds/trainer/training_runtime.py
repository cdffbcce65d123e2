"""The TrainingRuntime that this provider creates for a TrainJob, with the name of the job.

Not all releases from Trainer 2.1 to 2.3 let a TrainJob set the restart policy, the back-off, the priority class or the
pod template; a runtime can set them. The runtime also sets every variable that the frameworks promise to scripts.
Trainer's own policies for PyTorch, JAX and XGBoost only set some of these variables, overwriting the user's, and
support neither elastic jobs nor ``gpu`` for the number of processes, so they are left out. MPI's policy is left out
too: only one user of the image can use the private key that it mounts, and it publishes no host keys. A runtime that
the job starts from keeps its MPI policy. https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.job.plan.framework import Address, Addresses
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.plan.tools import tool_replica
from airflow_trainer_provider.kinds.base import SERVICES, Facts, Manifest, Meta, Resource
from airflow_trainer_provider.kinds.native.blocks import PORT, Block, environment_of
from airflow_trainer_provider.kinds.objects import files, ssh
from airflow_trainer_provider.kinds.objects.failure_policy import REASON, pod_failure_policy
from airflow_trainer_provider.kinds.objects.mpi_launch import launcher_command
from airflow_trainer_provider.kinds.objects.pod import label_index, pod_template
from airflow_trainer_provider.kinds.objects.scheduling.gang import (
    COSCHEDULING,
    POD_GROUPS,
    VOLCANO,
    VOLCANO_QUEUE,
    network_topology,
)
from airflow_trainer_provider.kinds.strategic_merge import merged_template
from airflow_trainer_provider.kinds.trainer.initializers import ANCESTOR, check_initializers
from airflow_trainer_provider.spec.misplaced import TRAINING_CONTAINER
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes
from airflow_trainer_provider.spec.scheduling import Gang
from airflow_trainer_provider.spec.values.names import is_subdomain

BACKEND = "trainer"
GROUP_VERSION = "trainer.kubeflow.org/v1alpha1"
TRAINING_RUNTIMES = Resource(GROUP_VERSION, "TrainingRuntime", "trainingruntimes")
CLUSTER_TRAINING_RUNTIMES = Resource(GROUP_VERSION, "ClusterTrainingRuntime", "clustertrainingruntimes")

#: The name that Trainer requires for the training's container, and for the replicated job of the nodes.
NODE = "node"
LAUNCHER = "launcher"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
STEP_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
ATTEMPT_LABEL = "jobset.sigs.k8s.io/restart-attempt"
#: A pod's name is also the value of a label. After the name of the replicated job it has ``-0-<index>`` and five
#: letters.
_NAME_LENGTH = 63
#: The longest name of a step: a runtime that has not been read may have Trainer's initializers.
_LONGEST_STEP = "dataset-initializer"
#: The maximum length of the name of a TrainJob from a user's own manifest, whose steps are unknown.
MANIFEST_NAME_LIMIT = _NAME_LENGTH - len(f"-{_LONGEST_STEP}-0-0-abcde")
#: How long a worker may take until its sshd listens, or answers mpirun after that, in seconds.
_SSH_SECONDS = 60


def parse_runtime_ref(text: str) -> tuple[Resource, str]:
    """The runtime that ``runtime_ref`` names.

    :param text: the name of a ClusterTrainingRuntime, as in a TrainJob, or ``kind/name``.
    :raises SpecError: there is no such kind of runtime.
    """
    kind, slash, name = text.rpartition("/")
    kinds = {each.kind: each for each in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)}
    resource = kinds.get(kind) if slash else CLUSTER_TRAINING_RUNTIMES
    if resource is None or not is_subdomain(name):
        allowed = f"a name, or kind/name with the kind {' or '.join(kinds)}"
        raise SpecError([Problem("runtime_ref", text, allowed, "Correct it.")])
    return resource, name


def runtime_path(job: JobPlan, namespace: str) -> str | None:
    """The path of the runtime that the job starts from; None where it is made from the spec alone.

    :param job: the job.
    :param namespace: of the job.
    """
    return None if job.spec.runtime_name is None else ref_path(job.spec.runtime_name, namespace)


def ref_path(text: str, namespace: str) -> str:
    """The path of the runtime that ``runtime_ref`` names.

    :param text: see :func:`parse_runtime_ref`.
    :param namespace: of the job.
    """
    resource, name = parse_runtime_ref(text)
    if resource is TRAINING_RUNTIMES:
        return resource.path(namespace, name)
    return resource.cluster_path(name)


def name_limit(job: JobPlan) -> int:
    """The maximum length of the job's name, with which the longest of its pods' names is still a valid label value."""
    ends = [f"-{NODE}-0-{len(job.nodes) - 1}"]
    if job.is_launched:
        ends.append(f"-{LAUNCHER}-0-0")
    if job.spec.runtime_ref is not None:
        ends.append(f"-{_LONGEST_STEP}-0-0")
    return _NAME_LENGTH - len("-abcde") - max(map(len, ends))


def steps_of(facts: Facts) -> Mapping[str, Manifest]:
    """The replicated jobs of the runtime that ``runtime_ref`` names, by name.

    :param facts: with that runtime; without one the result is empty.
    """
    template = ((facts.runtime or {}).get("spec") or {}).get("template") or {}
    return {each["name"]: each for each in (template.get("spec") or {}).get("replicatedJobs") or ()}


def runtime_of(job: JobPlan, meta: Meta, facts: Facts, deadline: int | None) -> Manifest:
    """The runtime that is created for the job.

    :param job: the job.
    :param meta: the metadata of the job's objects.
    :param facts: with the runtime that ``runtime_ref`` names, whose replicated jobs and policies are then its basis.
    :param deadline: of each of its Jobs, in seconds, where the TrainJob's own field is not enough.
    :raises SpecError: no image, or the named runtime does not fit the job.
    """
    base = deepcopy(dict((facts.runtime or {}).get("spec") or {}))
    found = steps_of(facts)
    _check_steps(job, found)
    if facts.runtime is not None:
        check_initializers(job, found)
    _check_gang(job, found)
    jobs = _replicated_jobs(job, meta, facts, deadline)
    if job.spec.gang:
        base.pop("podGroupPolicy", None)
        base.update(_pod_group_policy(job.spec.gang))
    base["mlPolicy"] = _policy(job, (base.get("mlPolicy") or {}) if found else None)
    base["template"] = _job_set(job, meta, base.get("template") or {}, jobs, deadline)
    return {
        "apiVersion": TRAINING_RUNTIMES.api_version,
        "kind": TRAINING_RUNTIMES.kind,
        "metadata": {"name": meta.name, "labels": dict(meta.labels)},
        "spec": base,
    }


def _replicated_jobs(job: JobPlan, meta: Meta, facts: Facts, deadline: int | None) -> list[Manifest]:
    """The steps that train, after the other steps of the named runtime."""
    found = steps_of(facts)
    steps = _steps(job, meta, found)
    if facts.runtime is not None:
        _check_images(job, steps)
    if deadline is not None:
        for step in steps:
            step["template"]["spec"]["activeDeadlineSeconds"] = deadline
    # If the launcher is the only node, there is no step for other nodes.
    names = {*_names_of_steps(job), *(step["name"] for step in steps)}
    return [*(each for name, each in found.items() if name not in names), *steps]


def _job_set(job: JobPlan, meta: Meta, template: Manifest, jobs: Sequence[Manifest], deadline: int | None) -> Manifest:
    """The template of the JobSet: the named runtime's, overridden by the job's fields."""
    metadata = template.get("metadata") or {}
    metadata["labels"] = {**(metadata.get("labels") or {}), **meta.labels}
    if job.spec.gang and job.spec.gang.scheduler == VOLCANO and job.spec.gang.queue:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), VOLCANO_QUEUE: job.spec.gang.queue}
    spec = template.get("spec") or {}
    # When the JobSet is deleted after its ttl, Trainer runs the training again.
    spec.pop("ttlSecondsAfterFinished", None)
    spec["replicatedJobs"] = jobs
    spec["failurePolicy"] = _failure_policy(job, deadline)
    if job.is_launched:
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [LAUNCHER]}
    return {**template, "metadata": metadata, "spec": spec}


def _check_steps(job: JobPlan, found: Mapping[str, Manifest]) -> None:
    if not found:
        return
    steps = _names_of_steps(job)
    missing = [name for name in steps if name not in found]
    if missing:
        allowed = f"a runtime with the replicated jobs {', '.join(steps)}"
        fix = f"It has {', '.join(found)} only. Name another runtime, or drop runtime_ref."
        raise SpecError([Problem("runtime_ref", job.spec.runtime_name, allowed, fix)])


def check_own(job: JobPlan, facts: Facts) -> None:
    """Refuse a feature of a named runtime that the runtime created for the job would not have.

    :param job: the job.
    :param facts: with the runtime that ``runtime_ref`` names.
    :raises UnsupportedField: the named runtime sets variables of other containers.
    """
    policy = ((facts.runtime or {}).get("spec") or {}).get("mlPolicy") or {}
    if (policy.get("torch") or {}).get("envInjection"):
        allowed = "a runtime without torch.envInjection, as the job's own runtime sets the variables"
        fix = "Name another runtime, or give the job with manifest=."
        raise UnsupportedField(BACKEND, Problem("runtime_ref", job.spec.runtime_name, allowed, fix))


def _check_gang(job: JobPlan, found: Mapping[str, Manifest]) -> None:
    """Refuse a gang that would wait for pods that are created only after others have ended."""
    more = [name for name in found if name not in _names_of_steps(job)]
    if job.spec.gang and job.spec.gang.scheduler in POD_GROUPS and more:
        allowed = f"no value beside a runtime with the step {more[0]}, whose pods Trainer's PodGroup counts in as well"
        fix = "Name a runtime that has the training's steps only, or drop scheduling.gang."
        raise UnsupportedField(BACKEND, Problem("scheduling.gang", job.spec.gang.scheduler, allowed, fix))


def _pod_group_policy(gang: Gang) -> Manifest:
    """The policy by which Trainer creates the PodGroup; empty for KAI, which groups the pods of a JobSet itself."""
    if gang.scheduler not in POD_GROUPS:
        return {}
    if gang.scheduler == VOLCANO:
        topology = network_topology(gang.network_topology)
        return {"podGroupPolicy": {VOLCANO: {"networkTopology": topology} if topology else {}}}
    timeout = {} if gang.timeout_seconds is None else {"scheduleTimeoutSeconds": gang.timeout_seconds}
    return {"podGroupPolicy": {COSCHEDULING: timeout}}


def _names_of_steps(job: JobPlan) -> tuple[str, ...]:
    return (NODE, LAUNCHER) if job.is_launched else (NODE,)


def _check_images(job: JobPlan, steps: Sequence[Manifest]) -> None:
    for step in steps:
        if not step["template"]["spec"]["template"]["spec"]["containers"][0].get("image"):
            field, _ = job.source(job.leader, "image")
            fix = "Set image for all replicas; the runtime of runtime_ref brings none either."
            raise SpecError([Problem(field, None, "the name of a container image", fix)])


def _policy(job: JobPlan, base: Mapping[str, Any] | None) -> Manifest:
    if base is None or not job.is_launched:
        return {"numNodes": len(beside_launcher(job)) or 1}
    as_node = job.framework.trains(LAUNCHER)
    own = {"sshAuthMountPath": job.spec.mpi.ssh_mount_path} if job.spec.mpi.ssh_mount_path else {}
    mpi = {**(base.get("mpi") or {}), **own, "numProcPerNode": job.spec.num_proc_per_node, "runLauncherAsNode": as_node}
    # This numNodes is the number of launchers; the number of nodes is in the TrainJob's trainer.
    return {"numNodes": 1, "mpi": mpi}


def _failure_policy(job: JobPlan, deadline: int | None) -> Manifest:
    reasons = {
        **({} if deadline is None else {"deadline": "DeadlineExceeded"}),
        **({"exitCodes": REASON} if _codes(job) else {}),
    }
    rules = [
        {"name": name, "action": "FailJobSet", "onJobFailureReasons": [reason]} for name, reason in reasons.items()
    ]
    return {"maxRestarts": job.spec.run_policy.backoff_limit, **({"rules": rules} if rules else {})}


def _codes(job: JobPlan) -> ExitCodes | None:
    """The exit codes that decide whether replicas are restarted; None where no replica is restarted."""
    return job.spec.run_policy.exit_codes if job.spec.run_policy.backoff_limit or job.spec.elastic else None


def _steps(job: JobPlan, meta: Meta, found: Mapping[str, Manifest]) -> list[Manifest]:
    """The replicated jobs that train."""
    if not job.is_launched:
        return [_nodes(job, meta, found)]
    return _launched_by_trainer(job, meta, found) if found else _launched(job, meta)


def _nodes(job: JobPlan, meta: Meta, found: Mapping[str, Manifest]) -> Manifest:
    """All replicas as the pods of one Job, whose index is the rank."""
    groups = {replica.group for replica in job.replicas}
    # One template for all pods cannot name both master-0 and worker-0.
    first = job.leader if len(groups) == 1 else replace(job.leader, group=NODE)
    addresses = addresses_of(job, meta.name)
    env = environment_of(job, Block(NODE, job.replicas), addresses)
    pod = _pod(job, first, meta, found.get(NODE), env)
    pod["spec"]["containers"][0].setdefault("ports", []).append({"containerPort": PORT, "protocol": "TCP"})
    return _replicated(NODE, pod, found.get(NODE), len(job.nodes), job, trains=True)


def _launched(job: JobPlan, meta: Meta) -> list[Manifest]:
    """A launcher, and the workers that it reaches with the job's own ssh keys."""
    addresses = addresses_of(job, meta.name)
    launcher, workers = job.leader, beside_launcher(job)
    command = None
    if launcher.command and not job.framework.trains(LAUNCHER):
        command = ssh.launching(launcher.argv, addresses[workers[0].name])
    launching = _with_keys(job, launcher, meta, addresses, command)
    ssh.wait_for(launching, [addresses[worker.name] for worker in workers])
    step = _replicated(LAUNCHER, launching, None, 1, job, trains=not workers)
    if not workers:
        return [step]
    pod = _with_keys(job, workers[0], meta, addresses, ssh.SERVER)
    # The probe ends once sshd listens. sshd logs each connection that a probe drops, and a readiness probe would never
    # end.
    probe = {"tcpSocket": {"port": ssh.PORT}, "periodSeconds": 1, "failureThreshold": _SSH_SECONDS}
    pod["spec"]["containers"][0].setdefault("startupProbe", probe)
    return [_replicated(NODE, pod, None, len(workers), job, trains=True), _after_nodes(step)]


def _with_keys(
    job: JobPlan, replica: Replica, meta: Meta, addresses: Addresses, command: Sequence[str] | None
) -> Manifest:
    """The pods of a replica, with the hostfile and the job's ssh keys."""
    env = {"TRAINER_FILES": files.FOLDER, **ssh.environment(job.framework)}
    pod = _pod(job, replica, meta, None, {**env, **job.framework.environment(job, replica, addresses)}, command)
    files.mount(pod, meta)
    ssh.mount(pod, meta)
    return pod


def _launched_by_trainer(job: JobPlan, meta: Meta, found: Mapping[str, Manifest]) -> list[Manifest]:
    """The launcher and the workers of a runtime that has both steps: Trainer creates the ssh keys and the hostfile for
    them.
    """
    addresses = addresses_of(job, meta.name)
    launcher, workers = job.leader, beside_launcher(job)
    env = {"TRAINER_FILES": files.MPI_FOLDER, **job.framework.environment(job, launcher, addresses)}
    pod = _pod(job, launcher, meta, found[LAUNCHER], env)
    command = launcher_command(job, pod, _SSH_SECONDS)
    if command:
        container = pod["spec"]["containers"][0]
        container["command"] = list(command)
        container.pop("args", None)
    launching = _replicated(LAUNCHER, pod, found[LAUNCHER], 1, job, trains=True)
    if not workers:
        others = [each for each in launching.pop("dependsOn", ()) if each["name"] != NODE]
        return [{**launching, "dependsOn": others} if others else launching]
    env = job.framework.environment(job, workers[0], addresses)
    nodes = _replicated(
        NODE, _pod(job, workers[0], meta, found[NODE], env), found[NODE], len(workers), job, trains=False
    )
    return [nodes, _after_nodes(launching)]


def beside_launcher(job: JobPlan) -> Sequence[Replica]:
    """The replicas whose pods belong to the step of the nodes: all except a launcher.

    :param job: the job.
    """
    return job.replicas[1:] if job.is_launched else job.replicas


def _after_nodes(launcher: Manifest) -> Manifest:
    """The step of a launcher, which waits for the nodes: it has to come after their step. The launcher of a runtime may
    wait for an initializer as well.
    """
    others = [each for each in launcher.get("dependsOn") or () if each["name"] != NODE]
    return {**launcher, "dependsOn": [*others, {"name": NODE, "status": "Ready"}]}


def addresses_of(job: JobPlan, name: str) -> Addresses:
    """The addresses at which the replicas reach each other: the host names that a JobSet sets, in the domain of the
    Service that it creates.

    The address of an elastic job's leader is its host name alone: the rendezvous decides by the name whether it is
    hosted on this machine.

    :param name: of the job.
    """
    addresses = {
        replica.name: Address(f"{name}-{NODE}-0-{index}.{name}", PORT)
        for index, replica in enumerate(beside_launcher(job))
    }
    if job.is_launched:
        addresses[job.leader.name] = Address(f"{name}-{LAUNCHER}-0-0.{name}", PORT)
    if job.spec.elastic:
        addresses[job.leader.name] = Address(leader_host(name), PORT)
    return addresses


def leader_host(name: str) -> str:
    """The host name of the node with index 0.

    :param name: of the job.
    """
    return f"{name}-{NODE}-0-0"


def tool_pod(job: JobPlan, name: str) -> Mapping[str, str]:
    """Labels of the pod that the job's tools run in: the first node that trains, which may be the launcher.

    :param job: the job.
    :param name: its name.
    """
    step = LAUNCHER if job.is_launched and tool_replica(job) is job.leader else NODE
    return {JOB_SET_LABEL: name, STEP_LABEL: step, INDEX_LABEL: "0"}


def leader_service(meta: Meta) -> Manifest:
    """The Service by which the others reach the leader under its host name alone.

    :param meta: the metadata of the job's objects.
    """
    selector = {JOB_SET_LABEL: meta.name, STEP_LABEL: NODE, INDEX_LABEL: "0"}
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {"name": leader_host(meta.name), "labels": dict(meta.labels)},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector},
    }


def _pod(
    job: JobPlan,
    replica: Replica,
    meta: Meta,
    step: Manifest | None,
    env: Mapping[str, str],
    command: Sequence[str] | None = None,
) -> Manifest:
    merged = merged_template(step_template(step), renamed(job.spec.pod_template or {}))
    attempt = {"TRAINER_ATTEMPT": label_index(ATTEMPT_LABEL)}
    return pod_template(
        job,
        replica,
        meta,
        container=NODE,
        index=label_index(INDEX_LABEL),
        env={**attempt, **env},
        command=command,
        restart_policy="Never",
        base=merged,
    )


def step_template(step: Manifest | None) -> Manifest:
    """The pod template of a replicated job.

    :param step: of a runtime; None for none.
    """
    template: Manifest = (((step or {}).get("template") or {}).get("spec") or {}).get("template") or {}
    return template


def _replicated(name: str, pod: Manifest, step: Manifest | None, count: int, job: JobPlan, *, trains: bool) -> Manifest:
    step = deepcopy(step or {})
    template = step.get("template") or {}
    metadata = template.get("metadata") or {}
    if trains:
        metadata["labels"] = {**(metadata.get("labels") or {}), ANCESTOR: "trainer"}
    # The Job replaces a failed pod of an elastic job. In any other job the first failed pod fails the Job, and its
    # other pods are terminated.
    again = job.spec.elastic.max_restarts if job.spec.elastic else 0
    runs_command = not job.is_launched or name == LAUNCHER
    codes = _codes(job) if runs_command else None
    spec = {
        **{key: value for key, value in (template.get("spec") or {}).items() if key != "ttlSecondsAfterFinished"},
        **pod_failure_policy(codes, NODE),
        "backoffLimit": again,
        "completionMode": "Indexed",
        "parallelism": count,
        "completions": count,
        "template": pod,
    }
    return {**step, "name": name, "replicas": 1, "template": {"metadata": metadata, "spec": spec}}


def renamed(template: Mapping[str, Any]) -> Manifest:
    """A user's template whose training container has the name that Trainer requires.

    :param template: ``pod_template``.
    """
    copy = deepcopy(dict(template))
    for container in (copy.get("spec") or {}).get("containers") or ():
        if container.get("name") == TRAINING_CONTAINER:
            container["name"] = NODE
    return copy
