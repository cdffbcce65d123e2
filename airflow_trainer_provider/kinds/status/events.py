"""Finds out from a job's events and its Kueue Workload why the job has no pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_trainer_provider.job.diagnosis.causes import NODE_WARNINGS
from airflow_trainer_provider.job.diagnosis.refused_pod import refused_pod, stem_of
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.labels import QUEUE
from airflow_trainer_provider.kinds.status.pod_end import parse_time

#: The field selectors of the events that are read here. A request has one selector.
WARNINGS = "type=Warning"
SELECTORS = (WARNINGS, "reason=Pulling")
_WORKLOAD = "Workload"
#: Part of the reason of warnings that only comment on the pod template, such as SettedPodTemplateRestartPolicy.
_REMARK = "PodTemplate"
#: Reasons of warnings that report an end, and not why a pod cannot be created: those of the Job controller and of
#: JobSet. The messages of JobSet also name the action of its failure policy that applies.
_ENDS = frozenset(
    {"BackoffLimitExceeded", "DeadlineExceeded", "FailedJobs", "JobSetFailed", "PodFailurePolicy", "ReachedMaxRestarts"}
)
_ACTION = "failure policy action"


@dataclass(frozen=True)
class Warned:
    """A warning about one of a job's objects.

    :param reason: one CamelCase word.
    :param message: details about the reason, for users.
    :param at: when it was last emitted; None where the event has no time.
    :param still_missing: whether the object that a controller could not create is certainly missing, so that no later
        warning is needed.
    """

    reason: str
    message: str | None
    at: datetime | None
    still_missing: bool = False


def last_warning(
    events: Sequence[Manifest], since: datetime | None = None, created: Collection[str] = ()
) -> Warned | None:
    """The last warning of a controller, which often reports nowhere else what it cannot create.

    :param events: of the job's objects, newest last.
    :param since: only a warning of this time or later; None for any. Kubernetes gives both times in whole seconds.
    :param created: names of existing pods that no other pod replaces: a refusal to create one of them no longer holds.
    """
    found = [_warned(event) for event in events if _is_warning(event) and not _is_of_pod(event)]
    found = [each for each in found if since is None or (each.at and each.at >= since)]
    stems = set(map(stem_of, created))
    return next((each for each in reversed(found) if refused_pod(each.message) not in stems), None)


def pod_warnings(events: Sequence[Manifest]) -> Mapping[str, Warned]:
    """The warnings about why nodes cannot start the containers of pods: UID of the pod -> the last warning.

    :param events: of the job's objects, newest last.
    """
    found = (event for event in events if _is_warning(event) and _is_of_pod(event) and event["reason"] in NODE_WARNINGS)
    return {event["involvedObject"].get("uid") or "": _warned(event) for event in found}


def pulls(events: Sequence[Manifest]) -> Mapping[str, str]:
    """The images that nodes pull for pods: UID of the pod -> the kubelet's message on the last one.

    :param events: of the job's objects, newest last.
    """
    found = (event for event in events if event["reason"] == "Pulling" and _is_of_pod(event))
    return {event["involvedObject"].get("uid") or "": _message_of(event) or "" for event in found}


def _is_warning(event: Manifest) -> bool:
    reason = event["reason"]
    is_of_end = reason in _ENDS or _ACTION in (_message_of(event) or "")
    return event.get("type") == "Warning" and _REMARK not in reason and not is_of_end


def _is_of_pod(event: Manifest) -> bool:
    return bool((event.get("involvedObject") or {}).get("kind") == "Pod")


def _warned(event: Manifest) -> Warned:
    series = event.get("series") or {}
    at = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    return Warned(event["reason"], _message_of(event), parse_time(at) if at else None)


def _message_of(event: Manifest) -> str | None:
    # events.k8s.io calls it a note.
    return event.get("message") or event.get("note")


def queued_by_kueue(main: Manifest) -> bool:
    """Whether a queue of Kueue decides when the job runs."""
    return queue_of(main) is not None


def queue_of(main: Manifest) -> str | None:
    """The queue of Kueue that decides when the job runs; None where there is none."""
    name: str | None = (main["metadata"].get("labels") or {}).get(QUEUE)
    return name


def queue_message(children: Sequence[Manifest], events: Sequence[Manifest]) -> str | None:
    """Why the queue has not admitted the job, in Kueue's words.

    :param children: objects of the job, including its Workload where it is known.
    :param events: of these objects, newest last.
    """
    for workload in _workloads(children):
        for kind in ("QuotaReserved", "Admitted"):
            condition = _condition(workload, kind)
            if condition and condition["status"] == "False" and condition.get("message"):
                return str(condition["message"])
    pending = (event for event in reversed(events) if event.get("reason") == "Pending")
    return next(map(_message_of, pending), None)


def released_at(children: Sequence[Manifest]) -> datetime | None:
    """When the queue admitted the job, and so released it to run; None where that is unknown.

    :param children: objects of the job, including its Workload where it is known.
    """
    for workload in _workloads(children):
        condition = _condition(workload, "Admitted")
        if condition and condition["status"] == "True":
            return parse_time(condition["lastTransitionTime"])
    return None


def without_workloads(children: Sequence[Manifest]) -> list[Manifest]:
    """A job's own objects, without its Workloads.

    :param children: objects of the job, including its Workloads where they are known.
    """
    return [child for child in children if child.get("kind") != _WORKLOAD]


def is_deactivated(children: Sequence[Manifest]) -> bool:
    """Whether a Workload of the job is deactivated, which keeps the job out of its queue and so from running.

    :param children: objects of the job, including its Workloads where they are known.
    """
    return any((workload.get("spec") or {}).get("active") is False for workload in _workloads(children))


def _workloads(children: Sequence[Manifest]) -> list[Manifest]:
    return [child for child in children if child.get("kind") == _WORKLOAD]


def _condition(manifest: Manifest, kind: str) -> Manifest | None:
    conditions: list[Manifest] = (manifest.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), None)
