"""How much of one container's log is shown, and what is cut."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

#: The most lines, and the most characters, that are kept of each container.
_TAIL_LINES = 400
_TAIL_SIZE = 128 * 1024


class LogBudget:
    """Counts how much of one container's log is shown to a reader, and keeps the last lines.

    :param limit: how many bytes are shown as they arrive. Of the rest, only the last lines are shown, at the end.
    """

    def __init__(self, limit: int) -> None:
        self._room = limit
        # How many lines were not shown, and how many bytes they have.
        self._cut = (0, 0)
        #: The last lines, shown or not.
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)

    @property
    def has_ended(self) -> bool:
        """Whether a line was not shown. After that, no line is shown before the end."""
        return self._cut[0] > 0

    def take(self, texts: Sequence[str]) -> int:
        """Count lines against the budget.

        :return: how many of the lines, from the first one on, are to be shown now.
        """
        self.tail.extend(texts)
        kept = sum(map(len, self.tail))
        while kept > _TAIL_SIZE and len(self.tail) > 1:
            kept -= len(self.tail.popleft())
        size = _size(texts)
        if size <= self._room and not self.has_ended:
            self._room -= size
            return len(texts)
        ends = accumulate(len(text) + 1 for text in texts)
        shown = 0 if self.has_ended else bisect_right(list(ends), self._room)
        self._cut = (self._cut[0] + len(texts) - shown, self._cut[1] + _size(texts[shown:]))
        return shown

    def rest(self) -> list[str]:
        """The lines to show at the end: how much was cut, and the last of the lines that were not shown."""
        lines, size = self._cut
        self._cut = (0, 0)
        last = list(self.tail)[-lines:] if lines else []
        lines, size = lines - len(last), size - _size(last)
        return [f"... {lines} lines ({size} bytes) were cut here", *last] if lines else last


def _size(texts: Sequence[str]) -> int:
    return sum(map(len, texts)) + len(texts)
