"""The status of a job, in terms that are the same for all backends."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum

from pydantic import BaseModel, ConfigDict, Field

from airflow_trainer_provider.job.queue.place import QueuePlace

#: The number that a shell, and Kubernetes, add to a signal's number to form the exit code of a process that the signal
#: ended.
SIGNAL_BASE = 128


def signal_name(number: int) -> str | None:
    """The name of a signal, e.g. ``SIGKILL``; None for a number without a name, such as those of real-time signals.

    :param number: the signal's.
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


class JobPhase(str, Enum):
    """The phase of a job.

    Queued: it waits for room. Starting: it has room, but not all replicas run yet. Suspended: it was stopped by
    request, and continues when it is resumed.
    """

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether the phase is final."""
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReplicaStatus(_Record):
    """The status of one replica.

    :param group: its role.
    :param index: its index within the group.
    :param rank: the rank of its process; None where it has several processes, or a launcher assigns the ranks.
    :param exit_code: of its process; None while it runs, or where a signal ended it.
    :param signal: the signal that ended it, e.g. ``SIGKILL``.
    :param reason: one CamelCase word, as in Kubernetes: ``Completed``, ``Error``, ``OOMKilled``, ``Stopped``.
    :param message: details about the reason, for users.
    :param restarts: how many times it was restarted.
    :param peak_memory_bytes: the most memory that its largest process held; None where the system does not report it.
    :param node: the node that it runs on, or ran on last, where the backend knows it; it is not serialized.
    """

    group: str
    index: int
    rank: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None
    message: str | None = None
    restarts: int = 0
    peak_memory_bytes: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    node: str | None = Field(default=None, exclude=True)

    @property
    def name(self) -> str:
        """E.g. ``worker-1``."""
        return f"{self.group}-{self.index}"

    @property
    def shell_code(self) -> int | None:
        """The exit code as a shell reports it: 128 and the signal's number where a signal ended the process."""
        return SIGNAL_BASE + signal.Signals[self.signal] if self.signal else self.exit_code

    @property
    def failed(self) -> bool:
        """Whether it ended by its own failure; a replica that was stopped did not."""
        return self.finished_at is not None and self.reason not in ("Completed", "Stopped")

    @property
    def is_over(self) -> bool:
        """Whether it no longer runs. If it was deleted with its part of the job, nothing else may be known about it."""
        return self.finished_at is not None or self.reason == "Deleted"


class Progress(_Record):
    """The progress of a training, as its script reports it.

    :param percent: of the work that is done.
    :param remaining_seconds: until the end, as the script estimates it.
    :param metrics: by name.
    """

    percent: int | None = None
    remaining_seconds: int | None = None
    metrics: Mapping[str, float] = Field(default_factory=dict)

    def text(self) -> str:
        """The status as text for a log."""
        parts = [
            f"{self.percent} % done" if self.percent is not None else "",
            f"about {self.remaining_seconds} s left" if self.remaining_seconds is not None else "",
            *(f"{name} {value:g}" for name, value in self.metrics.items()),
        ]
        return ", ".join(filter(None, parts))


class JobStatus(_Record):
    """The status of a job.

    :param phase: the phase of the job.
    :param reason: the reason for the phase, one CamelCase word, e.g. ``DeadlineExceeded``.
    :param message: details about the reason, for users.
    :param restarts: how many times the whole job was restarted.
    :param first_failed: the replica that failed first, e.g. ``worker-1``.
    :param replicas: in the order of their ranks; the first one's result is the job's.
    :param waiting_since: since when replicas could have started and have not; None where all have, or a queue holds the
        job. It is for the process that waits, by the clock of its machine, and is not serialized.
    :param refused_at: when the cluster last refused what the replicas wait for, which ``reason`` and ``message`` name;
        None where nothing is known to be refused. By the clock of the component that refused it; not serialized either.
    :param still_missing: whether the refused object is certainly missing: controllers that keep failing may stop
        reporting it. Likewise.
    :param deadline_at: when the job's deadline passes, where its controller may not end the job at that time; likewise.
    :param blocked_by: the replica whose failure keeps the job from starting, and which the controller neither counts
        nor replaces; likewise.
    :param lost: the replica that was disrupted and that no controller restarts, so that the job can only fail;
        likewise.
    :param queue: its place in the queue that holds it, where the backend knows it; likewise.
    :param progress: what the training reports, where the backend knows it; not serialized either.
    :param node_address: of a node that runs a replica of a job with tools, where the backend knows it; likewise.
    """

    phase: JobPhase
    reason: str | None = None
    message: str | None = None
    queued_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    restarts: int = 0
    first_failed: str | None = None
    replicas: tuple[ReplicaStatus, ...] = ()
    waiting_since: datetime | None = Field(default=None, exclude=True)
    refused_at: datetime | None = Field(default=None, exclude=True)
    still_missing: bool = Field(default=False, exclude=True)
    deadline_at: datetime | None = Field(default=None, exclude=True)
    blocked_by: str | None = Field(default=None, exclude=True)
    lost: str | None = Field(default=None, exclude=True)
    queue: QueuePlace | None = Field(default=None, exclude=True)
    progress: Progress | None = Field(default=None, exclude=True)
    node_address: str | None = Field(default=None, exclude=True)

    def text(self) -> str:
        """One line for a log."""
        progress = self.progress.text() if self.progress and self.phase is JobPhase.RUNNING else None
        why = ": ".join(filter(None, [self.reason, self.message, progress]))
        return f"{self.phase.value} ({why})" if why else self.phase.value


def first_message(replicas: Iterable[ReplicaStatus]) -> str | None:
    """The message of the first replica that has one, after the replica's name; None where none has.

    :param replicas: in the order of their ranks.
    """
    return next((f"{replica.name}: {replica.message}" for replica in replicas if replica.message), None)
