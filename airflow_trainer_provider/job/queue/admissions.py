"""Estimates when a queue admits its next jobs, from its earlier admissions. Sans-IO: times in, ranges out."""

from __future__ import annotations

import bisect
import math
from datetime import datetime, timezone
from itertools import pairwise
from statistics import fmean

from airflow_trainer_provider.job.queue.place import Estimate

#: The number of admissions that an estimate needs at least, and the number of the latest ones that it uses at most.
LEAST = 6
MOST = 60
#: A job that was admitted within this many seconds has not waited.
_AT_ONCE = 2.0
#: Standard deviations to either side of the expected time. Nine in ten of a normal distribution would be 1.64; queues
#: are less regular than that.
_DEVIATIONS = 2.0
#: How much wider a range is if it is based on few gaps: by this share, divided by the number of gaps.
_FEW = 3
#: The minimum width of a range to either side: as a share of the remaining time, and in seconds.
_LEAST_SHARE = 0.15
_LEAST_SECONDS = 2.0
#: After this many times the longest gap, and at least this many seconds, earlier admissions no longer allow an
#: estimate.
_STOPPED_AFTER = 3
_STOPPED_SECONDS = 60.0


class Admissions:
    """The admissions of one queue. All times are in seconds since 1970, by one clock."""

    def __init__(self) -> None:
        # When a job was admitted, since when it had waited, and which job; in this order.
        self._seen: list[tuple[float, float, str]] = []

    def note(self, uid: str, queued_at: float, at: float) -> bool:
        """Record that a job was admitted.

        :param uid: of the job.
        :param queued_at: since when it waited.
        :param at: when it was admitted.
        :return: False where it was already recorded, or is older than the recorded ones.
        """
        found = (at, queued_at, uid)
        place = bisect.bisect_left(self._seen, found)
        if found in self._seen[place : place + 1] or (place == 0 and len(self._seen) >= MOST):
            return False
        self._seen.insert(place, found)
        del self._seen[:-MOST]
        return True

    def estimate(self, position: int, now: float) -> Estimate | str:
        """When the queue admits the job at a position, or why that is not known.

        :param position: in the queue, from 1.
        :param now: the time.
        """
        gaps = self._gaps()
        if len(gaps) < LEAST - 1:
            seen = len(gaps) + 1 if gaps else min(len(self._seen), 1)
            return f"Too few admissions to this queue were seen while jobs waited: {seen} of {LEAST}."
        last = self._seen[-1][0]
        mean, idle = fmean(gaps), now - last
        if idle > max(_STOPPED_AFTER * max(gaps), _STOPPED_SECONDS):
            return f"No job was admitted for {_text(idle)}; before that it was one every {_text(mean)}."
        # A current gap that is already longer than the mean is taken into account.
        expected = last + max(mean, idle) + (position - 1) * mean
        least = max(_LEAST_SHARE * (expected - now), _LEAST_SECONDS)
        half = max(_DEVIATIONS * _deviation(gaps, position), least)
        basis = f"From the last {len(gaps) + 1} admissions to this queue: one every {_text(mean)}."
        return Estimate(
            earliest=_moment(math.floor(expected - half)), latest=_moment(math.ceil(expected + half)), basis=basis
        )

    def _gaps(self) -> list[float]:
        """The seconds from one admission to the next, where the second job waited all the while.

        Without a waiting job, the time to the next admission says nothing about the queue. Nor do the jobs that fill an
        empty queue.
        """
        return [
            at - before
            for (before, *_), (at, queued_at, _) in pairwise(self._seen)
            if queued_at <= before and at - queued_at >= _AT_ONCE
        ]


def _deviation(gaps: list[float], position: int) -> float:
    """The standard deviation of the sum of the next gaps.

    Gaps are not independent: where room for three jobs becomes free at once, two short ones follow each long one. So
    the deviation is that of sums of neighbours, as far as there are enough of them.
    """
    mean, together = fmean(gaps), max(1, min(position, len(gaps) // 4))
    sums = [sum(gaps[at : at + together]) for at in range(len(gaps) - together + 1)]
    variance = fmean((each - together * mean) ** 2 for each in sums) / together
    # The mean itself is also uncertain, which counts for each gap. So is the variance, all the more with fewer gaps.
    return math.sqrt(variance * position * (1 + position / len(gaps))) * (1 + _FEW / len(gaps))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def _text(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
