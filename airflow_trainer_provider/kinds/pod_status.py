"""How a pod stands: from the object that Kubernetes has of it to a replica's status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from airflow_trainer_provider.job.causes import INIT
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.pod_end import (
    asked_to_go_at,
    conditions,
    created_at,
    ended,
    judged,
    last_change,
    lost,
    parse_time,
)

Stage = Literal["waiting", "running", "ended"]

#: Waiting reasons that only say that it is not a container's turn yet.
_NOT_YET = (None, "PodInitializing")


@dataclass(frozen=True)
class PodState:
    """One pod of a replica.

    :param status: the replica, as this pod has it.
    :param stage: whether its training waits to run, runs, or has ended for good.
    :param scheduled: whether it has a node.
    :param created_at: when the pod was made.
    :param asked_to_go_at: when somebody asked for its deletion.
    :param last_end: how the run before the present one ended, where its container was started again.
    """

    status: ReplicaStatus
    stage: Stage
    scheduled: bool
    created_at: datetime
    asked_to_go_at: datetime | None = None
    last_end: ReplicaStatus | None = None


def replica_status(pod: Manifest, group: str, index: int, rank: int | None) -> ReplicaStatus:
    """How a replica stands by its pod.

    :param pod: the pod.
    :param group: the replica's group.
    :param index: its index there.
    :param rank: its rank, where it has one.
    """
    return read_pod(pod, group, index, rank).status


def read_pod(pod: Manifest, group: str, index: int, rank: int | None, *, gone: bool = False) -> PodState:
    """All that a pod tells of its replica. The training's container is the pod's first.

    :param pod: the pod, or the last version of one that is gone.
    :param group: the replica's group.
    :param index: its index there.
    :param rank: its rank, where it has one.
    :param gone: whether it has been deleted.
    """
    found = pod.get("status") or {}
    container = _own_container(pod, found)
    blank = ReplicaStatus(group=group, index=index, rank=rank, restarts=container.get("restartCount", 0))
    state = container.get("state") or {}
    last = (container.get("lastState") or {}).get("terminated")
    phase = found.get("phase")
    if state.get("terminated"):
        status = ended(blank, state["terminated"])
        # Of a container that its node lost, nobody knows when.
        status = judged(status.model_copy(update={"finished_at": status.finished_at or last_change(pod)}), pod)
        stage: Stage = "waiting" if _starts_again(pod, status) and not gone else "ended"
    elif phase in ("Failed", "Succeeded"):
        status, stage = judged(_ended_without_container(blank, pod), pod), "ended"
    elif state.get("running"):
        began = state["running"].get("startedAt")
        started_at = parse_time(began) if began else None
        status, stage = blank.model_copy(update={"started_at": started_at}), "running"
    else:
        status, stage = _waiting(blank, pod, state.get("waiting") or {}, last), "waiting"
    if gone and stage != "ended":
        status, stage = (lost(status, pod) if stage == "running" else status), "ended"
    return PodState(
        status=status,
        stage=stage,
        scheduled=bool((pod.get("spec") or {}).get("nodeName")),
        created_at=created_at(pod),
        asked_to_go_at=asked_to_go_at(pod, status.finished_at),
        last_end=ended(blank, last) if last else None,
    )


def _own_container(pod: Manifest, status: Mapping[str, Any]) -> Mapping[str, Any]:
    name = pod["spec"]["containers"][0]["name"]
    found: Sequence[Mapping[str, Any]] = status.get("containerStatuses") or ()
    return next((container for container in found if container["name"] == name), {})


def _ended_without_container(blank: ReplicaStatus, pod: Manifest) -> ReplicaStatus:
    """The end of a pod that says nothing of its container: it was not let in, or its node cleared it away."""
    found = pod.get("status") or {}
    finished_at = last_change(pod)
    if found["phase"] == "Succeeded":
        return blank.model_copy(update={"exit_code": 0, "reason": "Completed", "finished_at": finished_at})
    init = _init(blank, pod)
    if init and init.reason:
        return init.model_copy(update={"finished_at": init.finished_at or finished_at})
    update = {"reason": found.get("reason") or "Error", "message": found.get("message"), "finished_at": finished_at}
    return blank.model_copy(update=update)


def _waiting(
    blank: ReplicaStatus, pod: Manifest, waiting: Mapping[str, Any], last: Mapping[str, Any] | None
) -> ReplicaStatus:
    """Why a container does not run."""
    scheduled = next(
        (condition for condition in conditions(pod.get("status") or {}) if condition["type"] == "PodScheduled"), {}
    )
    if scheduled.get("status") == "False":
        return blank.model_copy(update={"reason": scheduled.get("reason"), "message": scheduled.get("message")})
    init = _init(blank, pod) if waiting.get("reason") in _NOT_YET else None
    if init:
        return init
    message = waiting.get("message")
    status = blank.model_copy(update={"reason": waiting.get("reason"), "message": message})
    if last:
        end = ended(blank, last)
        return status.model_copy(update={"exit_code": end.exit_code, "signal": end.signal})
    return status


def _init(blank: ReplicaStatus, pod: Manifest) -> ReplicaStatus | None:
    """The init container that the pod waits for, or has failed with; None where all have done their work."""
    for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
        state = container.get("state") or {}
        said = f"init container {container['name']}"
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated and terminated["exitCode"] == 0:
            continue
        if terminated:
            end = ended(blank, terminated)
            how = f"was ended by {end.signal}" if end.signal else f"ended with exit code {end.exit_code}"
            message = f"{said} {how}" + (f": {end.message}" if end.message else "")
            return end.model_copy(update={"reason": f"{INIT}{end.reason}", "message": message, "started_at": None})
        if waiting and waiting.get("reason") not in _NOT_YET:
            # Until its image is there it waits for ContainerCreating, or an error of its image.
            message = ": ".join(filter(None, [said, waiting.get("message")]))
            return blank.model_copy(update={"reason": f"{INIT}{waiting['reason']}", "message": message})
        if state.get("running") and not (container.get("started") and _is_sidecar(pod, container["name"])):
            return blank.model_copy(update={"reason": "PodInitializing", "message": f"{said} runs"})
    return None


def _is_sidecar(pod: Manifest, name: str) -> bool:
    """Whether an init container stays beside the others, so that none of them waits for its end."""
    containers = pod["spec"].get("initContainers") or ()
    return any(container["name"] == name and container.get("restartPolicy") == "Always" for container in containers)


def _starts_again(pod: Manifest, status: ReplicaStatus) -> bool:
    """Whether the kubelet starts a container that has ended again."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded") or "deletionTimestamp" in pod["metadata"]:
        return False
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and status.reason != "Completed")
