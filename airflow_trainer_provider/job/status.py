"""The status of a job, in words that are the same for all backends."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from pydantic import BaseModel, ConfigDict, Field

from airflow_trainer_provider.job.queue.place import QueuePlace

#: What a shell, and Kubernetes, add to a signal's number for the exit code of a process that the signal ended.
SIGNAL_BASE = 128


def signal_name(number: int) -> str | None:
    """The name of a signal, e.g. ``SIGKILL``; None for a number that has none, as those of real-time signals.

    :param number: the signal's.
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


class JobPhase(str, Enum):
    """Where a job is in its life.

    Queued: it waits for room. Starting: it has room, and not all replicas run yet. Suspended: it was stopped by
    request, and goes on when it is resumed.
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
        """Whether nothing can follow."""
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReplicaStatus(_Record):
    """The status of one replica.

    :param group: its role.
    :param index: its index within the group.
    :param rank: the rank of its process; None where it has several, or a launcher gives the ranks out.
    :param exit_code: of its process; None while it runs, or where a signal ended it.
    :param signal: the signal that ended it, e.g. ``SIGKILL``.
    :param reason: one CamelCase word, as Kubernetes has it: ``Completed``, ``Error``, ``OOMKilled``, ``Stopped``.
    :param message: more on the reason, for people.
    :param restarts: how often it was started again.
    :param peak_memory_bytes: the most memory that its largest process held; None where the system does not report it.
    :param node: the node that it runs on, or ran on last, where the backend knows; it is not part of the record.
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
        """Whether it runs no more; of one that was deleted with its part of the job, nothing else may be known."""
        return self.finished_at is not None or self.reason == "Deleted"


class Progress(_Record):
    """How far a training is, as its script reports.

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

    :param phase: where it is in its life.
    :param reason: why it is there, one CamelCase word, e.g. ``DeadlineExceeded``.
    :param message: more on the reason, for people.
    :param restarts: how often the whole job was started again.
    :param first_failed: the replica that failed first, e.g. ``worker-1``.
    :param replicas: in the order of their ranks; the first one's result is the job's.
    :param waiting_since: since when replicas could have started and have not; None where all have, or a queue holds
        the job. It is for whoever waits, by the clock of that machine, and not part of the record.
    :param refused_at: when the cluster refused last what the replicas wait for, as ``reason`` and ``message`` say it;
        None where nothing is known to be refused. By the clock of who refused it; not part of the record either.
    :param still_missing: whether that is missing for certain: controllers that go on failing may report it no more.
        Likewise.
    :param deadline_at: when the job's time is up, where its controller does not end it in any case; likewise.
    :param blocked_by: the replica whose failure keeps the job from starting, and that the controller neither counts nor
        cures; likewise.
    :param lost: the replica that was taken away and that nothing starts again, so that the job can only fail; likewise.
    :param queue: its place in the queue that holds it, where the backend knows; likewise.
    :param progress: what the training reports, where the backend knows; not part of the record either.
    :param node_address: of a node that runs a replica of a job with tools, where the backend knows; likewise.
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
