"""Distinguishes a job that is slow from one that can only fail. Sans-IO: statuses and times in, verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_trainer_provider.job.diagnosis.causes import (
    DEADLINE,
    INIT,
    NODE_WARNINGS,
    ON_THE_WAY,
    SIDECAR,
    Hope,
    cause_of,
)
from airflow_trainer_provider.job.diagnosis.refused_pod import refused_pod
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus, first_message

#: How long, in seconds, a cause may keep a replica from starting, by what can resolve it. By then, the kubelet has
#: noticed its own mistake; a registry, a Secret or an administrator may take longer. A cause that passes by itself has
#: no timeout.
_CAUSE_TIMEOUTS: dict[Hope, float] = {"none": 10.0, "someone": 60.0}
#: How long after the first refusal another refusal, or a pod that is still missing, shows that the refusal does not
#: pass by itself. Controllers and kubelets try again after 1, 2, 4, ... seconds, but a client of the API server does
#: not send all events of an object that has many: the second refusal may be reported about a minute after the first, or
#: never.
_REFUSED_STANDS = timedelta(seconds=45)
#: How long a controller, or the kubelet, may take to end a job whose deadline has passed.
_ENDS_WITHIN = timedelta(seconds=15)
#: Phases of a job whose pods wait to start.
_ON_ITS_WAY = (JobPhase.QUEUED, JobPhase.STARTING)
#: How long a job that has lost a replica for good may continue: its other replicas may end the job, or end with it.
_WITHOUT_LOST = timedelta(seconds=60)
#: The kind of start failure of a replica that has failed, and that no controller restarts.
_BLOCKED = "blocked"
#: How long, in seconds, a job is observed before its startup timeout can end it: a process that takes over a job may
#: first see it in its worst state.
_SEEN_SECONDS = 10.0


@dataclass(frozen=True)
class GivenUp:
    """The verdict on a job that can only fail.

    :param reason: one CamelCase word: what hinders a replica, or the job; ``StartupTimeout`` where nothing seems to.
    :param message: details about the reason, for users.
    :param replica: the replica that does not start, or was lost; None where no single replica is the cause.
    :param what: what is wrong with the job, for users.
    """

    reason: str
    message: str
    replica: str | None = None
    what: str = "it cannot start"

    @property
    def why(self) -> str:
        """Why the job is ended, for users."""
        return f"{self.what}: {self.reason}: {self.message}"

    def outcome(self, status: JobStatus, now: datetime) -> JobStatus:
        """The last status of the job that is ended because of this verdict.

        :param status: the job's present status.
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
class _Refusal:
    """The refusals of one object by the cluster.

    :param first: the time of the first refusal that was seen, by the clock of the component that refuses.
    :param last: the time of the last one.
    :param seen_at: when the first one was seen.
    """

    first: datetime
    last: datetime
    seen_at: datetime


@dataclass(frozen=True)
class _StartFailure:
    kind: str
    since: datetime
    limit: timedelta
    replica: ReplicaStatus


