"""The facts about a job: its resources, image, tools and cost; and the actions that are possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_trainer_provider.plugins.view.model.progress import checkpoint_of
from airflow_trainer_provider.plugins.view.model.state import JobState
from airflow_trainer_provider.plugins.view.model.values import (
    mapping,
    moment,
    number,
    seconds_between,
    text,
    whole,
)
from airflow_trainer_provider.text.urls import is_web_url

_HOUR = 3600


def job_of(state: JobState) -> dict[str, Any] | None:
    """The job's names; None if there is no job.

    :param state: the job's state.
    """
    job, request = state.job, state.request
    if not job:
        return None
    return {
        "name": text(job.get("name")),
        "uid": text(job.get("uid")),
        "backend": text(job.get("backend")),
        "framework": text(job.get("framework")),
        "namespace": text(request.get("namespace")),
        "queue": state.queue,
        "pool": None,
        "owner": whole(job.get("owner")),
        "leader": text(job.get("leader")),
    }


def facts_of(state: JobState, eta: Mapping[str, Any] | None) -> dict[str, Any]:
    """The resources, image and tools of the job.

    :param state: the job's state.
    :param eta: the expected end; see :func:`~airflow_trainer_provider.plugins.view.model.progress.progress_of`.
    """
    request, asked = state.request, mapping(state.request.get("requested"))
    processes = request.get("processes_per_node")
    return {
        "size": {
            "nodes": whole(request.get("nodes")) or len(state.replicas) or None,
            "processes_per_node": text(processes) or whole(processes),
            "gpus": whole(request.get("gpus")),
        },
        "requested": {
            "gpu": number(asked.get("gpu")),
            "gpu_kind": None,
            "cpu": number(asked.get("cpu")),
            "memory_bytes": whole(asked.get("memory_bytes")),
        },
        "peak": _peak(state),
        "gpu_hours": _gpu_hours(state, eta),
        "image": {"reference": text(request.get("image")), "digest": None},
        "resumed_from": checkpoint_of(state.progress, "resumed_from"),
        "last_checkpoint": checkpoint_of(state.progress),
        "tools": tools_of(state),
    }


def tools_of(state: JobState) -> list[dict[str, str]]:
    """The addresses of the job's tools that a browser may open.

    :param state: the job's state.
    """
    found = {**mapping(state.job.get("tools")), **mapping(state.request.get("tools"))}
    # An address whose host is not known yet has a placeholder, and so is not a valid URL.
    return [
        {"name": str(name), "href": address}
        for name, address in found.items()
        if isinstance(address, str) and is_web_url(address)
    ]


def _peak(state: JobState) -> dict[str, Any]:
    rows = [(amount, row) for row in state.replicas if (amount := whole(row.get("peak_memory_bytes"))) is not None]
    most, replica = max(rows, key=lambda each: each[0], default=(None, None))
    return {
        "memory_bytes": most,
        "memory_replica": text(replica.get("name")) if replica else None,
        "gpu_memory_bytes": None,
    }


def _gpu_hours(state: JobState, eta: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The GPU hours since the start of the job; None if it requests no GPU, or if the values are unknown."""
    gpus = whole(state.request.get("gpus"))
    seconds = seconds_between(state.started_at, state.last_known)
    if not gpus or seconds is None:
        return None
    ends = (moment(eta.get("earliest")), moment(eta.get("latest"))) if eta else ()
    total = [gpu_hours(gpus, left) for end in ends if (left := seconds_between(state.started_at, end)) is not None]
    return {"so_far": gpu_hours(gpus, seconds), "estimated_total": total or None}


def gpu_hours(gpus: int, seconds: float) -> float:
    """A duration on several GPUs, in hours of one GPU.

    :param gpus: the number of GPUs.
    :param seconds: the duration.
    """
    return round(gpus * seconds / _HOUR, 1)


def actions_of(state: JobState, may_edit: bool) -> dict[str, Any]:
    """The actions on the job: whether each is allowed, and the reason if it is not.

    :param state: the job's state.
    :param may_edit: whether the viewer may edit the task instance.
    """
    return {name: _action(name, state, may_edit) for name in ("suspend", "resume", "stop")}


def why_not(action: str, state: JobState) -> str | None:
    """Why an action is not possible; None if it is.

    :param action: ``suspend``, ``resume`` or ``stop``.
    :param state: the job's state.
    """
    if not state.job or state.is_earlier_try:
        return "There is no job."
    if not state.is_active:
        return "The task does not wait for its job." if state.is_released else "The job has ended."
    if action == "stop":
        return None
    if not can_be_suspended(state):
        return f"The {text(state.job.get('backend'))} backend cannot suspend jobs."
    is_suspended = state.phase == "suspended"
    reasons = {("suspend", True): "The job is suspended already.", ("resume", False): "The job is not suspended."}
    return reasons.get((action, is_suspended))


def can_be_suspended(state: JobState) -> bool:
    """Whether the job's backend can suspend jobs.

    :param state: the job's state.
    """
    return state.request.get("can_suspend") is not False


def _action(name: str, state: JobState, may_edit: bool) -> dict[str, Any]:
    why = why_not(name, state) or (None if may_edit else "You may not edit this task instance.")
    return {"allowed": why is None, "why": why}
