"""Determines what the replicas of a job that do not run wait for, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Flag, auto
from functools import reduce
from operator import or_

from airflow_trainer_provider.job.diagnosis.causes import (
    DELETED,
    INIT,
    NO_JOB_SET,
    ON_THE_WAY,
    SIDECAR,
    cause_of,
    is_of_pod_creation,
)
from airflow_trainer_provider.job.diagnosis.refused_pod import refused_pod
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.events import (
    Warned,
    last_warning,
    queued_by_kueue,
    released_at,
    without_workloads,
)
from airflow_trainer_provider.kinds.status.pod_end import how_it_ended, parse_time
from airflow_trainer_provider.kinds.status.reading import Reading
from airflow_trainer_provider.kinds.status.replicas import ReplicaState

#: The reason of a job that waits in a queue of Kueue.
SUSPENDED_BY_KUEUE = "SuspendedByKueue"
#: The reason of a container that waits to be restarted, for longer each time.
_BACK_OFF = "CrashLoopBackOff"
#: How much the clocks of controllers and the API server may differ.
_SKEW = timedelta(seconds=5)


class Waits(Flag):
    """The properties of a job with waiting replicas."""

    #: A waiting replica has run before, or the controller has restarted the job.
    AGAIN = auto()
    #: Something keeps a waiting replica from running.
    HINDERED = auto()
    #: Something keeps a waiting replica from running, and the replica has no node.
    NO_ROOM = auto()
    #: No replica of the job has a node. A pod that the scheduler has not seen yet, while other pods have a node, does
    #: not make the job wait for room.
    NO_NODE = auto()


#: The properties that have to hold, and the phase. The first row applies whose properties all hold.
PHASES = (
    (Waits.AGAIN, JobPhase.RESTARTING),
    (Waits.NO_ROOM, JobPhase.QUEUED),
    (Waits.HINDERED, JobPhase.STARTING),
    (Waits.NO_NODE, JobPhase.QUEUED),
    (Waits(0), JobPhase.STARTING),
)


def phase_of_waiting(waits: Waits) -> JobPhase:
    """The phase of a job whose controller reports none.

    :param waits: all properties that hold.
    """
    return next(phase for needed, phase in PHASES if waits & needed == needed)


def what_waits(job: Reading) -> Waits:
    """The properties of a job with waiting replicas.

    :param job: as it was read.
    """
    waiting = waiting_of(job.replicas)
    hindered = list(filter(is_hindered, waiting))
    without_node = [replica for replica in waiting if not has_node(replica)]
    found = {
        Waits.AGAIN: bool(job.controller.restarts) or any(map(has_run, waiting)),
        Waits.HINDERED: bool(hindered),
        Waits.NO_ROOM: not all(map(has_node, hindered)),
        Waits.NO_NODE: len(without_node) == len(job.replicas),
    }
    return reduce(or_, (each for each, holds in found.items() if holds), Waits(0))


def waiting_of(replicas: Sequence[ReplicaState]) -> list[ReplicaState]:
    """The replicas whose training waits to run."""
    return [replica for replica in replicas if replica.stage == "waiting"]


def has_node(replica: ReplicaState) -> bool:
    """Whether its pod has a node."""
    return replica.pod is not None and replica.pod.scheduled


def has_run(replica: ReplicaState) -> bool:
    """Whether a waiting replica has run before."""
    return replica.last_end is not None or replica.status.restarts > 0 or replica.status.failed


def why_waiting(hindered: Sequence[ReplicaState], warned: Warned | None) -> tuple[str | None, str | None] | None:
    """The reason and message of what keeps replicas from running; None where that is unknown. A cause that passes by
    itself has a lower priority.
    """
    hindrance = hindrance_of(hindered) if hindered else None
    if warned and (hindrance is None or cause_of(*hindrance).hope == "itself"):
        is_worse = cause_of(warned.reason, warned.message).hope != "itself"
        return (warned.reason, warned.message) if is_worse or hindrance is None else hindrance
    return hindrance


def warned_of(job: Reading) -> Warned | None:
    """The warning of a controller about why it has not created the pods that replicas wait for; None without a warning.

    :param job: as it was read.
    """
    without_pod = [replica for replica in waiting_of(job.replicas) if replica.pod is None]
    if not without_pod:
        return None
    ends = [each.newest.status.finished_at or each.newest.created_at for each in without_pod if each.newest]
    made = [parse_time(each["metadata"]["creationTimestamp"]) for each in job.pods]
    # A warning from before a replica lost its pod, or another pod was created, may no longer hold; if it does, the
    # controller repeats it.
    since = max([*ends, *made], default=None)
    # The same applies to a warning from before the job was resumed.
    earliest = max(filter(None, (since, _released_at(job))), default=None)
    warned = last_warning(job.events, earliest, {each["metadata"]["name"] for each in job.pods if _is_alive(each)})
    return warned and replace(warned, still_missing=_is_missing(warned, since, without_workloads(job.children)))


def _is_missing(warned: Warned, since: datetime | None, parts: Sequence[Manifest]) -> bool:
    """Whether the object that a controller could not create is certainly missing.

    :param since: when the last of the job's pods was created, or lost.
    """
    if warned.reason == NO_JOB_SET:
        return not parts
    if warned.at is None or not is_of_pod_creation(warned.reason, warned.message):
        return False
    # A warning that names no pod may be about a pod that was created a moment later.
    return since is None or refused_pod(warned.message) is not None or warned.at > since + _SKEW


def _is_alive(pod: Manifest) -> bool:
    """Whether a pod has not ended and is not being deleted, so that no other pod replaces it."""
    has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not has_ended and "deletionTimestamp" not in pod["metadata"]


def refusal_of(
    replicas: Sequence[ReplicaState], warned: Warned | None, reason: str | None, message: str | None
) -> dict[str, datetime | bool | None]:
    """When the cluster last refused what the job waits for, which its reason and message name.

    :return: fields of the job's status: that time, and whether the refused object is certainly missing.
    """
    if warned and (warned.reason, warned.message) == (reason, message):
        return {"refused_at": warned.at, "still_missing": warned.still_missing}
    refused = (replica for replica in waiting_of(replicas) if replica.refused_at)
    return {
        "refused_at": next((each.refused_at for each in refused if hindrance_of([each]) == (reason, message)), None)
    }


def hindrance_of(hindered: Sequence[ReplicaState]) -> tuple[str | None, str]:
    """The reason and message of the replica that is hindered most: one without a node comes first, then one whose
    hindrance does not pass by itself.
    """
    worst = min(hindered, key=lambda each: (has_node(each), _passes(each))).status
    return worst.reason, ": ".join(filter(None, [worst.name, worst.message]))


def _passes(replica: ReplicaState) -> bool:
    return cause_of(replica.status.reason, replica.status.message).hope == "itself"


def is_hindered(replica: ReplicaState) -> bool:
    """Whether something keeps a replica's pod from running. A container in back-off only waits for its restart."""
    status = replica.status
    return replica.pod is not None and status.finished_at is None and status.reason not in (*ON_THE_WAY, _BACK_OFF)


