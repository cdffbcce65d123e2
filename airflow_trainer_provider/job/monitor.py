"""Distinguishes a job that starts slowly from one that never will. Sans-IO: statuses and times in, verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_trainer_provider.job.diagnosis.causes import INIT, ON_THE_WAY, SIDECAR
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

#: Reasons that no waiting cures, once the kubelet has had the time to see its mistake.
_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_HOPELESS_SECONDS = 10.0
#: Reasons that pass where a registry or a Secret comes late; the kubelet alternates between those of one cause.
_START_FAILURES = {
    "ErrImagePull": "image",
    "ImagePullBackOff": "image",
    "ImageInspectError": "image",
    "RegistryUnavailable": "image",
    "SignatureValidationFailed": "image",
    "CreateContainerConfigError": "container",
    "CreateContainerError": "container",
    "PreCreateHookError": "container",
    "PreStartHookError": "container",
    "RunContainerError": "container",
}
_START_FAILURE_SECONDS = 60.0
#: The cause of a replica that has failed, and that nothing starts again.
_BLOCKED = "blocked"
#: How long a job is looked at before its startup timeout can end it: whoever takes a job over sees it at its worst.
_SEEN_SECONDS = 10.0


@dataclass(frozen=True)
class CannotStart:
    """The verdict on a job that is not worth waiting for.

    :param reason: one CamelCase word: what hinders a replica, or the job; ``StartupTimeout`` where nothing seems to.
    :param message: more on it, for people.
    :param replica: the one that does not start; None where no single one is to blame.
    """

    reason: str
    message: str
    replica: str | None = None

    def outcome(self, status: JobStatus, now: datetime) -> JobStatus:
        """The last status of the job that is ended for it.

        :param status: as it stands.
        :param now: the time.
        """
        replicas = tuple(self._ended(replica) for replica in status.replicas)
        update = {"phase": JobPhase.FAILED, "reason": self.reason, "message": self.message, "finished_at": now}
        return status.model_copy(
            update={**update, "first_failed": self.replica, "replicas": replicas, "waiting_since": None}
        )

    def _ended(self, replica: ReplicaStatus) -> ReplicaStatus:
        if replica.name == self.replica:
            return replica.model_copy(update={"reason": self.reason, "message": self.message})
        if replica.started_at and replica.finished_at is None:
            return replica.model_copy(update={"reason": "Stopped", "message": None})
        return replica


@dataclass(frozen=True)
class _StartFailure:
    kind: str
    since: datetime
    limit: timedelta
    replica: ReplicaStatus


class Monitor:
    """Watches one job's start.

    :param startup_timeout: ``run_policy.startup_timeout_seconds`` of the job; None bounds only what can never start.
    """

    # There is one for each job that waits.
    __slots__ = ("_seen_since", "_start_failures", "_started", "_timeout", "_waiting_since")

    def __init__(self, startup_timeout: float | None) -> None:
        self._timeout = None if startup_timeout is None else timedelta(seconds=startup_timeout)
        self._start_failures: dict[str, _StartFailure] = {}
        self._waiting_since: datetime | None = None
        self._seen_since: datetime | None = None
        self._started = False

    def observe(self, status: JobStatus, now: datetime) -> CannotStart | None:
        """Take in how the job stands.

        :param status: the job's status; again and again the same is fine.
        :param now: the time.
        :return: why the job can never start, or has not in time; None while there is hope.
        """
        self._note_start_failures(status, now)
        self._note_waiting(status, now)
        for failure in self._start_failures.values():
            if now >= failure.since + failure.limit:
                return _never_starts(failure)
        end = self._timeout_at()
        return self._timed_out(status) if end and now >= end else None

    def next_wakeup(self, now: datetime) -> float | None:
        """When to observe the last status again if it does not change.

        :param now: the time.
        :return: seconds from now; None: only a change can matter.
        """
        ends = [failure.since + failure.limit for failure in self._start_failures.values()]
        timeout = self._timeout_at()
        if timeout:
            ends.append(timeout)
        return max(0.0, (min(ends) - now).total_seconds()) if ends else None

    def _note_start_failures(self, status: JobStatus, now: datetime) -> None:
        found = {}
        for replica in () if status.phase.ended else status.replicas:
            is_blocking = replica.name == status.blocked_by
            kind, seconds = (_BLOCKED, _START_FAILURE_SECONDS) if is_blocking else _start_failure_of(replica)
            if kind is None:
                continue
            known = self._start_failures.get(replica.name)
            since = known.since if known and known.kind == kind else now
            found[replica.name] = _StartFailure(kind, since, timedelta(seconds=seconds), replica)
        self._start_failures = found

    def _note_waiting(self, status: JobStatus, now: datetime) -> None:
        # What starts again has started once: that is a matter of restarts and deadlines, not of this timeout.
        self._started = self._started or status.phase in (JobPhase.RUNNING, JobPhase.RESTARTING) or status.phase.ended
        self._waiting_since = None if self._started else status.waiting_since
        if self._waiting_since is None:
            self._seen_since = None
        elif self._seen_since is None:
            self._seen_since = now

    def _timeout_at(self) -> datetime | None:
        if self._timeout is None or self._waiting_since is None or self._seen_since is None:
            return None
        seen = min(self._timeout, timedelta(seconds=_SEEN_SECONDS))
        return max(self._waiting_since + self._timeout, self._seen_since + seen)

    def _timed_out(self, status: JobStatus) -> CannotStart:
        assert self._timeout is not None
        waiting = [replica for replica in status.replicas if replica.started_at is None]
        late = (
            f"{_names(waiting)} had not started {self._timeout.total_seconds():g} s after it could have "
            "(run_policy.startup_timeout_seconds)"
        )
        hindered = next((replica for replica in waiting if replica.reason not in ON_THE_WAY), None)
        if hindered and hindered.reason:
            message = f"{late}: {hindered.message}" if hindered.message else late
            return CannotStart(hindered.reason, message, hindered.name)
        return CannotStart(status.reason or "StartupTimeout", f"{late}: {status.message or status.text()}")


def _names(replicas: Sequence[ReplicaStatus]) -> str:
    """The first ones by name."""
    return ", ".join(replica.name for replica in replicas[:3]) + (", ..." if len(replicas) > 3 else "")


def _start_failure_of(replica: ReplicaStatus) -> tuple[str | None, float]:
    reason = (replica.reason or "").removeprefix(INIT).removeprefix(SIDECAR)
    if replica.finished_at is not None:
        return None, 0.0
    if reason in _HOPELESS:
        return reason, _HOPELESS_SECONDS
    return _START_FAILURES.get(reason), _START_FAILURE_SECONDS


def _never_starts(failure: _StartFailure) -> CannotStart:
    replica = failure.replica
    reason = replica.reason or "Unknown"
    late = f"its container has not started for {failure.limit.total_seconds():g} s"
    message = replica.message or ("it has failed, and the job cannot start" if failure.kind == _BLOCKED else late)
    return CannotStart(reason, message, replica.name)
