"""When the log of a container is given up: the rule, and its bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

#: After the job's end: how long a log may give no line, and how long it is read at most. Seconds.
IDLE_SECONDS = 10.0
LAST_LINES_SECONDS = 60.0
#: At any time: how long the API server may refuse to give a log. Seconds.
REFUSED_SECONDS = 60.0


class ReadDeadline:
    """When one reader of a container's log gives it up.

    After the job's end, the reader gives up a log that has given no line for :data:`IDLE_SECONDS`, or that it has read
    for :data:`LAST_LINES_SECONDS`. The clock for both is paused while the reader waits for something other than its
    log: for the replica's earlier pods to be read, for a permit, for the processor, or until its lines are taken.
    Before the job's end, the reader gives up a log only if the API server refuses it for :data:`REFUSED_SECONDS`.
    """

    def __init__(self) -> None:
        self._paused_since: float | None = None
        self._paused_for = 0.0
        # Both times below are by this reader's own clock.
        self._extended_at = self.now
        self._job_ended_at: float | None = None

    @property
    def now(self) -> float:
        """The reader's own clock, in seconds, without the pauses."""
        paused_since = self._paused_since
        return (time.monotonic() if paused_since is None else paused_since) - self._paused_for

    @property
    def is_paused(self) -> bool:
        """Whether the reader waits for something other than its log."""
        return self._paused_since is not None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the clock while the reader waits for something other than its log."""
        since = self._paused_since = time.monotonic()
        try:
            yield
        finally:
            self._paused_since = None
            self._paused_for += time.monotonic() - since

    def extend(self) -> None:
        """Record that the log has given lines, or was requested again."""
        self._extended_at = self.now

    def idle_since(self, begin: float) -> float:
        """For how many seconds the log has given no line.

        :param begin: the time by :attr:`now` from which on it counts.
        """
        return self.now - max(self._extended_at, begin)

    def has_passed(self) -> bool:
        """Whether to give up the log. Call it only after the job's end: the time counts from the first call on."""
        if self._job_ended_at is None:
            self._job_ended_at = self.now
        began = self._job_ended_at
        too_long = self.idle_since(began) > IDLE_SECONDS or self.now - began > LAST_LINES_SECONDS
        return too_long and not self.is_paused
