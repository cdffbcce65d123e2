"""Reads the status of a training job on plain Kubernetes from its Jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from airflow_trainer_provider.job.diagnosis.causes import DELETED
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import ControllerStatus, Manifest
from airflow_trainer_provider.kinds.objects.labels import (
    CANCELLED,
    COMPLETE,
    PART_DELETED,
    PREFIX,
    QUEUE,
    written_groups,
)
from airflow_trainer_provider.kinds.status.deletion import MISSED, deletion_of
from airflow_trainer_provider.kinds.status.pod_end import parse_time

#: The rank of a Job's first Pod.
FIRST_RANK = f"{PREFIX}/first-rank"
#: Whether the training succeeds only once this Job has succeeded.
WAITED_FOR = f"{PREFIX}/waited-for"


def groups_of(main: Manifest) -> Mapping[str, int]:
    """How many replicas of each group, in the order of their ranks.

    :param main: the Service.
    """
    return written_groups(main)


def read(main: Manifest, children: Sequence[Manifest]) -> ControllerStatus:
    """Read a training job's controller status from its Jobs.

    The training job has succeeded once all Jobs that are waited for are complete, and has failed once any Job has
    failed before that. What happens to the other Jobs afterwards changes nothing. The training job has also failed if a
    Job was deleted before its end, or if all Jobs have ended except one that no longer exists and whose end was not
    seen. A cancelled training job counts as suspended once no Job is left.

    :param main: the Service.
    :param children: the existing Jobs, and the last versions of Jobs that no longer exist.
    """
    # If the watch missed the deletion of a Job, its last known version may be old, and does not show how the Job ended.
    children = [child for child in children if deletion_of(child) != MISSED or _has_ended(child)]
    started = _first(_time(child.get("status", {}).get("startTime")) for child in children)
    restarts = max(map(_restarts, children), default=0)
    completed, failure = _completed(main, children), _failure(children)
    if completed and (failure is None or completed <= failure[0]):
        return ControllerStatus(JobPhase.SUCCEEDED, started_at=started, finished_at=completed, restarts=restarts)
    if failure:
        at, reason, message = failure
        return ControllerStatus(JobPhase.FAILED, reason, message, started, at, restarts)
    if lost := (main["metadata"].get("annotations") or {}).get(PART_DELETED) or _lost(main, children):
        return ControllerStatus(JobPhase.FAILED, DELETED, lost, started, restarts=restarts)
    return ControllerStatus(
        *_under_way(main, children),
        started,
        restarts=restarts,
        keeps_complete=True,
        without_part=_without_job(main, children),
    )


def _without_job(main: Manifest, children: Sequence[Manifest]) -> frozenset[str]:
    """The names of the replicas whose Job no longer exists, whether it was complete or not."""
    if not _has_jobs(main):
        return frozenset()
    names = [f"{group}-{index}" for group, count in groups_of(main).items() for index in range(count)]
    there: set[str] = set()
    for child in children:
        first = int(child["metadata"]["labels"][FIRST_RANK])
        there.update(names[first : first + child["spec"]["completions"]])
    return frozenset(names) - there


def _lost(main: Manifest, children: Sequence[Manifest]) -> str | None:
    """A message about a Job that can no longer end; None where all Jobs can."""
    if not _has_jobs(main):
        return None
    unfinished = [child for child in children if not _has_ended(child)]
    deleted = [child["metadata"]["name"] for child in unfinished if deletion_of(child)]
    if deleted:
        return f"Job {deleted[0]} was deleted before it had ended"
    # Unfinished Jobs may continue to train, or be resumed.
    if unfinished or sum(child["spec"]["completions"] for child in children) >= sum(groups_of(main).values()):
        return None
    return f"a Job of {main['metadata']['name']} was deleted; whether it had succeeded is not known"


def _has_jobs(main: Manifest) -> bool:
    """Whether all Jobs of a training were created and should exist: the training is neither cancelled nor being
    deleted.
    """
    annotations = main["metadata"].get("annotations") or {}
    return COMPLETE in annotations and CANCELLED not in annotations and "deletionTimestamp" not in main["metadata"]


def _is_stopped(main: Manifest, children: Sequence[Manifest]) -> bool:
    """Whether a training is cancelled and none of its Jobs is left."""
    annotations = main["metadata"].get("annotations") or {}
    return not children and COMPLETE in annotations and CANCELLED in annotations


def _has_ended(child: Manifest) -> bool:
    return any(_condition(child, kind) for kind in ("Complete", "Failed", "FailureTarget"))


def _under_way(main: Manifest, children: Sequence[Manifest]) -> tuple[JobPhase | None, str | None, str | None]:
    """Phase, reason and message of a job that has not ended."""
    if _is_stopped(main, children):
        return JobPhase.SUSPENDED, None, None
    unfinished = [child for child in children if _condition(child, "Complete") is None]
    held = [child for child in unfinished if child["spec"].get("suspend")]
    if held and QUEUE in held[0]["metadata"]["labels"]:
        queue = held[0]["metadata"]["labels"][QUEUE]
        return None, "Queued", f"queue {queue} has not admitted it"
    if held:
        return JobPhase.SUSPENDED, "JobSuspended", None
    return (JobPhase.RESTARTING if any(map(_restarting, unfinished)) else None), None, None


def _completed(main: Manifest, children: Sequence[Manifest]) -> datetime | None:
    """When the last Job that is waited for completed; None while any of them has not."""
    expected = sum(groups_of(main).values())
    # A Job that does not exist, because it is not created yet or was deleted, cannot be known to be complete.
    if not children or sum(child["spec"]["completions"] for child in children) != expected:
        return None
    awaited = [child for child in children if child["metadata"]["labels"].get(WAITED_FOR) == "true"]
    ends = [_time((_condition(child, "Complete") or {}).get("lastTransitionTime")) for child in awaited]
    return max((end for end in ends if end), default=None) if all(ends) else None


def _failure(children: Iterable[Manifest]) -> tuple[datetime, str, str] | None:
    """When and why the first Job failed."""
    failures = []
    for child in children:
        # A Job has the condition Failed once the last of its Pods is gone, and FailureTarget as soon as the first has
        # failed.
        target, end = _condition(child, "FailureTarget"), _condition(child, "Failed")
        condition = target or end
        at = _time((condition or {}).get("lastTransitionTime"))
        if condition and at:
            message = f"Job {child['metadata']['name']}: {condition.get('message') or 'no more is known'}"
            failures.append((at, condition.get("reason") or "Failed", message))
    return min(failures, default=None)


def _restarts(child: Manifest) -> int:
    """How many times the replicas of a Job were restarted; replicas that restart together count once."""
    status, size = child.get("status", {}), int(child["spec"]["completions"])
    if not child["spec"].get("backoffLimit"):
        return 0
    replaced: int = status.get("failed", 0)
    if _condition(child, "Failed") or _condition(child, "FailureTarget"):
        # No Pod follows the last failure of a replica. The Job's controller also counts the Pods that it ended as
        # failed.
        replaced = max(0, replaced - (size - status.get("succeeded", 0)))
    return math.ceil(replaced / size)


def _restarting(child: Manifest) -> bool:
    """Whether a Pod of an unfinished Job has failed, and its replacement does not exist yet."""
    status, spec = child.get("status", {}), child["spec"]
    if not spec.get("backoffLimit") or "startTime" not in status:
        return False
    uncounted = status.get("uncountedTerminatedPods", {}).get("succeeded") or ()
    there = status.get("active", 0) + status.get("succeeded", 0) + len(uncounted)
    return bool(there < spec["completions"])


def _condition(child: Manifest, kind: str) -> Manifest | None:
    conditions = child.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def _first(times: Iterable[datetime | None]) -> datetime | None:
    return min((time for time in times if time), default=None)
