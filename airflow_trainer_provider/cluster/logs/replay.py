"""The lines of one replica that the job's progress is read from: all of them, those that the log has already too."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_trainer_provider.cluster.logs.cursor import Deduplicator, LogCursor
from airflow_trainer_provider.job.progress.tracker import Position

Lines = list[tuple[int, str]]

#: Where nothing was reported before, so much of what the log has is read again, in nanoseconds: a process that ended
#: may have read a report that it has not written.
_UNWRITTEN = 300 * 10**9


class Replayed:
    """A replica whose lines are given again from a position on.

    :param replica: its name.
    :param since: the position: a time in nanoseconds, and how many lines with that very time are before it; None for
        some minutes before the end of what the log has.
    """

    def __init__(self, replica: str, since: Position | None) -> None:
        self.replica = replica
        self._since = since
        # Of each container: which lines the log has, and which were given again.
        self._again: dict[tuple[str, str], tuple[Deduplicator, LogCursor]] = {}

    def begin(self, pod_uid: str, container: str, shown: Position) -> Position:
        """Where the reading of a container begins.

        :param pod_uid: uid of the pod.
        :param container: its container.
        :param shown: the cursor of the reader's log.
        """
        since = self._since or (max(shown[0] - _UNWRITTEN, 0), 0)
        if since >= shown:
            return shown
        in_log = Deduplicator(shown[0], shown[1] - since[1] if since[0] == shown[0] else shown[1])
        in_log.resume()
        self._again[pod_uid, container] = in_log, LogCursor.at(pod_uid, container, since)
        return since

    def split(self, pod_uid: str, container: str, lines: Lines) -> tuple[Lines, Lines]:
        """The lines that the log has, which come first, and those that it does not have.

        :param lines: the next ones of the container.
        """
        found = self._again.get((pod_uid, container))
        count = found[0].new_of([at for at, _ in lines]) if found else 0
        return lines[:count], lines[count:]

    def texts(self, pod_uid: str, container: str, lines: Lines) -> Iterator[str]:
        """The texts of lines that the log has.

        :param lines: as :meth:`split` gave them.
        """
        return self._again[pod_uid, container][1].emit(pod_uid, container, lines)

    def position(self, pod_uid: str, container: str) -> Position:
        """The position of the last of these lines that was taken."""
        return self._again[pod_uid, container][1].of(pod_uid, container)
