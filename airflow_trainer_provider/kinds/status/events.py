"""What a job's events and its Kueue workload say of why it has no pods."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.labels import QUEUE
from airflow_trainer_provider.kinds.status.pod_end import parse_time

_WORKLOAD = "Workload"
#: Part of the reasons of warnings that only remark on the pod template: SettedPodTemplateRestartPolicy.
_REMARK = "PodTemplate"


def last_warning(events: Sequence[Manifest]) -> tuple[str, str | None] | None:
    """Reason and message of the last warning; what a controller cannot create, it often says nowhere else.

    :param events: of the job's objects, newest last.
    """
    warnings = (event for event in reversed(events) if event.get("type") == "Warning")
    event = next((event for event in warnings if _REMARK not in event["reason"]), None)
    # events.k8s.io calls the message a note.
    return (event["reason"], event.get("message") or event.get("note")) if event else None


def queued_by_kueue(main: Manifest) -> bool:
    """Whether a queue of Kueue decides when the job runs."""
    return queue_of(main) is not None


def queue_of(main: Manifest) -> str | None:
    """The queue of Kueue that decides when the job runs; None where there is none."""
    name: str | None = (main["metadata"].get("labels") or {}).get(QUEUE)
    return name


def queue_message(children: Sequence[Manifest], events: Sequence[Manifest]) -> str | None:
    """Why the queue does not let the job go, in Kueue's words.

    :param children: objects of the job; its Workload among them, where it is known.
    :param events: of these, newest last.
    """
    for workload in _workloads(children):
        for kind in ("QuotaReserved", "Admitted"):
            condition = _condition(workload, kind)
            if condition and condition["status"] == "False" and condition.get("message"):
                return str(condition["message"])
    pending = (event for event in reversed(events) if event.get("reason") == "Pending")
    return next((event.get("message") or event.get("note") for event in pending), None)


def let_go_at(children: Sequence[Manifest]) -> datetime | None:
    """When the queue let the job go; None where that is not known.

    :param children: objects of the job; its Workload among them, where it is known.
    """
    for workload in _workloads(children):
        condition = _condition(workload, "Admitted")
        if condition and condition["status"] == "True":
            return parse_time(condition["lastTransitionTime"])
    return None


def without_workloads(children: Sequence[Manifest]) -> list[Manifest]:
    """A job's own objects.

    :param children: objects of the job; its Workloads among them, where they are known.
    """
    return [child for child in children if child.get("kind") != _WORKLOAD]


def is_deactivated(children: Sequence[Manifest]) -> bool:
    """Whether a Workload of the job is deactivated, which keeps the job from its queue, and with that from running.

    :param children: objects of the job; its Workloads among them, where they are known.
    """
    return any((workload.get("spec") or {}).get("active") is False for workload in _workloads(children))


def _workloads(children: Sequence[Manifest]) -> list[Manifest]:
    return [child for child in children if child.get("kind") == _WORKLOAD]


def _condition(manifest: Manifest, kind: str) -> Manifest | None:
    conditions: list[Manifest] = (manifest.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), None)
