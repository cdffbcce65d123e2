"""The one builder of pod templates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.job.result import RESULT_PATH_VARIABLE
from airflow_trainer_provider.kinds.base import Manifest, Meta
from airflow_trainer_provider.kinds.labels import GROUP
from airflow_trainer_provider.spec import Resources

#: Kubernetes keeps what a container writes there in the pod's status.
TERMINATION_MESSAGE_PATH = "/dev/termination-log"
GPU = "nvidia.com/gpu"
#: Fields of a pod's spec that follow from fields of the job.
_OWN_FIELDS = {
    "restartPolicy": "run_policy.backoff_limit",
    "terminationGracePeriodSeconds": "run_policy.grace_period_seconds",
}
#: The training's container in a user's ``pod_template``, whatever name the kind demands.
TRAINING_CONTAINER = "train"


def pod_template(
    job: Job,
    replica: Replica,
    meta: Meta,
    *,
    container: str,
    index: str | Mapping[str, Any],
    env: Mapping[str, str | Mapping[str, Any]] | None = None,
    command: Sequence[str] | None = None,
    ports: Sequence[Mapping[str, Any]] = (),
    restart_policy: str | None = None,
) -> Manifest:
    """The template of a replica's pods: the user's ``pod_template``, and over it what the job says.

    :param job: the whole job.
    :param replica: the replica, or the first of several that share the template.
    :param meta: what is written on the job's objects.
    :param container: the name that the training's container has to have.
    :param index: the replica's index in its group; a field reference (``{"fieldRef": ...}``) where pods share it.
    :param env: the kind's own variables, before the user's; a mapping is an EnvVarSource.
    :param command: what the container runs instead of the replica's command line.
    :param ports: of the container.
    :param restart_policy: None leaves it to the kind's controller.
    """
    template = deepcopy(dict(job.spec.pod_template or {}))
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**metadata.get("labels", {}), **meta.labels, GROUP: replica.group}
    spec = template.setdefault("spec", {})
    spec["terminationGracePeriodSeconds"] = math.ceil(job.spec.run_policy.grace_period_seconds)
    if restart_policy:
        spec["restartPolicy"] = restart_policy
    containers = spec.setdefault("containers", [])
    base = _training_container(containers, container)
    if base in containers:
        containers.remove(base)
    # First, so that tools that look at one only look at this.
    containers.insert(0, base)
    base["name"] = container
    if replica.image:
        base["image"] = replica.image
    _lay_command(base, replica, command)
    if replica.working_dir:
        base["workingDir"] = replica.working_dir
    if replica.resources:
        base["resources"] = _resources(replica.resources, base.get("resources", {}))
    base["env"] = _environment(replica, meta, index, env or {}, base.get("env", []))
    base["terminationMessagePath"] = TERMINATION_MESSAGE_PATH
    base["terminationMessagePolicy"] = "FallbackToLogsOnError"
    if ports:
        base["ports"] = [*base.get("ports", []), *map(dict, ports)]
    return template


def label_index(label: str) -> Manifest:
    """The field reference to a replica's index, where a label of its pod holds it."""
    return {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}


def check_images(job: Job, container: str) -> None:
    """Refuse replicas without an image.

    :param job: the job.
    :param container: the name of the training's container.
    :raises SpecError: naming the field and the way out.
    """
    given = _training_container(_containers(job.spec.pod_template), container).get("image")
    for replica in job.replicas:
        if replica.image is None and not given:
            field, _ = job.source(replica, "image")
            fix = f"Set image for all replicas, or replicas.{replica.group}.image."
            raise SpecError([Problem(field, None, "the name of a container image", fix)])


def check_pod_template(job: Job) -> None:
    """Refuse what the job's own fields say, and would be laid over.

    :param job: the job.
    :raises SpecError: naming the field and the way out.
    """
    given = (job.spec.pod_template or {}).get("spec") or {}
    for name, field in _OWN_FIELDS.items():
        if name in given:
            fix = f"Drop it, and set {field} instead."
            raise SpecError([Problem(f"pod_template.spec.{name}", given[name], "no value", fix)])


def _containers(template: Mapping[str, Any] | None) -> Sequence[Manifest]:
    containers: Sequence[Manifest] = ((template or {}).get("spec") or {}).get("containers") or ()
    return containers


def _training_container(containers: Sequence[Manifest], name: str) -> Manifest:
    """The user's part of the training's container; a new one where there is none."""
    found = {entry.get("name"): entry for entry in containers}
    return found.get(name) or found.get(TRAINING_CONTAINER) or {}


def _lay_command(container: Manifest, replica: Replica, command: Sequence[str] | None) -> None:
    if command is not None:
        container["command"] = list(command)
        container.pop("args", None)
    elif replica.command:
        container["command"] = [*replica.launcher, *replica.command]
        container.pop("args", None)
        if replica.args:
            container["args"] = list(replica.args)
    elif replica.args:
        container["args"] = list(replica.args)


def _resources(resources: Resources, base: Mapping[str, Any]) -> Manifest:
    amounts = {side: dict(base.get(side, {})) for side in ("requests", "limits")}
    for name, amount in (("cpu", resources.cpu), ("memory", resources.memory)):
        for side, values in amounts.items():
            value = getattr(amount, side) if amount else None
            if value is not None:
                values[name] = value
    if resources.gpu:
        amounts["limits"][GPU] = str(resources.gpu)
    return {**base, **{side: values for side, values in amounts.items() if values}}


def _environment(
    replica: Replica,
    meta: Meta,
    index: str | Mapping[str, Any],
    env: Mapping[str, str | Mapping[str, Any]],
    base: Sequence[Manifest],
) -> list[Manifest]:
    ours: dict[str, str | Mapping[str, Any]] = {
        "TRAINER_JOB_NAME": meta.name,
        # Kubernetes puts earlier variables in place of $(...).
        "TRAINER_INDEX": index,
        "TRAINER_REPLICA": f"{replica.group}-$(TRAINER_INDEX)",
        RESULT_PATH_VARIABLE: TERMINATION_MESSAGE_PATH,
        # Lines are told as they are written, also by scripts that nobody flushes.
        "PYTHONUNBUFFERED": "1",
        **env,
        **replica.env,
    }
    entries = [_variable(name, value) for name, value in ours.items()]
    return [*entries, *(entry for entry in base if entry.get("name") not in ours)]


def _variable(name: str, value: str | Mapping[str, Any]) -> Manifest:
    return {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": dict(value)}
