"""Why a job waits, as far as this is known without a request to the cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from statistics import median
from typing import Any

from airflow_trainer_provider.job.queue.place import Estimate, QueuePlace, Shortage, unit_of
from airflow_trainer_provider.plugins.view.model.state import JobState
from airflow_trainer_provider.plugins.view.model.values import iso, later, moment, number, seconds_between

#: The scheduler's message, e.g. ``0/212 nodes are available: 4 node(s) were unschedulable, 208 Insufficient cpu.``
_NODES = re.compile(r"\d+/(?P<total>\d+) nodes are available: (?P<reasons>[^.]*(?:\.\S[^.]*)*)")
_REASON = re.compile(r"(?P<count>\d+) (?:node\(s\) )?(?P<why>.+)")
#: The place of a job without a queue, or before the queue was read.
_NO_PLACE = QueuePlace(
    name="", estimate_why="The position in the queue and the ends of the running jobs are not known."
)
_TOO_LATE = "The job should have started by now; what was seen of the queue does not hold any more."
#: The quantile of the earlier waits that is shown as the long wait.
_MOST = 0.9


def wait_of(state: JobState, waits: Sequence[float]) -> dict[str, Any]:
    """Why a job waits, and how long earlier runs have waited.

    :param state: the job's state.
    :param waits: the seconds that the jobs of earlier runs have waited.
    """
    return {
        "kind": "queue" if state.queue or state.place else "nodes",
        "queue": state.place.name if state.place else state.queue,
        "since": iso(state.queued_at),
        "message": _message(state),
        "enough": [],
        "nodes": nodes_by_reason(_message(state)),
        "history": _history(state, waits),
        **_place(state.place or _NO_PLACE, state.as_of),
        **_gives_up(state),
    }


def _place(place: QueuePlace, as_of: datetime | None) -> dict[str, Any]:
    """The position, the number of jobs behind it, the missing resources, and when the job may start."""
    estimate = _estimate(place.estimate, as_of) if place.estimate else None
    is_counted = place.position is not None and place.length is not None
    return {
        "position": place.position,
        "length": place.length,
        "behind": max(0, (place.length or 0) - (place.position or 0)) if is_counted else None,
        "cluster_queue": place.cluster_queue,
        "cluster_position": place.cluster_position,
        "missing": [_shortage(each) for each in place.missing],
        "estimate": estimate,
        "estimate_why": None if estimate else place.estimate_why or _TOO_LATE,
    }


def _shortage(shortage: Shortage) -> dict[str, Any]:
    """A shortage in common units. A resource flavor of Kueue is shown as a pool of nodes."""
    unit, size = unit_of(shortage.resource)
    amounts = {name: getattr(shortage, name) for name in ("total", "used", "free", "needed")}
    scaled = {name: None if value is None else round(value / size, 2) for name, value in amounts.items()}
    return {"resource": unit, "pool": shortage.flavor, **scaled}


def _estimate(estimate: Estimate, as_of: datetime | None) -> dict[str, Any] | None:
    """The part of the estimated range that lies in the future; None if the range has passed."""
    earliest, latest = moment(estimate.earliest), moment(estimate.latest)
    if earliest is None or latest is None or (as_of and latest < as_of):
        return None
    return {
        "earliest": iso(max(earliest, as_of) if as_of else earliest),
        "latest": iso(latest),
        "basis": estimate.basis,
    }


def nodes_by_reason(message: str | None) -> dict[str, Any] | None:
    """How many nodes do not fit, by reason; None if the message is not the scheduler's.

    :param message: the message of the job or of a replica.
    """
    found = _NODES.search(message or "")
    if not found:
        return None
    rows = [_REASON.fullmatch(part.strip()) for part in found["reasons"].split(", ")]
    known = [(int(row["count"]), row["why"].strip()) for row in rows if row]
    if not known:
        return None
    return {
        "total": int(found["total"]),
        "rows": [{"count": each, "why": why, "say": _say(why)} for each, why in known],
    }


def _say(why: str) -> str:
    """The scheduler's reason in words for users who do not know the scheduler."""
    if why.startswith("Insufficient "):
        return f"not enough {why.removeprefix('Insufficient ')} free"
    if "unschedulable" in why:
        return "take no new pods (cordoned)"
    if "taint" in why:
        return "have a taint that the job does not tolerate"
    if "affinity" in why or "selector" in why:
        return "are not among the nodes that the job asks for"
    return why


def _message(state: JobState) -> str | None:
    """The job's own message, or the message of a replica that waits for a node."""
    if state.message:
        return state.message
    waiting = (row.get("message") for row in state.replicas if row.get("reason") == "Unschedulable")
    return next((each for each in waiting if isinstance(each, str)), None)


def _history(state: JobState, waits: Sequence[float]) -> dict[str, Any] | None:
    if not waits:
        return None
    waited = seconds_between(state.queued_at, state.as_of)
    # In whole minutes: seconds would change each response.
    so_far = None if waited is None else int(waited // 60 * 60)
    ordered = sorted(waits)
    p90 = ordered[min(len(ordered) - 1, int(_MOST * len(ordered)))]
    return {"median": round(median(ordered)), "p90": round(p90), "runs": len(ordered), "so_far": so_far}


def _gives_up(state: JobState) -> dict[str, Any]:
    """When the provider ends a job that does not start. The time for which a queue holds the job does not count."""
    seconds = number(state.request.get("startup_timeout_seconds"))
    at = None if seconds is None or state.queue or state.queued_at is None else later(state.queued_at, seconds)
    return {"gives_up_at": iso(at), "gives_up_setting": "startup_timeout_seconds" if at else None}
