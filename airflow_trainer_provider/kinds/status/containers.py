"""Finds the training's container in a pod, and the other container that keeps the pod from succeeding.

Webhooks, such as those of service meshes, add containers to pods, and may put them first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects.pod import default_container


def training_container_of(kind: Kind, main: Manifest, pod: Manifest) -> str:
    """The name of the training's container in a job's pod.

    :param kind: of the job.
    :param main: its main object.
    :param pod: the pod.
    """
    ref = kind.replica_ref(pod, main)
    name = kind.container(main, ref.group) if ref else None
    if any(each["name"] == name for each in pod["spec"]["containers"]):
        return str(name)
    return default_container(pod) or ""


def failed_sidecar(pod: Manifest, training: str) -> Mapping[str, Any] | None:
    """The status of the container that made a pod fail although its training has succeeded; None where there is none.

    :param pod: the pod.
    :param training: the name of the training's container.
    """
    if (pod.get("status") or {}).get("phase") != "Failed" or _exit_code(status_of(pod, training)) != 0:
        return None
    return min((each for each in statuses(pod) if _exit_code(each)), key=_end_order, default=None)


def stuck_sidecar(pod: Manifest, training: str) -> Mapping[str, Any] | None:
    """The status of the container that has never started, and so keeps a pod from ending although its training has
    succeeded; None where there is none.

    :param pod: the pod.
    :param training: the name of the training's container.
    """
    if (pod.get("status") or {}).get("phase") != "Pending" or _exit_code(status_of(pod, training)) != 0:
        return None
    return next((each for each in statuses(pod) if "waiting" in (each.get("state") or {})), None)


def ended_for_good(pod: Manifest) -> Mapping[str, Any] | None:
    """The status of a container that has ended and that the kubelet does not start again, so that a pod with other
    containers that still run can no longer become ready; None where there is none.

    :param pod: the pod.
    """
    if (pod.get("status") or {}).get("phase") != "Running":
        return None
    policies = {each["name"]: each.get("restartPolicy") for each in pod["spec"]["containers"]}
    default = pod["spec"].get("restartPolicy") or "Always"
    ended = (each for each in statuses(pod) if _stays_ended(each, policies.get(each["name"]) or default))
    return min(ended, key=_end_order, default=None)


def _stays_ended(status: Mapping[str, Any], policy: str) -> bool:
    code = _exit_code(status)
    return code is not None and (policy == "Never" or (policy == "OnFailure" and code == 0))


def has_run(pod: Manifest, name: str) -> bool:
    """Whether one of a pod's containers has run, so that there is, or was, a log of it.

    :param pod: the pod.
    :param name: of the container.
    """
    inits: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("initContainerStatuses") or ()
    status = next((each for each in (*statuses(pod), *inits) if each["name"] == name), {})
    states = {**(status.get("state") or {}), **(status.get("lastState") or {})}
    return "running" in states or "terminated" in states


def status_of(pod: Manifest, name: str) -> Mapping[str, Any]:
    """The status of one of a pod's containers; empty where it has none yet.

    :param pod: the pod.
    :param name: of the container.
    """
    return next((container for container in statuses(pod) if container["name"] == name), {})


def statuses(pod: Manifest) -> Sequence[Mapping[str, Any]]:
    """The statuses of a pod's containers, without those of init containers.

    :param pod: the pod.
    """
    found: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("containerStatuses") or ()
    return found


def _end_order(status: Mapping[str, Any]) -> tuple[bool, str]:
    at = status["state"]["terminated"].get("finishedAt")
    # The end time of a container that its node lost is unknown.
    return at is None, at or ""


def _exit_code(status: Mapping[str, Any]) -> int | None:
    code: int | None = ((status.get("state") or {}).get("terminated") or {}).get("exitCode")
    return code
