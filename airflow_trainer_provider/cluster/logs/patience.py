"""When the log of a container is given up: the rule, and its bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

#: After the job's end: how long a log may give nothing, and how long it is read though it goes on. Seconds.
IDLE_SECONDS = 10.0
LAST_LINES_SECONDS = 60.0
#: At any time: how long the API server may refuse to give a log. Seconds.
REFUSED_SECONDS = 60.0


class Patience:
    """How long one reader of a log may still take.

    After the job's end, a log is given up that has given nothing for :data:`IDLE_SECONDS`, or that has been read for
    :data:`LAST_LINES_SECONDS`; the time in which its reader is held up does not count.

    A reader is held up while it waits for something other than its log: for the replica's earlier pods to be read, for
    a permit, for a turn at the processor, or until its lines are taken.
    """

    def __init__(self) -> None:
        self._held_up_since: float | None = None
        self._held_up_for = 0.0
        # By this reader's own clock, as the one below.
        self._went_on_at = self.now
        self._job_ended_at: float | None = None

    @property
    def now(self) -> float:
        """The reader's own clock, in seconds: it stands still while the reader is held up."""
        held_up_since = self._held_up_since
        return (time.monotonic() if held_up_since is None else held_up_since) - self._held_up_for

    @property
    def is_held_up(self) -> bool:
        """Whether the reader waits for something other than its log."""
        return self._held_up_since is not None

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """The reader waits for something other than its log."""
        since = self._held_up_since = time.monotonic()
        try:
            yield
        finally:
            self._held_up_since = None
            self._held_up_for += time.monotonic() - since

    def went_on(self) -> None:
        """Record that the log has given something, or was requested again."""
        self._went_on_at = self.now

    def idle_since(self, begin: float) -> float:
        """For how many seconds the log has given nothing.

        :param begin: the time by :attr:`now` from which on it counts.
        """
        return self.now - max(self._went_on_at, begin)

    def is_over(self) -> bool:
        """Whether the log is to be given up. Ask once the job has ended: time counts from the first question on."""
        if self._job_ended_at is None:
            self._job_ended_at = self.now
        began = self._job_ended_at
        too_long = self.idle_since(began) > IDLE_SECONDS or self.now - began > LAST_LINES_SECONDS
        return too_long and not self.is_held_up