class Monitor:
    """Watches one job's start, its deadline, and whether it lacks a replica.

    :param startup_timeout: ``run_policy.startup_timeout_seconds`` of the job; with None, only a job that can never
        start is ended.
    """

    # There is one for each job that waits.
    __slots__ = (
        "_ends_at",
        "_lost_since",
        "_refusals",
        "_seen_since",
        "_stands_at",
        "_start_failures",
        "_started",
        "_timeout",
        "_unrun",
        "_waiting_since",
    )

    def __init__(self, startup_timeout: float | None) -> None:
        self._timeout = None if startup_timeout is None else timedelta(seconds=startup_timeout)
        self._start_failures: dict[str, _StartFailure] = {}
        self._waiting_since: datetime | None = None
        self._seen_since: datetime | None = None
        self._started = False
        # Whether an init container has failed before any training has run.
        self._unrun = False
        self._ends_at: datetime | None = None
        self._lost_since: datetime | None = None
        # The key is the refused replica or pod, or the reason where none is named.
        self._refusals: dict[str, _Refusal] = {}
        # When the last refusal becomes final although it is not reported again.
        self._stands_at: datetime | None = None

    def observe(self, status: JobStatus, now: datetime) -> GivenUp | None:
        """Process a status of the job.

        :param status: the job's status; it may be the same as before.
        :param now: the time.
        :return: why the job can never start, has not started in time, or has passed its deadline; None while it may
            succeed.
        """
        self._note_start_failures(status, now)
        self._note_waiting(status, now)
        is_bound = status.phase in _ON_ITS_WAY and status.deadline_at
        self._ends_at = status.deadline_at + _ENDS_WITHIN if status.deadline_at and is_bound else None
        if self._ends_at and now >= self._ends_at:
            message = "it has had all the time that run_policy.active_deadline_seconds gives it"
            return GivenUp(DEADLINE, message, what="its time is up")
        if lost := self._lost(status, now):
            return lost
        if refused := self._refused(status, now):
            return refused
        for failure in self._start_failures.values():
            if now >= failure.since + failure.limit:
                return _never_starts(failure)
        end = self._timeout_at()
        return self._timed_out(status) if end and now >= end else None

    @property
    def failed_unrun(self) -> bool:
        """Whether a pod has failed before its training has run, so that the wait counts from an earlier pod."""
        return self._unrun

    def next_wakeup(self, now: datetime) -> float | None:
        """When to observe the last status again if it does not change.

        :param now: the time.
        :return: seconds from now; None where only a change can matter.
        """
        ends = [failure.since + failure.limit for failure in self._start_failures.values()]
        timeout = self._timeout_at()
        lost_at = self._lost_since + _WITHOUT_LOST if self._lost_since else None
        ends += filter(None, (timeout, self._ends_at, self._stands_at, lost_at))
        return max(0.0, (min(ends) - now).total_seconds()) if ends else None

    def _lost(self, status: JobStatus, now: datetime) -> GivenUp | None:
        """The verdict on a job that continues for too long without a replica that it has lost for good; None
        otherwise.
        """
        lost = next((replica for replica in status.replicas if replica.name == status.lost), None)
        if lost is None:
            self._lost_since = None
            return None
        self._lost_since = self._lost_since or now
        if now < self._lost_since + _WITHOUT_LOST:
            return None
        message = lost.message or "it was taken away before its end"
        return GivenUp(lost.reason or "Unknown", message, lost.name, f"it cannot succeed without {lost.name}")

    def _refused(self, status: JobStatus, now: datetime) -> GivenUp | None:
        """The verdict on a job that the cluster refuses again and again, so that it can never start; None otherwise."""
        hope = cause_of(status.reason, status.message).hope
        self._stands_at = None
        if status.phase.ended or hope not in _CAUSE_TIMEOUTS or status.refused_at is None:
            self._refusals = {}
            return None
        refused = _what_is_refused(status)
        known = self._noted(refused.replica or refused_pod(refused.message) or refused.reason, status.refused_at, now)
        if status.still_missing:
            self._stands_at = known.seen_at + _REFUSED_STANDS
        is_again = known.last - known.first >= _REFUSED_STANDS
        stands = self._stands_at is not None and now >= self._stands_at
        return refused if is_again or stands else None

    def _noted(self, who: str, at: datetime, now: datetime) -> _Refusal:
        """Record a refusal. Refusals of several pods alternate; a pod that is no longer refused may exist by now."""
        others = {name: each for name, each in self._refusals.items() if at - each.last <= 2 * _REFUSED_STANDS}
        known = self._refusals.get(who) or _Refusal(at, at, now)
        self._refusals = {**others, who: replace(known, last=at)}
        return self._refusals[who]

    def _note_start_failures(self, status: JobStatus, now: datetime) -> None:
        found = {}
        for replica in () if status.phase.ended else status.replicas:
            is_blocking = replica.name == status.blocked_by
            kind, seconds = (_BLOCKED, _CAUSE_TIMEOUTS["someone"]) if is_blocking else _start_failure_of(replica)
            if kind is None:
                continue
            known = self._start_failures.get(replica.name)
            since = known.since if known and known.kind == kind else now
            found[replica.name] = _StartFailure(kind, since, timedelta(seconds=seconds), replica)
        self._start_failures = found

    def _note_waiting(self, status: JobStatus, now: datetime) -> None:
        # The restart of a job that has run is limited by its restarts and its deadline, not by this timeout.
        in_init = status.started_at is None and (status.reason or "").startswith(INIT)
        # Between two attempts, the status may have another reason for a moment.
        self._unrun = status.started_at is None and (self._unrun or in_init)
        has_run = status.phase is JobPhase.RUNNING or (status.phase is JobPhase.RESTARTING and not self._unrun)
        self._started = self._started or has_run or status.phase.ended
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

    def _timed_out(self, status: JobStatus) -> GivenUp:
        assert self._timeout is not None
        waiting = [replica for replica in status.replicas if replica.started_at is None]
        late = (
            f"{_names(waiting)} had not started {self._timeout.total_seconds():g} s after it could have "
            "(run_policy.startup_timeout_seconds)"
        )
        hindered = next((replica for replica in waiting if replica.reason not in ON_THE_WAY), None)
        if hindered and hindered.reason:
            message = f"{late}: {hindered.message}" if hindered.message else late
            return GivenUp(hindered.reason, message, hindered.name)
        said = status.message or first_message(waiting) or status.text()
        return GivenUp(status.reason or "StartupTimeout", f"{late}: {said}")


def _names(replicas: Sequence[ReplicaStatus]) -> str:
    """The names of the first replicas."""
    return ", ".join(replica.name for replica in replicas[:3]) + (", ..." if len(replicas) > 3 else "")


def _what_is_refused(status: JobStatus) -> GivenUp:
    said = (status.reason, status.message)
    replica = next((each for each in status.replicas if said == (each.reason, f"{each.name}: {each.message}")), None)
    message = (replica.message if replica else status.message) or "the cluster refuses it"
    return GivenUp(status.reason or "Unknown", message, replica.name if replica else None)


def _start_failure_of(replica: ReplicaStatus) -> tuple[str | None, float]:
    """The kind of cause that keeps a replica from starting, and its timeout in seconds; None for a cause that passes by
    itself.
    """
    cause = cause_of((replica.reason or "").removeprefix(SIDECAR), replica.message)
    if replica.finished_at is not None or cause.hope not in _CAUSE_TIMEOUTS or replica.reason in NODE_WARNINGS:
        return None, 0.0
    # The kubelet alternates between the reasons of one cause.
    return f"{'rejected' if cause.kind == 'rejected' else 'image'} {cause.hope}", _CAUSE_TIMEOUTS[cause.hope]


def _never_starts(failure: _StartFailure) -> GivenUp:
    replica = failure.replica
    reason = replica.reason or "Unknown"
    late = f"its container has not started for {failure.limit.total_seconds():g} s"
    message = replica.message or ("it has failed, and the job cannot start" if failure.kind == _BLOCKED else late)
    return GivenUp(reason, message, replica.name)
