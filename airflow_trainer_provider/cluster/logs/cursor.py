"""The position up to which a job's logs have been read.

Kubernetes resumes a log by time, in whole seconds only: within such a second, lines that were read have to be
distinguished from lines that were not.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
_SECOND = 10**9
#: How many lines of one container may be out of order: stdout and stderr are written at the same time.
_WINDOW = 256
#: The most bytes of a cursor as text; all annotations of an object together may have 256 KiB.
_TEXT_LIMIT = 50_000
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def split_time(line: bytes) -> tuple[int | None, bytes]:
    """A line's time, in nanoseconds since 1970, and its text.

    :param line: as the API gives it with ``timestamps``; the time is None where it has none.
    """
    if line[29:31] == b"Z " and line[19:20] == b".":
        # The format of kubelets, without the regular expression, which takes most of the time of reading a log.
        try:
            return _seconds(line[:19] + b"Z") * _SECOND + int(line[20:29]), line[31:]
        except ValueError:
            pass
    match = _LINE.match(line)
    if match is None:
        return None, line
    fraction = (match[2] or b"").ljust(9, b"0")
    return _seconds(match[1] + match[3]) * _SECOND + int(fraction), line[match.end() :]


@functools.lru_cache(maxsize=4096)
def _seconds(text: bytes) -> int:
    return int(datetime.fromisoformat(text.decode().replace("Z", "+00:00")).timestamp())


class LogCursor:
    """How much of each container's log has been shown, so that another process can continue from there.

    :param text: as :meth:`text` returned it; empty for the beginning.
    """

    def __init__(self, text: str = "") -> None:
        self._shown: dict[str, tuple[int, int]] = {}
        for key, packed in json.loads(text or "{}").items():
            at, _, count = packed.partition(".")
            self._shown[key] = (int(at, 36), int(count or 1))

    @classmethod
    def at(cls, pod_uid: str, container: str, position: tuple[int, int]) -> LogCursor:
        """A cursor of one container.

        :param position: as :meth:`of` returns it.
        """
        cursor = cls()
        cursor._shown[_key(pod_uid, container)] = position
        return cursor

    def of(self, pod_uid: str, container: str) -> tuple[int, int]:
        """The time of the last line that was shown, and how many lines with that same time were shown; (0, 0) for none.

        :param pod_uid: uid of the pod.
        :param container: its container; its restarts need not be distinguished, as their lines have later times.
        """
        return self._shown.get(_key(pod_uid, container), (0, 0))

    def advance(self, pod_uid: str, container: str, at: int) -> None:
        """Note that a line has been shown.

        :param at: its time, in nanoseconds since 1970.
        """
        key = _key(pod_uid, container)
        last, count = self._shown.get(key, (0, 0))
        if at >= last:
            self._shown[key] = (at, count + 1 if at == last else 1)

    def emit(self, pod_uid: str, container: str, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
        """The texts of lines; each is noted as shown when it is taken.

        :param lines: each with its time.
        """
        key = _key(pod_uid, container)
        last, count = self._shown.get(key, (0, 0))
        for at, text in lines:
            if at >= last:
                last, count = at, count + 1 if at == last else 1
                self._shown[key] = (last, count)
            yield text

    def text(self) -> str:
        """The cursor as JSON of at most 50 KB, which is enough for about 2,000 containers.

        Of more containers, those with the newest lines are kept. The process that takes over shows the lines of the
        others again.
        """
        latest = sorted(self._shown.items(), key=lambda entry: -entry[1][0])
        packed = {key: _base36(at) + (f".{count}" if count > 1 else "") for key, (at, count) in latest}
        size, kept = 2, {}
        for key, value in packed.items():
            size += len(key) + len(value) + len('"":"",')
            if size > _TEXT_LIMIT:
                break
            kept[key] = value
        return json.dumps(kept, separators=(",", ":"))


@functools.lru_cache(maxsize=4096)
def _key(pod_uid: str, container: str) -> str:
    digest = hashlib.sha256(f"{pod_uid}/{container}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:6]).decode()


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


class Deduplicator:
    """Knows which lines of one container have been read, so that each line is emitted once however often the connection
    breaks.

    A resumed log begins with lines that have been read, in the same order. From the first new line on, all lines are
    new.

    :param at: time of the last line that the previous reader showed.
    :param count: how many lines with that time it showed.
    """

    def __init__(self, at: int, count: int) -> None:
        # The last time, and how many lines have it, of all lines before those in the window.
        self._at = at
        self._count = count
        self._window: list[int] = []
        self._left: Counter[int] | None = None

    def since(self, overlap: int = 0) -> str | None:
        """The time from which on to request the log from the API; None for all of it.

        :param overlap: how many seconds earlier to begin.
        """
        first = min(self._window, default=self._at)
        if not first:
            return None
        return datetime.fromtimestamp(first // _SECOND - overlap, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def resume(self) -> None:
        """Expect lines from :meth:`since` on."""
        self._left = Counter(self._window)
        self._left[self._at] += self._count

    def new_of(self, times: list[int]) -> int:
        """How many of the next lines, from the first one on, have been read before. All of them count as read
        afterwards.

        :param times: of the lines, in nanoseconds since 1970.
        """
        first = 0
        if self._left is not None:
            while first < len(times) and (self._left[times[first]] or times[first] < self._at):
                self._left[times[first]] -= 1
                first += 1
            if first == len(times):
                return first
            # All lines that follow are new, even with an earlier time: the order of the log counts, not the times.
            self._left = None
        self._window += times[first:]
        if len(self._window) > 2 * _WINDOW:
            before, self._window = self._window[:-_WINDOW], self._window[-_WINDOW:]
            last = max(before)
            if last >= self._at:
                self._count = before.count(last) + (self._count if last == self._at else 0)
                self._at = last
        return first
