"""What the job kinds of kubeflow.org have in common: their main object, their labels, and the settings that they
refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.plan.tools import tool_replica
from airflow_trainer_provider.kinds.base import Facts, Manifest, Meta, Resource
from airflow_trainer_provider.kinds.manifest_check import check_count
from airflow_trainer_provider.kinds.merge_patch import bounded
from airflow_trainer_provider.kinds.objects.labels import QUEUE
from airflow_trainer_provider.kinds.objects.pod_check import check_containers, check_variables
from airflow_trainer_provider.kinds.objects.scheduling.gang import check_gang, scheduling_policy
from airflow_trainer_provider.kinds.status.pod_end import parse_time

JOB_NAME_LABEL = "training.kubeflow.org/job-name"
REPLICA_TYPE_LABEL = "training.kubeflow.org/replica-type"
REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"
JOB_ROLE_LABEL = "training.kubeflow.org/job-role"

#: The groups of all these kinds, in the order of their ranks.
_GROUPS = ("launcher", "master", "chief", "worker", "ps", "evaluator")
#: A pod's name is its host name, and usually also the name of its Service.
_HOST_NAME_LENGTH = 63


def main_object(resource: Resource, job: JobPlan, meta: Meta, spec: Manifest) -> Manifest:
    """The main object of the job."""
    # Kueue suspends an object with its label until the queue admits it.
    queue = {QUEUE: job.spec.queue_name} if job.spec.queue_name else {}
    metadata = {"name": meta.name, "labels": {**meta.main_labels, **queue}, "annotations": dict(meta.annotations)}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def run_policy(job: JobPlan, members: int) -> Manifest:
    """The fields of ``runPolicy`` that all these kinds have: which pods outlive the job, its deadline, and the gang
    scheduling of its pods.

    :param job: the job.
    :param members: how many of its pods are created together.
    """
    # With clean_pods "All", the pods are deleted only once the outcome is safe: earlier, their logs and the result
    # would be lost with them.
    outlives = job.spec.run_policy.clean_pods == "None"
    policy: Manifest = {"cleanPodPolicy": "None" if outlives else "Running", **scheduling_policy(job, members)}
    deadline = deadline_seconds(job)
    if deadline is not None:
        policy["activeDeadlineSeconds"] = deadline
    return policy


def deadline_seconds(job: JobPlan) -> int | None:
    """The job's deadline in whole seconds, rounded up."""
    deadline = job.spec.run_policy.active_deadline_seconds
    return None if deadline is None else math.ceil(deadline)


def tool_pod(role_label: str, job: JobPlan, name: str) -> Mapping[str, str]:
    """The operator's labels of the pod that the job's tools run in.

    :param role_label: the label in which the operator writes a pod's role.
    :param job: the job.
    :param name: its name.
    """
    replica = tool_replica(job)
    return {JOB_NAME_LABEL: name, role_label: replica.group, REPLICA_INDEX_LABEL: str(replica.index)}


def deadline(main: Manifest, seconds: int, facts: Facts) -> Manifest:
    """A user's own manifest with a deadline."""
    return bounded(main, {"spec": {"runPolicy": {"activeDeadlineSeconds": seconds}}})


def deadline_at(main: Manifest) -> datetime | None:
    """When a job's deadline passes. The operators check it only when something happens to the job.

    :param main: the main object.
    :return: None for a job without a deadline, and for a job that has not started or is suspended.
    """
    policy, status = main["spec"].get("runPolicy") or {}, main.get("status") or {}
    seconds, started = policy.get("activeDeadlineSeconds"), status.get("startTime")
    held = (each["type"] for each in status.get("conditions") or () if each.get("status") == "True")
    # The operators set a new startTime only when they have handled the resume.
    is_suspended = policy.get("suspend") or "Suspended" in held
    return parse_time(started) + timedelta(seconds=seconds) if seconds and started and not is_suspended else None


def name_limit(job: JobPlan) -> int:
    """The maximum length of the job's name, with which the longest of its pods' names is still a valid host name."""
    ends = (f"-{replica.group}" if replica.group == "launcher" else f"-{replica.name}" for replica in job.replicas)
    return _HOST_NAME_LENGTH - max(map(len, ends))


def suspend(suspended: bool) -> Manifest:
    """The merge patch that suspends or resumes the job."""
    return {"spec": {"runPolicy": {"suspend": suspended}}}


def groups(main: Manifest) -> Mapping[str, int]:
    """How many replicas of each group, in the order of their ranks."""
    specs = next((value for name, value in main["spec"].items() if name.endswith("ReplicaSpecs")), None) or {}
    counts = {kind.lower(): (spec or {}).get("replicas", 1) for kind, spec in specs.items()}
    return {group: counts[group] for group in _GROUPS if group in counts}


def check_manifest(main: Manifest) -> None:
    """Refuse a manifest with an invalid number of replicas.

    :param main: the user's own manifest.
    :raises SpecError: naming the field and the way out.
    """
    for field, specs in main["spec"].items():
        if field.endswith("ReplicaSpecs"):
            for kind in specs if isinstance(specs, Mapping) else ("",):
                check_count(main, "spec", field, kind, "replicas")


def check(
    backend: str,
    container: str,
    operators: Callable[[JobPlan], frozenset[str]],
    job: JobPlan,
    members: int | None = None,
) -> None:
    """Refuse settings that none of these kinds supports.

    :param backend: the backend's name, for the error.
    :param container: the name of the training's container.
    :param operators: job -> the variables that the operator sets, and with which it overwrites those of the job.
    :param job: the job.
    :param members: how many of its pods are created together; None for all.
    :raises SpecError: naming the field, its value and the way out.
    """
    check_containers(job, container)
    fix = "The operators' PodGroups have no field for it; drop it, or use backend 'trainer' or 'native'."
    check_gang(backend, job, len(job.replicas) if members is None else members, {"network_topology": fix})
    for name, group in job.spec.replicas.items():
        if group.overrides:
            fix = "All replicas of a group share one template here; use backend 'native' or 'local'."
            value = f"index {group.overrides[0].index}"
            raise UnsupportedField(backend, Problem(f"replicas.{name}.overrides[0]", value, "no overrides", fix))
    _check_exit_codes(backend, job)
    if job.spec.runtime_ref:
        fix = "Only backend 'trainer' starts from a runtime; use it, or drop runtime_ref."
        raise UnsupportedField(backend, Problem("runtime_ref", job.spec.runtime_name, "no value", fix))
    fix = "The operator sets {name} itself, over the job's; drop it, or use backend 'native'."
    check_variables(backend, job, container, operators(job), fix)


def _check_exit_codes(backend: str, job: JobPlan) -> None:
    """Refuse exit codes where replicas are restarted: the Training Operator's restart policy ``ExitCode`` has a fixed
    division of the codes and does not limit the restarts; the MPI Operator has no such policy.
    """
    policy = job.spec.run_policy
    if policy.exit_codes is None or not (policy.backoff_limit or job.spec.elastic):
        return
    beside = "run_policy.backoff_limit" if policy.backoff_limit else "elastic"
    allowed = f"no value beside {beside}: the operator bounds no restarts that depend on the exit code"
    fix = (
        f"Use backend 'trainer' or 'native'; or drop {beside}, and let the task's retries submit the job again, which "
        "the exit codes then decide."
    )
    raise UnsupportedField(backend, Problem("run_policy.exit_codes", "a value", allowed, fix))
