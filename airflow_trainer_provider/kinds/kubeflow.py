"""What the job kinds of kubeflow.org have in common: their main object, their labels, and what they cannot say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.kinds.base import Manifest, Meta, Resource
from airflow_trainer_provider.kinds.events import QUEUE_LABEL
from airflow_trainer_provider.kinds.pod import check_images

JOB_NAME_LABEL = "training.kubeflow.org/job-name"
REPLICA_TYPE_LABEL = "training.kubeflow.org/replica-type"
REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"
JOB_ROLE_LABEL = "training.kubeflow.org/job-role"

#: The groups that any of these kinds knows, in the order of their ranks.
_GROUPS = ("launcher", "master", "chief", "worker", "ps", "evaluator")
#: A pod's name is its host name, and mostly its Service's.
_HOST_NAME_LENGTH = 63


def main_object(resource: Resource, job: Job, meta: Meta, spec: Manifest) -> Manifest:
    """The object that stands for the job."""
    # Kueue itself suspends what carries its label, until the queue admits it.
    queue = {QUEUE_LABEL: job.spec.queue_name} if job.spec.queue_name else {}
    metadata = {"name": meta.name, "labels": {**meta.labels, **queue}, "annotations": dict(meta.annotations)}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def run_policy(job: Job) -> Manifest:
    """What all of the kinds say of the job's end: nobody outlives it, and the cluster itself knows its deadline."""
    policy: Manifest = {"cleanPodPolicy": "Running"}
    deadline = deadline_seconds(job)
    if deadline is not None:
        policy["activeDeadlineSeconds"] = deadline
    return policy


def deadline_seconds(job: Job) -> int | None:
    """The job's deadline in whole seconds, rounded up."""
    deadline = job.spec.run_policy.active_deadline_seconds
    return None if deadline is None else math.ceil(deadline)


def name_limit(job: Job) -> int:
    """The most characters of the job's name, so that the longest of its pods' names is still a host name."""
    ends = (f"-{replica.group}" if replica.group == "launcher" else f"-{replica.name}" for replica in job.replicas)
    return _HOST_NAME_LENGTH - max(map(len, ends))


def suspend(suspended: bool) -> Manifest:
    """The merge patch that stops the job, or lets it go on."""
    return {"spec": {"runPolicy": {"suspend": suspended}}}


def groups(main: Manifest) -> Mapping[str, int]:
    """How many replicas of each group, in the order of their ranks."""
    specs = next((value for name, value in main["spec"].items() if name.endswith("ReplicaSpecs")), None) or {}
    counts = {kind.lower(): (spec or {}).get("replicas", 1) for kind, spec in specs.items()}
    return {group: counts[group] for group in _GROUPS if group in counts}


def check(backend: str, container: str, operators: Callable[[Job], frozenset[str]], job: Job) -> None:
    """Refuse what none of these kinds can say.

    :param backend: the backend's name, for the error.
    :param container: the name of the training's container.
    :param operators: the variables that the operator sets, over those of the job.
    :param job: the job.
    :raises SpecError: naming the field, its value and the way out.
    """
    check_images(job, container)
    for name, group in job.spec.replicas.items():
        if group.overrides:
            fix = "All replicas of a group share one template here; use backend 'native' or 'local'."
            value = f"index {group.overrides[0].index}"
            raise UnsupportedField(backend, Problem(f"replicas.{name}.overrides[0]", value, "no overrides", fix))
    if job.spec.runtime_ref:
        fix = "Only backend 'trainer' starts from a runtime; use it, or drop runtime_ref."
        raise UnsupportedField(backend, Problem("runtime_ref", job.spec.runtime_ref, "no value", fix))
    set_by_operator = operators(job)
    for replica in job.replicas:
        taken = sorted(set_by_operator & replica.env.keys())
        if taken:
            here = replica.group in job.spec.replicas and taken[0] in (job.spec.replicas[replica.group].env or {})
            field = f"replicas.{replica.group}.env" if here else "env"
            fix = f"The operator sets {taken[0]} itself, over the job's; drop it, or use backend 'native'."
            allowed = f"names other than {', '.join(sorted(set_by_operator))}"
            raise UnsupportedField(backend, Problem(field, taken[0], allowed, fix))
