"""Computes a replica's status from its pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from airflow_trainer_provider.job.diagnosis.causes import INIT, LOST_CONTAINER, ON_THE_WAY, SIDECAR
from airflow_trainer_provider.job.diagnosis.last_words import last_words
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.containers import ended_for_good, failed_sidecar, status_of, stuck_sidecar
from airflow_trainer_provider.kinds.status.deletion import order_of_deletion
from airflow_trainer_provider.kinds.status.pod_end import (
    asked_to_go_at,
    conditions,
    created_at,
    disruption_of,
    ended,
    how_it_ended,
    judged,
    last_change,
    lost,
    parse_time,
)

Stage = Literal["waiting", "running", "ended"]

#: Waiting reasons that only say that a container is not due to start yet.
_NOT_YET = (None, "PodInitializing")


@dataclass(frozen=True)
class PodState:
    """One pod of a replica.

    :param uid: of the pod.
    :param status: the status of the replica, according to this pod.
    :param stage: whether its training waits to run, runs, or has ended for good.
    :param scheduled: whether it has a node.
    :param created_at: when the pod was created.
    :param asked_to_go_at: when its deletion was requested.
    :param last_end: how the previous run ended, where the container was restarted.
    :param deletion_order: which of the pods whose deletion was requested within the same second came first; 0 where
        that is not known.
    :param disrupted_at: when its disruption began, if that was before its training ended.
    :param is_prepared: whether its node has mounted its volumes, and set up its network.
    :param has_succeeded: whether all its containers exited with 0, whatever has ended it.
    """

    uid: str
    status: ReplicaStatus
    stage: Stage
    scheduled: bool
    created_at: datetime
    asked_to_go_at: datetime | None = None
    last_end: ReplicaStatus | None = None
    deletion_order: int = 0
    disrupted_at: datetime | None = None
    is_prepared: bool = False
    has_succeeded: bool = False


def read_pod(pod: Manifest, blank: ReplicaStatus, name: str, *, gone: bool = False) -> PodState:
    """The state of a replica, as one of its pods shows it.

    :param pod: the pod, or the last version of a deleted pod.
    :param blank: the replica, without anything about its state.
    :param name: of the training's container.
    :param gone: whether the pod has been deleted.
    """
    container = status_of(pod, name)
    node = (pod.get("spec") or {}).get("nodeName")
    blank = blank.model_copy(update={"restarts": container.get("restartCount", 0), "node": node})
    last = _last_end(container)
    status, stage = _as_reported(blank, pod, container)
    if gone and stage != "ended":
        status, stage = (lost(status, pod) if stage == "running" else status), "ended"
    disruption = disruption_of(pod, status) if stage == "ended" else None
    asked_at = asked_to_go_at(pod, status.finished_at)
    if status.reason == "Completed":
        status, stage = _beside(status, stage, pod, name)
    return PodState(
        uid=pod["metadata"].get("uid") or "",
        status=status,
        stage=stage,
        scheduled=bool(node),
        created_at=created_at(pod),
        asked_to_go_at=asked_at,
        last_end=ended(blank, last) if last else None,
        deletion_order=order_of_deletion(pod),
        disrupted_at=disruption.at if disruption else None,
        is_prepared=_is_prepared(pod),
        has_succeeded=(pod.get("status") or {}).get("phase") == "Succeeded",
    )


def never_ready(status: ReplicaStatus, pod: Manifest) -> ReplicaStatus:
    """The status of a replica whose job starts once all its pods are ready, which this one can no longer become.

    :param status: according to the pod; one that names a reason is not changed.
    :param pod: the pod.
    """
    container = ended_for_good(pod)
    if status.reason is not None or container is None:
        return status
    end = ended(status, container["state"]["terminated"])
    said = _said_of_end(end, f"sidecar {container['name']}")
    message = f"{said}; the job starts once all its pods are ready, and this one can no longer become ready"
    return status.model_copy(update={"reason": f"{SIDECAR}{end.reason}", "message": message})


def failed_container(pod: Manifest, name: str) -> str:
    """The name of the container whose log says why a pod has failed; the training's container where no other one is the
    cause.

    :param pod: the pod.
    :param name: of the training's container.
    """
    blank = ReplicaStatus(group="", index=0)
    reason = read_pod(pod, blank, name).status.reason or ""
    if reason.startswith(SIDECAR) and (sidecar := failed_sidecar(pod, name)):
        return str(sidecar["name"])
    return next((init for init, _ in _inits(blank, pod)), name) if reason.startswith(INIT) else name


def _as_reported(blank: ReplicaStatus, pod: Manifest, container: Mapping[str, Any]) -> tuple[ReplicaStatus, Stage]:
    """The status of the replica as its pod reports it, whether the pod still exists or not.

    :param container: the status of the training's container.
    """
    state = container.get("state") or {}
    if state.get("terminated"):
        status = ended(blank, state["terminated"])
        # The end time of a container that its node lost is unknown.
        status = judged(status.model_copy(update={"finished_at": status.finished_at or last_change(pod)}), pod)
        return status, "waiting" if _starts_again(pod, status) else "ended"
    if _has_ended(pod):
        return judged(_ended_without_container(blank, pod), pod), "ended"
    if state.get("running"):
        began = state["running"].get("startedAt")
        return blank.model_copy(update={"started_at": parse_time(began) if began else None}), "running"
    return _waiting(blank, pod, state.get("waiting") or {}, _last_end(container)), "waiting"


def _is_prepared(pod: Manifest) -> bool:
    found = conditions(pod.get("status") or {})
    return any(each["type"] == "PodReadyToStartContainers" and each.get("status") == "True" for each in found)


def _has_ended(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _last_end(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The state in which the previous run of a container ended."""
    terminated: Mapping[str, Any] | None = (container.get("lastState") or {}).get("terminated")
    return terminated