def why_again(again: Sequence[ReplicaState]) -> tuple[str | None, str | None]:
    """The reason and message of the end after which the first of these replicas was restarted."""
    replica = again[0]
    end = replica.last_end or replica.status
    if end.message and (end.reason or "").startswith((INIT, SIDECAR, DELETED)):
        return end.reason, f"{end.name}: {end.message}"
    known = end.signal or end.exit_code is not None
    return end.reason, f"{end.name} {how_it_ended(end)}" if known else end.name


def waiting_since_of(job: Reading, phase: JobPhase, reason: str | None) -> datetime | None:
    """Since when replicas could have started and have not.

    :param job: as it was read.
    :param phase: of the job.
    :param reason: of the phase.
    """
    is_held = phase is JobPhase.SUSPENDED or reason == SUSPENDED_BY_KUEUE
    # A replica that has failed before its training ran could have started, too.
    waiting = [replica for replica in job.replicas if replica.stage == "waiting" or _has_failed_unrun(replica)]
    return _since(job, waiting) if waiting and not phase.ended and not is_held else None


def _since(job: Reading, waiting: Sequence[ReplicaState]) -> datetime | None:
    made = [replica.tried_since or replica.pod.created_at for replica in waiting if replica.pod]
    if len(made) == len(waiting):
        return min(made)
    # A replica without a pod waits since the controller created the other pods, or could have created them.
    others = [replica.pod.created_at for replica in job.replicas if replica.pod]
    return min([*made, max(others)]) if others else _could_start_at(job)


def _has_failed_unrun(replica: ReplicaState) -> bool:
    return replica.status.failed and (replica.status.reason or "").startswith(INIT)


def _could_start_at(job: Reading) -> datetime | None:
    released, created_at = _released_at(job), parse_time(job.main["metadata"]["creationTimestamp"])
    return released if released or queued_by_kueue(job.main) else created_at


def _released_at(job: Reading) -> datetime | None:
    """When a queue admitted the job, or when the job was resumed; None where neither is known."""
    if queued_by_kueue(job.main):
        return released_at(job.children)
    return resumed_at(job.main, job.children)


def resumed_at(main: Manifest, children: Sequence[Manifest]) -> datetime | None:
    """When the job was resumed last; None where it was not suspended.

    :param main: the main object.
    :param children: the objects through which its controller creates its pods.
    """
    return max(filter(None, map(_resumed_at, (main, *children))), default=None)


def _resumed_at(manifest: Manifest) -> datetime | None:
    """When an object of the job was resumed; None for one that was not suspended."""
    for each in (manifest.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Suspended" and each.get("status") == "False" and each.get("lastTransitionTime"):
            return parse_time(each["lastTransitionTime"])
    return None
