"""How much of one container's log is shown, and what is cut."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

#: What is kept of each container: lines, and characters.
_TAIL_LINES = 400
_TAIL_SIZE = 128 * 1024


class LogBudget:
    """How much a reader is shown of one container of a replica, and the last lines.

    :param limit: so many bytes are shown as they come; of the rest only the last lines, at the end.
    """

    def __init__(self, limit: int) -> None:
        self._room = limit
        # Lines that were not shown, and their bytes.
        self._cut = (0, 0)
        #: The last lines, shown or not.
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)

    @property
    def has_ended(self) -> bool:
        """Whether a line was not shown: then none is that follows."""
        return self._cut[0] > 0

    def take(self, texts: Sequence[str]) -> int:
        """Count lines against the budget.

        :return: how many of them are to be shown now: the first ones.
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
        """What is to be shown at the end: how much was cut, and the last lines of it."""
        lines, size = self._cut
        self._cut = (0, 0)
        last = list(self.tail)[-lines:] if lines else []
        lines, size = lines - len(last), size - _size(last)
        return [f"... {lines} lines ({size} bytes) were cut here", *last] if lines else last


def _size(texts: Sequence[str]) -> int:
    return sum(map(len, texts)) + len(texts)