def _ended_without_container(blank: ReplicaStatus, pod: Manifest) -> ReplicaStatus:
    """The end of a pod without a container's status: the kubelet rejected it, or its node removed its containers."""
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
    """The status of the init container that the pod waits for, or that has failed; None where all have completed."""
    return next((status for _, status in _inits(blank, pod)), None)


def _inits(blank: ReplicaStatus, pod: Manifest) -> Iterator[tuple[str, ReplicaStatus]]:
    for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
        status = _init_container(blank, pod, container)
        if status:
            yield container["name"], status


def _init_container(blank: ReplicaStatus, pod: Manifest, container: Mapping[str, Any]) -> ReplicaStatus | None:
    """The status of an init container; None where the pod does not wait for it, or not yet."""
    state = container.get("state") or {}
    said = f"init container {container['name']}"
    terminated, waiting = state.get("terminated"), state.get("waiting")
    if terminated:
        return None if terminated["exitCode"] == 0 else _failed_init(blank, terminated, said)
    if waiting and waiting.get("reason") not in _NOT_YET:
        last = _last_end(container)
        if last and last["exitCode"]:
            # It waits to be restarted, and its last end says more than that.
            message = _said_of_end(ended(blank, last), said)
        else:
            # Until its image is pulled, it waits with the reason ContainerCreating, or with an error of its image.
            message = ": ".join(filter(None, [said, waiting.get("message")]))
        return blank.model_copy(update={"reason": f"{INIT}{waiting['reason']}", "message": message})
    if state.get("running") and not (container.get("started") and _is_sidecar(pod, container["name"])):
        return blank.model_copy(update={"reason": "PodInitializing", "message": f"{said} runs"})
    return None


def _failed_init(blank: ReplicaStatus, terminated: Mapping[str, Any], said: str) -> ReplicaStatus:
    end = ended(blank, terminated)
    update = {"reason": f"{INIT}{end.reason}", "message": _said_of_end(end, said), "started_at": None}
    return end.model_copy(update=update)


def _said_of_end(end: ReplicaStatus, said: str) -> str:
    words = last_words(end.message)
    return f"{said} {how_it_ended(end)}" + (f": {words}" if words else "")


def _beside(status: ReplicaStatus, stage: Stage, pod: Manifest, name: str) -> tuple[ReplicaStatus, Stage]:
    """The status of a training that has succeeded, in a pod that another container may have made fail, or may keep from
    ending.
    """
    failed, stuck = failed_sidecar(pod, name), stuck_sidecar(pod, name)
    if failed:
        return _failed_beside(status, pod, failed), stage
    if stuck and stuck["state"]["waiting"].get("reason") not in ON_THE_WAY:
        waiting = stuck["state"]["waiting"]
        message = ": ".join(filter(None, [f"sidecar {stuck['name']}", waiting.get("message")]))
        update = {"reason": f"{SIDECAR}{waiting['reason']}", "message": message, "finished_at": None}
        return status.model_copy(update=update), "waiting"
    return status, stage


def _failed_beside(status: ReplicaStatus, pod: Manifest, sidecar: Mapping[str, Any]) -> ReplicaStatus:
    """The end of a training that succeeded, in a pod that failed because of another container: its end time is that of
    the other container.
    """
    end = ended(status, sidecar["state"]["terminated"])
    end = end.model_copy(update={"finished_at": end.finished_at or last_change(pod)})
    reason, message = f"{SIDECAR}{end.reason}", _said_of_end(end, f"sidecar {sidecar['name']}")
    if disruption := disruption_of(pod, end):
        reason, message = disruption.reason, disruption.message or ""
    elif end.reason == LOST_CONTAINER:
        reason = LOST_CONTAINER
    return status.model_copy(update={"reason": reason, "message": message or None, "finished_at": end.finished_at})


def _is_sidecar(pod: Manifest, name: str) -> bool:
    """Whether an init container keeps running beside the other containers, so that none of them waits for its end."""
    containers = pod["spec"].get("initContainers") or ()
    return any(container["name"] == name and container.get("restartPolicy") == "Always" for container in containers)


def _starts_again(pod: Manifest, status: ReplicaStatus) -> bool:
    """Whether the kubelet restarts a container that has ended."""
    if _has_ended(pod) or "deletionTimestamp" in pod["metadata"]:
        return False
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and status.exit_code != 0)
