"""Determines how a pod's training ended, and what ended it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from airflow_trainer_provider.job.diagnosis.causes import LOST_CONTAINER, OUT_OF_MEMORY
from airflow_trainer_provider.job.result import read_result
from airflow_trainer_provider.job.status import SIGNAL_BASE, ReplicaStatus, signal_name
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.deletion import FIRST_DELETION

#: The signals with which Kubernetes ends a container.
_STOP_SIGNALS = ("SIGTERM", "SIGKILL")


def ended(blank: ReplicaStatus, terminated: Mapping[str, Any]) -> ReplicaStatus:
    """How a container ended, according to its own state.

    :param blank: the replica, without anything about its state.
    :param terminated: the container's state.
    """
    code = terminated["exitCode"]
    reason = terminated.get("reason") or ("Completed" if code == 0 else "Error")
    name = signal_name(terminated.get("signal") or code - SIGNAL_BASE)
    # The exit code of a container that its node lost is made up.
    unknown = reason == LOST_CONTAINER
    return blank.model_copy(
        update={
            "exit_code": None if name or unknown else code,
            "signal": None if unknown else name,
            "reason": reason,
            # The message of a container that succeeded is its result.
            "message": (terminated.get("message") or "").strip() or None if code else None,
            # A container that could not be started "started" in 1970.
            "started_at": None if reason == "StartError" else _time(terminated.get("startedAt")),
            "finished_at": _time(terminated.get("finishedAt")),
        }
    )


def how_it_ended(end: ReplicaStatus) -> str:
    """The words for a container's end, e.g. ``ended with exit code 1``.

    :param end: of a container that has ended.
    """
    return f"was ended by {end.signal}" if end.signal else f"ended with exit code {end.exit_code}"


@dataclass(frozen=True)
class Disruption:
    """The disruption of a pod before its training had ended.

    :param at: when the disruption began.
    :param reason: one CamelCase word, e.g. ``EvictionByEvictionAPI``; ``Stopped`` where only the deletion of the pod is
        known.
    :param message: details about the reason, for users.
    """

    at: datetime
    reason: str
    message: str | None = None


def judged(status: ReplicaStatus, pod: Manifest) -> ReplicaStatus:
    """The end of a container, with the cause that its pod reports."""
    if status.reason == OUT_OF_MEMORY:
        return status
    found = pod.get("status") or {}
    if found.get("phase") == "Failed" and found.get("reason"):
        return status.model_copy(update={"reason": found["reason"], "message": found.get("message") or status.message})
    disruption = disruption_of(pod, status)
    if disruption is None:
        return status
    return status.model_copy(update={"reason": disruption.reason, "message": disruption.message})


def disruption_of(pod: Manifest, end: ReplicaStatus) -> Disruption | None:
    """The disruption that ended a pod's training, whatever its exit code; None where the training ended by itself.

    :param pod: the pod.
    :param end: of its container.
    """
    if end.finished_at is None or (end.exit_code == 0 and _has_returned(pod)):
        return None
    condition = _disruption(pod.get("status") or {})
    if condition and end.finished_at >= _time_of(condition):
        return Disruption(_time_of(condition), condition["reason"], condition.get("message"))
    asked = asked_to_go_at(pod, end.finished_at)
    return Disruption(asked, "Stopped") if asked and _came_first(asked, pod, end) else None


def _has_returned(pod: Manifest) -> bool:
    """Whether the training is a function that has returned: it ran to its end, although its pod was disrupted."""
    states = [each.get("state") or {} for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    messages = [(state.get("terminated") or {}).get("message") or "" for state in states]
    results = [read_result(message.encode()) for message in messages]
    return any(result.function is not None and result.error is None for result in results)


def _came_first(asked: datetime, pod: Manifest, end: ReplicaStatus) -> bool:
    """Whether a deletion was requested before the container ended. Times are in whole seconds."""
    assert end.finished_at is not None
    # The deletion of a pod that has ended has no grace period.
    metadata = pod["metadata"]
    was_running = FIRST_DELETION in metadata or bool(metadata.get("deletionGracePeriodSeconds"))
    if end.exit_code == 0:
        # Where only its deletion is known, it has succeeded.
        return was_running and asked <= end.finished_at
    # Within the same second, the deletion came first if a signal ended the container, or if the watch saw the pod run
    # after the deletion. A container that its node has lost has not reported a failure.
    was_seen = FIRST_DELETION in metadata
    is_stopped = was_seen or end.signal in _STOP_SIGNALS or (was_running and end.reason == LOST_CONTAINER)
    return asked < end.finished_at or (asked == end.finished_at and is_stopped)


def lost(status: ReplicaStatus, pod: Manifest) -> ReplicaStatus:
    """The status of a pod that was deleted before its end was reported."""
    disruption = _disruption(pod.get("status") or {})
    if disruption:
        update = {"reason": disruption["reason"], "message": disruption.get("message")}
        return status.model_copy(update={**update, "finished_at": _time_of(disruption)})
    return status.model_copy(
        update={"reason": "Stopped", "finished_at": _time(pod["metadata"].get("deletionTimestamp"))}
    )


def conditions(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The conditions in a pod's status.

    :param status: of the pod.
    """
    found: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return found


def _disruption(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition that says why the cluster itself disrupts the pod."""
    return next(
        (each for each in conditions(status) if each["type"] == "DisruptionTarget" and each["status"] == "True"), None
    )


def last_change(pod: Manifest) -> datetime:
    """When the pod's conditions changed last."""
    found = pod.get("status") or {}
    changes = [_time_of(condition) for condition in conditions(found) if condition.get("lastTransitionTime")]
    return max(changes, default=created_at(pod))


def asked_to_go_at(pod: Manifest, finished_at: datetime | None) -> datetime | None:
    """When the pod's deletion was requested; None where it was not.

    :param pod: the pod.
    :param finished_at: when its container ended, where it has.
    """
    metadata = pod["metadata"].get(FIRST_DELETION) or pod["metadata"]
    by = _time(metadata.get("deletionTimestamp"))
    grace = metadata.get("deletionGracePeriodSeconds")
    if by and finished_at and not grace:
        # The kubelet's own request to delete the ended pod has replaced the first request and its time.
        return min(by, finished_at)
    # deletionTimestamp is the time by which the pod has to be gone.
    return by and by - timedelta(seconds=grace or 0)


def created_at(pod: Manifest) -> datetime:
    """When the pod was created."""
    return parse_time(pod["metadata"]["creationTimestamp"])


def _time_of(condition: Mapping[str, Any]) -> datetime:
    return parse_time(condition["lastTransitionTime"])


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def parse_time(text: str) -> datetime:
    """A time as Kubernetes writes it, e.g. ``2026-01-01T00:00:00Z``."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
