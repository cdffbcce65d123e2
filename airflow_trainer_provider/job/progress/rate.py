"""The steps per second of a training, over the last minutes."""

from __future__ import annotations

from collections import deque

#: The length of the window, and the minimum distance of two samples, in seconds.
_WINDOW = 300.0
_APART = 1.0


class Rate:
    """Steps per second, over samples of one attempt."""

    def __init__(self) -> None:
        # Each sample has the time at which it began, its last time and its step. Steps that come at once, e.g. from
        # lines that are read after a pause, are one sample.
        self._samples: deque[tuple[float, float, int]] = deque()

    def add(self, at: float, step: int) -> None:
        """Process a step.

        :param at: when it was reported, in seconds since 1970.
        :param step: not lower than the previous one.
        """
        if self._samples and at - self._samples[-1][0] < _APART:
            self._samples[-1] = (self._samples[-1][0], at, step)
        else:
            self._samples.append((at, at, step))
        while len(self._samples) > 2 and self._samples[1][1] < at - _WINDOW:
            self._samples.popleft()

    def value(self) -> float | None:
        """Steps per second; None until there are two samples."""
        if len(self._samples) < 2:
            return None
        (_, first, begin), (_, last, end) = self._samples[0], self._samples[-1]
        return (end - begin) / (last - first) if last > first else None
