"""What is shown of one container's log, and what is cut."""

from __future__ import annotations

from collections import deque

#: What is kept of each container: lines, and characters.
_TAIL_LINES = 400
_TAIL_SIZE = 128 * 1024
_LONGEST_LINE = 32 * 1024


class Shown:
    """What a reader has been shown of one container of a replica.

    :param limit: so many bytes are shown as they come; of the rest only the last lines, at the end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._tail_size = 0
        # Lines that were not shown, and their bytes.
        self._cut = (0, 0)
        #: The last lines, shown or not.
        self.tail: deque[str] = deque()

    def take(self, text: str) -> bool:
        """Take a line.

        :return: whether it is to be shown now.
        """
        self.tail.append(text)
        self._tail_size += len(text)
        while len(self.tail) > _TAIL_LINES or (self._tail_size > _TAIL_SIZE and len(self.tail) > 1):
            self._tail_size -= len(self.tail.popleft())
        size = len(text) + 1
        if not self._cut[0] and self._bytes + size <= self._limit:
            self._bytes += size
            return True
        self._cut = (self._cut[0] + 1, self._cut[1] + size)
        return False

    @property
    def has_just_ended(self) -> bool:
        """Whether the last line was the first that was not shown."""
        return self._cut[0] == 1

    def rest(self) -> list[str]:
        """What is to be shown at the end: how much was cut, and the last lines of it."""
        lines, size = self._cut
        self._cut = (0, 0)
        last = list(self.tail)[-lines:] if lines else []
        lines, size = lines - len(last), size - sum(len(text) + 1 for text in last)
        return [f"... {lines} lines ({size} bytes) were cut here", *last] if lines else last


def shorten(text: str) -> str:
    """A line of bearable length. A longer one is cut, and says so at its end."""
    more = len(text) - _LONGEST_LINE
    return text if more <= 0 else f"{text[:_LONGEST_LINE]} [{more} more characters of this line were cut]"
