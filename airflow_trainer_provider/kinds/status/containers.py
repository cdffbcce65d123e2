"""Which of a pod's containers is the training's, and which of them has failed.

Webhooks, as those of service meshes, add containers to pods, and may put theirs first.
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


def failed_container_of(pod: Manifest, training: str) -> str:
    """The name of the container whose log says why a pod has failed; the training's, where no other one has.

    :param pod: the pod.
    :param training: the name of the training's container.
    """
    state = status_of(pod, training).get("state") or {}
    if "running" in state or "terminated" in state:
        failed = failed_sidecar(pod, training)
    else:
        failed = next(filter(_has_failed, (pod.get("status") or {}).get("initContainerStatuses") or ()), None)
    return str(failed["name"]) if failed else training


def failed_sidecar(pod: Manifest, training: str) -> Mapping[str, Any] | None:
    """The status of the container that has failed a pod whose training has succeeded; None where that is not so.

    :param pod: the pod.
    :param training: the name of the training's container.
    """
    if (pod.get("status") or {}).get("phase") != "Failed" or _exit_code(status_of(pod, training)) != 0:
        return None
    failed = [each for each in statuses(pod) if _exit_code(each)]
    return min(failed, key=lambda each: each["state"]["terminated"].get("finishedAt") or "", default=None)


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


def _has_failed(status: Mapping[str, Any]) -> bool:
    ends = ((status.get(name) or {}).get("terminated") or {} for name in ("state", "lastState"))
    return any(end.get("exitCode") for end in ends)


def _exit_code(status: Mapping[str, Any]) -> int | None:
    code: int | None = ((status.get("state") or {}).get("terminated") or {}).get("exitCode")
    return code
