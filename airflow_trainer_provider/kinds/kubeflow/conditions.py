"""Reads the status of kubeflow.org jobs from their conditions.

A condition counts only where its status is "True": a job that has succeeded still lists Running, as "False". The order
of the conditions has no meaning. https://github.com/kubeflow/training-operator/blob/v1.9.3/pkg/util/status.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import ControllerStatus, Manifest
from airflow_trainer_provider.kinds.status.pod_end import parse_time

#: The MPI Operator's reason for a worker that was evicted. The launcher may continue, and succeed.
_EVICTED = "MPIJobEvicted"
#: Part of the Training Operator's message -> the reason. The operator's own reason is the same for all failures.
_REASONS = {
    "longer than specified deadline": "DeadlineExceeded",
    "reached the specified backoff limit": "BackoffLimitExceeded",
}


def read(main: Manifest, children: Sequence[Manifest]) -> ControllerStatus:
    """The status that a PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob or MPIJob reports."""
    status = main.get("status") or {}
    held = {entry["type"]: entry for entry in status.get("conditions") or () if entry.get("status") == "True"}
    return _ended(status, held) or _under_way(status, held)


def _ended(status: Mapping[str, Any], held: Mapping[str, Mapping[str, Any]]) -> ControllerStatus | None:
    """The end of a job; None where it has not ended.

    :param status: of the main object.
    :param held: its conditions that hold, by type.
    """
    completed_at = _time(status, "completionTime")
    # A TFJob whose chief succeeds while another replica fails has both conditions, Succeeded and Failed: it has failed.
    if "Failed" in held and not _is_eviction(held["Failed"], completed_at):
        phase, condition = JobPhase.FAILED, held["Failed"]
    elif "Succeeded" in held:
        phase, condition = JobPhase.SUCCEEDED, held["Succeeded"]
    else:
        return None
    return ControllerStatus(
        phase=phase,
        reason=_reason(condition),
        message=condition.get("message"),
        started_at=_time(status, "startTime"),
        # Some failures have no completion time.
        finished_at=completed_at or _time(condition, "lastTransitionTime"),
        restarts=_restarts(status, failed=phase is JobPhase.FAILED),
    )


def _under_way(status: Mapping[str, Any], held: Mapping[str, Mapping[str, Any]]) -> ControllerStatus:
    """A job that has not ended. Params as for :func:`_ended`."""
    started_at, restarts = _time(status, "startTime"), _restarts(status, failed=False)
    for name, phase in (("Suspended", JobPhase.SUSPENDED), ("Restarting", JobPhase.RESTARTING), ("Failed", None)):
        if name in held:
            return ControllerStatus(
                phase, _reason(held[name]), held[name].get("message"), started_at, restarts=restarts
            )
    return ControllerStatus(started_at=started_at, restarts=restarts)


def _is_eviction(failed: Mapping[str, Any], completed_at: datetime | None) -> bool:
    """Whether only a worker was evicted, and the job continues."""
    return failed.get("reason") == _EVICTED and completed_at is None


def _restarts(status: Mapping[str, Any], *, failed: bool) -> int:
    """How many times the launcher was restarted in a new pod; the other kinds restart their replicas in place."""
    launcher = (status.get("replicaStatuses") or {}).get("Launcher") or {}
    return max(int(launcher.get("failed", 0)) - failed, 0)


def _reason(condition: Mapping[str, Any]) -> str | None:
    message = condition.get("message") or ""
    known = next((reason for part, reason in _REASONS.items() if part in message), None)
    # The MPI Operator adds the reason of the launcher's pod, which may be empty: "BackoffLimitExceeded/".
    return known or (condition.get("reason") or "").partition("/")[0] or None


def _time(values: Mapping[str, Any], field: str) -> datetime | None:
    return parse_time(values[field]) if values.get(field) else None
