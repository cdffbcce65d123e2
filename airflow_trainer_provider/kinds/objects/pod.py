"""The one builder of pod templates."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

from airflow_trainer_provider.job.plan.function import function_environment
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.references import in_order
from airflow_trainer_provider.job.result import RESULT_PATH_VARIABLE
from airflow_trainer_provider.kinds.base import Manifest, Meta
from airflow_trainer_provider.kinds.objects import function
from airflow_trainer_provider.kinds.objects.labels import GROUP, JOB
from airflow_trainer_provider.kinds.objects.pod_settings import lay_settings, value_of
from airflow_trainer_provider.kinds.objects.scheduling.compute import lay_resources
from airflow_trainer_provider.kinds.objects.scheduling.gang import lay_gang
from airflow_trainer_provider.kinds.objects.scheduling.gpu_share import lay_share
from airflow_trainer_provider.kinds.objects.scheduling.placement import place
from airflow_trainer_provider.kinds.objects.volumes.mount import mount
from airflow_trainer_provider.spec.misplaced import TRAINING_CONTAINER

#: Kubernetes copies what a container writes to this file into the pod's status.
TERMINATION_MESSAGE_PATH = "/dev/termination-log"
#: The annotation from which kubectl and injectors of sidecars take the main container of a pod.
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
#: A user who sets one of these fields wants the pods to use a service account; otherwise they get no token of the
#: default account.
_ACCOUNT_FIELDS = ("serviceAccountName", "serviceAccount", "automountServiceAccountToken")


def pod_template(
    job: JobPlan,
    replica: Replica,
    meta: Meta,
    *,
    container: str,
    index: str | Mapping[str, Any],
    env: Mapping[str, str | Mapping[str, Any]] | None = None,
    command: Sequence[str] | None = None,
    ports: Sequence[Mapping[str, Any]] = (),
    restart_policy: str | None = None,
    calls_api: bool = False,
    base: Mapping[str, Any] | None = None,
) -> Manifest:
    """The template of a replica's pods: the user's ``pod_template``, overridden by the fields of the job.

    Variables of the user's template replace those of the kind, as the job's own variables do.

    :param job: the whole job.
    :param replica: the replica, or the first of several that share the template.
    :param meta: the metadata of the job's objects.
    :param container: the name that the training's container has to have.
    :param index: the replica's index in its group; a field reference (``{"fieldRef": ...}``) where pods share it.
    :param env: the variables of the kind, which the user's variables replace; a mapping is an EnvVarSource.
    :param command: what the container runs instead of the replica's command line.
    :param ports: of the container.
    :param restart_policy: None leaves it to the kind's controller.
    :param calls_api: whether the container itself calls the Kubernetes API, with a service account that the controller
        creates.
    :param base: the template to start from instead of the user's: a runtime's template, with the user's merged into it.
    """
    given = job.spec.pod_template or {}
    template = deepcopy(dict(given if base is None else base))
    metadata, spec = template.setdefault("metadata", {}), template.setdefault("spec", {})
    containers = spec.get("containers", [])
    train = training_container(containers, container)
    if replica.pod:
        lay_settings(template, train, replica.pod)
    place(template, job, replica, {JOB: meta.labels[JOB]})
    metadata["labels"] = {**metadata.get("labels", {}), **meta.labels, GROUP: replica.group}
    spec["terminationGracePeriodSeconds"] = math.ceil(job.spec.run_policy.grace_period_seconds)
    if restart_policy:
        spec["restartPolicy"] = restart_policy
    if not calls_api and spec.keys().isdisjoint(_ACCOUNT_FIELDS):
        spec["automountServiceAccountToken"] = False
    # The training's container is the first, so that tools that look at only one container look at this one.
    spec["containers"] = [train, *(each for each in containers if each is not train)]
    train["name"] = container
    _lay_replica(train, replica, command)
    lay_resources(spec, train, replica.resources)
    lay_share(metadata, replica.resources)
    own = {entry["name"] for entry in training_container(containers_of(given), container).get("env", ())}
    train["env"] = _environment(replica, _provided(job, replica, meta, index, env or {}), train.get("env", []), own)
    train["terminationMessagePath"] = TERMINATION_MESSAGE_PATH
    train["terminationMessagePolicy"] = "FallbackToLogsOnError"
    if ports:
        train["ports"] = [*train.get("ports", []), *map(dict, ports)]
    mount(template, replica.volumes, meta.name)
    function.mount(template, job, meta)
    lay_gang(template, job, meta.name)
    return template


def label_index(label: str) -> Manifest:
    """The field reference to a replica's index in a label of its pod."""
    return {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}


def containers_of(template: Mapping[str, Any] | None) -> list[Manifest]:
    """The containers of a pod template, in the order in which they are written.

    :param template: of the user, or of a runtime; None for no template.
    """
    containers: list[Manifest] = ((template or {}).get("spec") or {}).get("containers") or []
    return containers


def default_container(pod: Mapping[str, Any]) -> str | None:
    """The name of a pod's main container: the one that its annotation names, or else the first.

    :param pod: a pod, or a pod template.
    :return: None where it has no container.
    """
    names = [each.get("name") for each in containers_of(pod)]
    annotated = ((pod.get("metadata") or {}).get("annotations") or {}).get(_DEFAULT_CONTAINER)
    return annotated if annotated in names else next(iter(names), None)


def training_container(containers: Sequence[Manifest], name: str) -> Manifest:
    """The training's container in the user's template; an empty one where the template has none.

    :param containers: of a pod template.
    :param name: the name that the container has to have in its pod.
    """
    found = {entry.get("name"): entry for entry in containers}
    return found.get(name) or found.get(TRAINING_CONTAINER) or {}


def _lay_replica(container: Manifest, replica: Replica, command: Sequence[str] | None) -> None:
    if replica.image:
        container["image"] = replica.image
    _lay_command(container, replica, command)
    if replica.working_dir:
        container["workingDir"] = replica.working_dir


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


def _provided(
    job: JobPlan,
    replica: Replica,
    meta: Meta,
    index: str | Mapping[str, Any],
    env: Mapping[str, str | Mapping[str, Any]],
) -> dict[str, str | Mapping[str, Any]]:
    """The variables of the provider and of the kind."""
    return {
        "TRAINER_JOB_NAME": meta.name,
        "TRAINER_INDEX": index,
        "TRAINER_REPLICA": f"{replica.group}-$(TRAINER_INDEX)",
        RESULT_PATH_VARIABLE: TERMINATION_MESSAGE_PATH,
        # Python emits each line as it is written, even if the script does not flush.
        "PYTHONUNBUFFERED": "1",
        **function_environment(job, function.FOLDER),
        **env,
    }


def _environment(
    replica: Replica,
    provided: Mapping[str, str | Mapping[str, Any]],
    base: Sequence[Manifest],
    own: Collection[str],
) -> list[Manifest]:
    """All variables of the training.

    :param provided: the variables of the provider and of the kind.
    :param base: the variables of the template.
    :param own: the names of the variables in the template that the user wrote, and not a runtime.
    """
    theirs = [entry for entry in base if entry["name"] in own or entry["name"] not in provided]
    users = {*replica.env, *(entry["name"] for entry in theirs)}
    entries = [
        *(_variable(name, value) for name, value in provided.items() if name not in users),
        *(_variable(name, value_of(value)) for name, value in replica.env.items()),
        *(entry for entry in theirs if entry["name"] not in replica.env),
    ]
    return [dict(entry) for entry in in_order(entries)]


def _variable(name: str, value: str | Mapping[str, Any]) -> Manifest:
    return {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": dict(value)}
