"""The lines of the replica that the job's progress is read from, including those that the task's log already has."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_trainer_provider.cluster.logs.cursor import Deduplicator, LogCursor
from airflow_trainer_provider.job.progress.tracker import Position

Lines = list[tuple[int, str]]

#: How much of the log is read again where no report was saved, in nanoseconds: a process that ended may have read a
#: report without saving it.
_UNWRITTEN = 300 * 10**9


class Replayed:
    """A replica whose lines are emitted again from a position on.

    :param replica: its name.
    :param since: the position: a time in nanoseconds, and how many lines with that same time are before it; None for
        some minutes before the last line that the task's log has.
    """

    def __init__(self, replica: str, since: Position | None) -> None:
        self.replica = replica
        self._since = since
        # By container: which lines the task's log has, and which were emitted again.
        self._again: dict[tuple[str, str], tuple[Deduplicator, LogCursor]] = {}

    def begin(self, pod_uid: str, container: str, shown: Position) -> Position:
        """The position from which on a container's log is read.

        :param pod_uid: uid of the pod.
        :param container: its container.
        :param shown: the position up to which the task's log has the lines.
        """
        since = self._since or (max(shown[0] - _UNWRITTEN, 0), 0)
        if since >= shown:
            return shown
        in_log = Deduplicator(shown[0], shown[1] - since[1] if since[0] == shown[0] else shown[1])
        in_log.resume()
        self._again[pod_uid, container] = in_log, LogCursor.at(pod_uid, container, since)
        return since

    def split(self, pod_uid: str, container: str, lines: Lines) -> tuple[Lines, Lines]:
        """The lines that the task's log has, which come first, and those that it does not have.

        :param lines: the next ones of the container.
        """
        found = self._again.get((pod_uid, container))
        count = found[0].new_of([at for at, _ in lines]) if found else 0
        return lines[:count], lines[count:]

    def texts(self, pod_uid: str, container: str, lines: Lines) -> Iterator[str]:
        """The texts of lines that the task's log has.

        :param lines: as :meth:`split` returned them.
        """
        return self._again[pod_uid, container][1].emit(pod_uid, container, lines)

    def position(self, pod_uid: str, container: str) -> Position:
        """The position of the last of these lines that was emitted again."""
        return self._again[pod_uid, container][1].of(pod_uid, container)
